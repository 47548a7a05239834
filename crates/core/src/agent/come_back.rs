//! An agent that was declared offline shows signs of life: it is here again, with what nobody took meanwhile.

use serde::{Deserialize, Serialize};

use super::{Agent, AgentReturned, Membership, take_if_vacant};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::{self, FileClaimed};
use crate::id::AgentId;
use crate::key::{Ask, Key};
use crate::task::{self, TaskClaimed};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ComeBack {
    pub agent: AgentId,
}

impl ComeBack {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::Agent(self.agent.clone()).into(), Key::Lead.into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let agent = view.agent_known(&self.agent)?;
        view.may_speak_for(caller, &self.agent)?;
        match agent.membership {
            Membership::Here => Ok(Decision::nothing(Reply::Done)),
            Membership::Offline(_) | Membership::Left(_) => Ok(Decision::new(comes_back(view, agent)?, Reply::Done)),
        }
    }
}

pub(super) fn comes_back(view: &View, agent: &Agent) -> Result<Vec<Fact>, Halt> {
    let mut facts = returns(view, agent)?;
    facts.extend(take_if_vacant(view, agent)?);
    Ok(facts)
}

/// The agent is here again with what it held; who leads is decided apart.
pub(super) fn returns(view: &View, agent: &Agent) -> Result<Vec<Fact>, Halt> {
    let mut facts = vec![Fact::AgentReturned(AgentReturned { agent: agent.id.clone() })];
    for id in &agent.lost.tasks {
        if let Some(task) = view.task(id)?
            && task.claim.is_none()
            && task.reserved_for.is_none()
            && task.state == task::State::Pending
        {
            facts.push(Fact::TaskClaimed(TaskClaimed::new(task, &agent.id)));
        }
    }
    for lost in &agent.lost.files {
        if file::overlapping(view, &lost.path, &agent.id)?.is_empty() {
            let known = view.file(lost.path.key())?;
            facts.push(Fact::FileClaimed(FileClaimed {
                path: lost.path.clone(),
                agent: agent.id.clone(),
                task: lost.task.clone(),
                hash: known.map_or_else(String::new, |file| file.content_hash.clone()),
                from: None,
            }));
        }
    }
    Ok(facts)
}
