//! An agent announces itself, for the first time or again.

use serde::{Deserialize, Serialize};

use super::{Agent, LeadChosen, LeadReason, Lost, Membership, Metadata, Role, Status};
use crate::actor::{Actor, Auth, Caller};
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::{AgentId, Seq, Timestamp};
use crate::key::{Ask, Key};
use crate::limit;
use crate::refusal::{Code, Refusal};
use crate::view::View;

/// What an agent says about itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Profile {
    pub tool: String,
    pub role: Role,
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// Joins the team, or updates what the team knows of the agent and brings it back. What it holds stays its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Register {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentRegistered {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
    pub sealed: bool,
}

/// An agent that was here already announced itself again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentUpdated {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
    pub sealed: bool,
}

impl Register {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::Agent(self.id.clone()).into(), Key::Lead.into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        self.check()?;
        view.may_speak_for(caller, &self.id)?;
        let sealed = matches!(caller.auth, Auth::Token | Auth::Session) && caller.actor.agent() == Some(&self.id);
        let known = view.agent(&self.id)?;
        let mut facts = Vec::new();
        match known {
            Some(agent) if !agent.has_left() => {
                if agent.profile != self.profile || (sealed && !agent.sealed) {
                    facts.push(Fact::AgentUpdated(AgentUpdated {
                        id: self.id.clone(),
                        profile: self.profile.clone(),
                        sealed: sealed || agent.sealed,
                    }));
                }
                if !agent.is_live() {
                    facts.extend(super::come_back::returns(view, agent)?);
                }
            }
            _ => facts.push(Fact::AgentRegistered(AgentRegistered {
                id: self.id.clone(),
                profile: self.profile.clone(),
                sealed: sealed || known.is_some_and(|agent| agent.sealed),
            })),
        }
        facts.extend(self.lead(view)?);
        Ok(Decision::new(facts, Reply::Row(Key::Agent(self.id.clone()))))
    }

    fn check(&self) -> Result<(), Refusal> {
        limit::name("id", self.id.as_str(), limit::AGENT_ID_BYTES)?;
        if Actor::is_reserved(self.id.as_str()) {
            return Err(Refusal::new(Code::Invalid, format!("id '{}' is reserved", self.id))
                .hint("choose another id, for example the tool's name and a number"));
        }
        let profile = &self.profile;
        if profile.tool.is_empty() {
            return Err(Refusal::new(Code::Invalid, "tool must not be empty"));
        }
        limit::text("tool", &profile.tool, limit::NAME_BYTES)?;
        limit::list("capabilities", &profile.capabilities)?;
        for capability in &profile.capabilities {
            limit::text("capabilities", capability, limit::NAME_BYTES)?;
        }
        limit::text("workspace_path", profile.workspace_path.as_deref().unwrap_or(""), limit::PATH_BYTES)
    }

    /// The first that asks for the lead gets it; who leads only because nobody asked yields to one that does.
    fn lead(&self, view: &View) -> Result<Option<Fact>, Halt> {
        let seat = view.lead()?;
        let asks = self.profile.role == Role::Lead;
        let reason = match seat.and_then(|lead| lead.holder.as_ref().map(|holder| (holder, lead.asked))) {
            None if asks => LeadReason::Asked,
            None => LeadReason::First,
            Some((_, false)) if asks => LeadReason::Asked,
            Some(_) => return Ok(None),
        };
        Ok(Some(LeadChosen::fact(Some(self.id.clone()), reason, seat)))
    }
}

impl AgentRegistered {
    pub(super) fn joined(&self, old: Option<Agent>, seq: Seq, at: Timestamp) -> Agent {
        Agent {
            id: self.id.clone(),
            profile: self.profile.clone(),
            status: Status::Idle,
            membership: Membership::Here,
            current_task: None,
            joined_at: at,
            joined: seq,
            seen_at: at,
            sealed: self.sealed,
            holding: old.map_or(0, |agent| agent.holding),
            lost: Lost::default(),
        }
    }
}

impl AgentUpdated {
    pub(super) fn update(&self, agent: &mut Agent, at: Timestamp) {
        agent.profile = self.profile.clone();
        agent.sealed = self.sealed;
        agent.seen_at = at;
    }
}
