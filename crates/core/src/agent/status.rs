//! What an agent says it is doing. It lasts until its work says otherwise.

use serde::{Deserialize, Serialize};

use super::offline::{Evidence, freeing_asks, goes_offline};
use super::{Membership, Status};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::{AgentId, TaskId};
use crate::key::{Ask, Key};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetStatus {
    pub agent: AgentId,
    pub status: Status,
    pub current_task: Option<TaskId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentStatusSet {
    pub agent: AgentId,
    pub from: Status,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_task: Option<TaskId>,
}

impl SetStatus {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        match self.status {
            Status::Offline => freeing_asks(&self.agent),
            _ => vec![Key::Agent(self.agent.clone()).into(), Key::Lead.into()],
        }
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let agent = view.agent_known(&self.agent)?;
        view.may_speak_for(caller, &self.agent)?;
        if self.status == Status::Offline {
            if !agent.is_live() {
                return Ok(Decision::nothing(Reply::Done));
            }
            let evidence = Evidence { last_seen: agent.seen_at, source: None, limit_millis: 0 };
            return Ok(Decision::new(goes_offline(view, agent, &evidence)?, Reply::Done));
        }
        let mut facts = Vec::new();
        if agent.membership != Membership::Here {
            facts.extend(super::come_back::comes_back(view, agent)?);
        }
        let new_task = self.current_task.is_some() && self.current_task != agent.current_task;
        if agent.status != self.status || new_task || !facts.is_empty() {
            facts.push(Fact::AgentStatusSet(AgentStatusSet {
                agent: self.agent.clone(),
                from: agent.status,
                status: self.status,
                current_task: self.current_task.clone(),
            }));
        }
        Ok(Decision::new(facts, Reply::Done))
    }
}
