//! An agent leaves on its own account or is removed: it frees what it holds and stays readable by id.

use serde::{Deserialize, Serialize};

use super::offline::{freeing_asks, frees};
use super::successor;
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::ReleaseReason;
use crate::id::AgentId;
use crate::key::Ask;
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leave {
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentLeft {
    pub agent: AgentId,
}

impl Leave {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        freeing_asks(&self.agent)
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let agent = view.agent_known(&self.agent)?;
        view.may_speak_for(caller, &self.agent)?;
        if agent.has_left() {
            return Ok(Decision::nothing(Reply::Done));
        }
        let mut facts = vec![Fact::AgentLeft(AgentLeft { agent: self.agent.clone() })];
        facts.extend(frees(view, &self.agent, ReleaseReason::HolderLeft)?.0);
        facts.extend(successor(view, &self.agent)?);
        Ok(Decision::new(facts, Reply::Done))
    }
}
