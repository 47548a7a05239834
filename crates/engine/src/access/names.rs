//! Names of new agents, held against those of people and of other agents.
//!
//! Tokens are no part of the log, so the rules cannot know whose names are taken by people: it is checked here, before a command
//! that makes an agent known is submitted.

use rookery_core::agents::RegisterAgent;
use rookery_core::clutch::{Act, Ingest};
use rookery_core::kernel::instance::bare;
use rookery_core::kernel::name::look_alike;
use rookery_core::teams::StartTeam;
use rookery_core::{AgentId, AnyCommand, Code, Rejection};

use crate::access::AccessHandle;
use crate::engine::Engine;
use crate::error::EngineError;

/// The holder of a new token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewToken {
    OfAgent,
    OfPerson,
}

impl AccessHandle<'_> {
    /// Refuses a token that would make a person and an agent hard to tell apart.
    pub async fn check_token_name(&self, of: NewToken, name: &str) -> Result<(), EngineError> {
        if of == NewToken::OfAgent {
            let agent = AgentId::from(name);
            return match self.person_like(bare(&agent)) {
                Some(person) => Err(resembles(&agent, &format!("the person '{person}'")).into()),
                None => Ok(()),
            };
        }
        let agents = self.engine.query().agents().await?.value;
        match agents.iter().find(|agent| !agent.has_left() && look_alike(bare(&agent.id), name)) {
            Some(agent) => Err(Rejection::new(
                Code::AlreadyExists,
                format!("the agent '{}' could be taken for that person", agent.id),
            )
            .hint("let the agent leave first, or choose another name for the person")
            .into()),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Refuses agents whose name is that of a person with a token, or looks like it. A name with letters of other scripts must
    /// not look like that of another agent either.
    pub(crate) async fn check_new_names(&self, command: &AnyCommand) -> Result<(), EngineError> {
        for agent in named_by(command) {
            if let Some(person) = self.access().person_like(bare(agent)) {
                return Err(resembles(agent, &format!("the person '{person}'")).into());
            }
            if agent.as_str().is_ascii() {
                continue;
            }
            let agents = self.query().agents().await?.value;
            let twin = |known: &AgentId| known != agent && look_alike(known.as_str(), agent.as_str());
            if let Some(twin) = agents.iter().map(|known| &known.id).find(|known| twin(known)) {
                return Err(resembles(agent, &format!("the agent '{twin}'")).into());
            }
        }
        Ok(())
    }
}

fn resembles(agent: &AgentId, whom: &str) -> Rejection {
    Rejection::new(Code::Invalid, format!("id '{agent}' could be taken for {whom}"))
        .hint("choose another id, for example the tool's name and a number")
}

/// The agents that a command makes known.
fn named_by(command: &AnyCommand) -> Vec<&AgentId> {
    if let Some(register) = command.get::<RegisterAgent>() {
        added_by(register)
    } else if let Some(start) = command.get::<StartTeam>() {
        start.agents.iter().map(|new| &new.agent).collect()
    } else if let Some(Ingest { act: Act::Register(register), .. }) = command.get() {
        added_by(register)
    } else {
        vec![]
    }
}

fn added_by(register: &RegisterAgent) -> Vec<&AgentId> {
    if register.can_add_agent() { vec![&register.agent] } else { vec![] }
}
