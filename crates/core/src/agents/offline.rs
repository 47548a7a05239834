//! Declaring an agent offline: only with evidence, checked again where the decision is made.

use serde::{Deserialize, Serialize};

use super::successor;
use crate::kernel::code::Code;
use crate::kernel::id::AgentId;
use crate::kernel::rejection::Rejection;
use crate::model::agent::{Agent, ClaimsWhenOffline, Evidence, LostFile};
use crate::model::file::ReleaseReason;
use crate::model::{EventStamp, Key, Lookup, ReadItem, ReadSet, RowWriter, Undecided, View, task};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};
use crate::{files, tasks};

/// Refused if a newer sign of life than the evidence's is known where the decision is made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeclareOffline {
    pub agent: AgentId,
    pub evidence: Evidence,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentWentOffline {
    pub agent: AgentId,
    pub evidence: Evidence,
    pub lost: ClaimsWhenOffline,
}

impl Event for AgentWentOffline {
    const KIND: &'static str = "agent.went_offline";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.agent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.agent.clone(), |agent: &mut Agent| agent.go_offline(&self.evidence, &self.lost, stamp.at));
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentReturned {
    pub agent: AgentId,
}

impl Event for AgentReturned {
    const KIND: &'static str = "agent.returned";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Agent(self.agent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.agent.clone(), |agent: &mut Agent| agent.come_back(stamp.at));
    }
}

impl Command for DeclareOffline {
    const NAME: &'static str = "DeclareOffline";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        let mut read_set = freeing_asks(&self.agent);
        read_set.push(ReadItem::Presence(self.agent.clone()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        let agent = cx.view.agent_row(&self.agent)?;
        cx.view.ensure_authority(cx.caller, "declare an agent offline")?;
        let seen = cx.view.presence(&self.agent)?.map(|presence| presence.last_seen);
        if !agent.is_online() || seen.is_some_and(|seen| seen > self.evidence.last_seen) {
            return Err(Rejection::new(Code::Stale, format!("agent '{}' is not silent any more", self.agent)).into());
        }
        Ok(Decision::new(goes_offline(cx.view, agent, &self.evidence)?, ReplySource::done()))
    }
}

/// Everything that follows when an agent is no longer there to hold it.
pub(super) fn goes_offline(view: &View, agent: &Agent, evidence: &Evidence) -> Result<Vec<AnyEvent>, Undecided> {
    let (freed, lost) = frees(view, &agent.id, ReleaseReason::HolderOffline)?;
    let gone = AgentWentOffline { agent: agent.id.clone(), evidence: evidence.clone(), lost };
    let mut facts = vec![AnyEvent::new(gone)];
    facts.extend(freed);
    facts.extend(successor(view, &agent.id)?);
    Ok(facts)
}

pub(super) fn freeing_asks(agent: &AgentId) -> ReadSet {
    vec![
        Key::Agent(agent.clone()).into(),
        Key::lead().into(),
        Lookup::online_agents().into(),
        Lookup::tasks_held_by(agent).into(),
        Lookup::files_held_by(agent).into(),
    ]
}

/// Returns its tasks to the queue, each with a recovery checkpoint, and frees its files.
pub(super) fn frees(
    view: &View,
    agent: &AgentId,
    reason: ReleaseReason,
) -> Result<(Vec<AnyEvent>, ClaimsWhenOffline), Undecided> {
    let (mut facts, mut lost) = (Vec::new(), ClaimsWhenOffline::default());
    for held in view.tasks_held_by(agent)? {
        if held.claim.is_some() {
            lost.tasks.push(held.id.clone());
            facts.push(tasks::recovery(held, reason));
        }
        facts.push(tasks::released(held, task::ReleaseCause::Holder(reason)));
    }
    let files = view.files_held_by(agent)?;
    for file in &files {
        let task = file.claim.as_ref().and_then(|claim| claim.task.clone());
        lost.files.push(LostFile { path: file.path.clone(), task });
    }
    facts.extend(files::free_files(view, &files, reason)?);
    Ok((facts, lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::ClaimFile;
    use crate::kernel::caller::Caller;
    use crate::kernel::id::Timestamp;
    use crate::model::agent::{AgentRole, AgentStatus, Membership};
    use crate::model::task::{CheckpointKind, TaskState};
    use crate::model::{Key, Row};
    use crate::testing::{World, by, claim_file, moves, offline};

    #[test]
    fn what_it_held_is_free_again_and_tells_why() {
        let mut w = World::of(&["a", "b"]);
        for task in ["claimed", "reviewed"] {
            w.creates(task, &[]);
        }
        w.reserves("reserved", "b");
        w.claims("b", "claimed");
        w.starts("b", "reviewed");
        w.does(&by("b"), moves("reviewed", TaskState::Review));
        w.claims_file("b", "src/").unwrap();
        w.does(&by("b"), ClaimFile { task: Some("claimed".into()), ..claim_file("b", "doc") });
        w.goes_offline("b");
        for task in ["claimed", "reviewed", "reserved"] {
            assert_eq!((w.task(task).state, w.task(task).held_by()), (TaskState::Pending, None), "{task}");
        }
        assert_eq!((w.file_holder("src/"), w.file_holder("doc")), (None, None));
        let b = w.agent("b");
        assert!(matches!(b.membership, Membership::Offline(_)));
        assert_eq!((b.status, b.holding, &b.current_task), (AgentStatus::Offline, 0, &None));
        assert_eq!(b.claims_when_offline.tasks, ["claimed".into(), "reviewed".into()]);
        assert_eq!(b.claims_when_offline.files.len(), 2);
        for (task, checkpoints) in [("claimed", 1), ("reviewed", 1), ("reserved", 0)] {
            assert_eq!(w.task(task).checkpoints, checkpoints, "{task}");
        }
        match w.rows().get(&Key::Checkpoint("cp_reviewed_1".to_owned())) {
            Some(Row::Checkpoint(checkpoint)) => {
                assert_eq!(checkpoint.kind, CheckpointKind::Recovery);
                assert!(checkpoint.summary.contains("b went offline while the task was review"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn stale_evidence_is_refused() {
        let mut w = World::of(&["a", "b"]);
        let system = Caller::system();
        w.saw("b", 500);
        assert_eq!(w.refuses(&system, offline("b", 499)), Code::Stale);
        assert_eq!(w.refuses(&system, offline("x", 500)), Code::AgentNotFound);
        w.does(&system, offline("b", 500));
        assert_eq!(w.agent("b").seen_at, Timestamp(500));
        assert_eq!(w.refuses(&system, offline("b", 500)), Code::Stale, "it is offline already");
    }

    #[test]
    fn no_agent_declares_another_offline() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("a"), offline("b", 1_000)), Code::Forbidden);
        assert_eq!(w.refuses(&Caller::anonymous(), offline("b", 1_000)), Code::Forbidden);
    }

    /// Registers these in order, sends the first away, and tells who leads then.
    fn heir(agents: &[(&str, AgentRole)]) -> Option<String> {
        let mut w = World::default();
        for (agent, role) in agents {
            w.joins(agent, *role);
        }
        let first = agents[0].0;
        assert_eq!(w.lead(), Some(first));
        w.goes_offline(first);
        w.lead().map(str::to_owned)
    }

    #[test]
    fn the_lead_passes_to_one_that_asked_then_to_specialists_then_to_workers_the_oldest_first() {
        use AgentRole::*;
        for (others, next) in [
            (vec![("w", Worker), ("s", Specialist), ("l", Lead)], Some("l")),
            (vec![("l1", Lead), ("l2", Lead)], Some("l1")),
            (vec![("w", Worker), ("s1", Specialist), ("s2", Specialist)], Some("s1")),
            (vec![("w1", Worker), ("w2", Worker)], Some("w1")),
            (vec![], None),
        ] {
            let agents: Vec<_> = std::iter::once(("first", Lead)).chain(others).collect();
            assert_eq!(heir(&agents).as_deref(), next, "{agents:?}");
        }
    }

    #[test]
    fn an_heir_that_never_asked_yields_to_one_that_does() {
        let mut w = World::default();
        w.joins("l", AgentRole::Lead);
        w.joins("w", AgentRole::Worker);
        w.goes_offline("l");
        assert_eq!((w.lead(), w.seat().unwrap().asked), (Some("w"), false));
        w.joins("l", AgentRole::Lead);
        assert_eq!((w.lead(), w.seat().unwrap().asked), (Some("l"), true));
        w.joins("l2", AgentRole::Lead);
        w.goes_offline("w");
        assert_eq!(w.lead(), Some("l"), "only the lead's own going matters");
    }
}
