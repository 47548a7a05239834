//! Following the log: the effect of each event on the candidates.

use crate::agents::{AgentRegistered, AgentUpdated};
use crate::eligibility::{Candidates, Change};
use crate::kernel::id::AgentId;
use crate::model::agent::Agent;
use crate::model::{EventStamp, Key, Row, Stored};
use crate::plans::TaskRemoved;
use crate::tasks::{
    TaskCancelled, TaskClaimed, TaskCompleted, TaskFailed, TaskReassigned, TaskReleased, TaskReopened, TaskReserved,
    TaskSkipped, TaskTimedOut,
};
use crate::traits::{AnyEvent, LogRow, apply_row};

impl Candidates {
    /// Takes the next row of the log, and tells what that means for choices.
    pub fn follow(&mut self, row: &LogRow) -> Change {
        let mut change = Change::Nothing;
        for key in row.event.write_set() {
            if let Key::Agent(id) = key {
                change = change.max(self.fold(&id, row));
            }
        }
        change.max(self.changes_hands(&row.event))
    }

    fn changes_hands(&mut self, event: &AnyEvent) -> Change {
        let Some(task) = event.task() else { return Change::Nothing };
        let reserved = event.get().map(|event: &TaskReserved| &event.agent);
        let reassigned = || event.get().map(|event: &TaskReassigned| &event.to);
        let claimed = || event.get().map(|event: &TaskClaimed| &event.agent);
        if let Some(agent) = reserved.or_else(reassigned).or_else(claimed) {
            return self.moves(task, agent);
        }
        let is_freed = event.is::<TaskReleased>()
            || event.is::<TaskCompleted>()
            || event.is::<TaskFailed>()
            || event.is::<TaskTimedOut>()
            || event.is::<TaskCancelled>()
            || event.is::<TaskSkipped>()
            || event.is::<TaskReopened>()
            || event.is::<TaskRemoved>();
        if is_freed { self.unassign(task) } else { Change::Nothing }
    }

    fn fold(&mut self, id: &AgentId, row: &LogRow) -> Change {
        let says_what_it_is = row.event.is::<AgentRegistered>() || row.event.is::<AgentUpdated>();
        match self.agents.get_mut(id) {
            Some(candidate) if !says_what_it_is => {
                let old = Agent::clone(&candidate.agent);
                match agent_after(Some(old), id, row) {
                    Some(agent) if !agent.has_left() => candidate.update(agent),
                    _ => {
                        self.remove(id);
                        Change::Order
                    }
                }
            }
            known => {
                let old = known.map(|candidate| Agent::clone(&candidate.agent));
                match agent_after(old, id, row) {
                    Some(agent) => {
                        self.put(agent);
                        Change::Room
                    }
                    None => Change::Nothing,
                }
            }
        }
    }
}

/// The row of an agent after an event.
fn agent_after(old: Option<Agent>, id: &AgentId, row: &LogRow) -> Option<Agent> {
    let stamp = EventStamp { seq: row.seq, at: row.at };
    apply_row(old.map(Row::Agent), &Key::Agent(id.clone()), &row.event, stamp).and_then(Agent::take_row)
}
