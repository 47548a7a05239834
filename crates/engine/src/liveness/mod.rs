//! Signs of life of agents: calls and heartbeats, and the return of an agent that was declared offline.

mod sweeper;
mod sweeping;

use rookery_core::agents::{Announcement, ProfileChange, RegisterAgent};
use rookery_core::model::{LifeSource, Presence};
use rookery_core::{AgentId, Authority, Caller, Code, Rejection};
use rookery_store::{Operation, Submission, SubmitError};

use crate::engine::Engine;
use crate::error::EngineError;

pub use sweeper::{Allowed, Glance, Sighted, SweepVisibility, Sweeper, Witness};
pub use sweeping::{Sweeping, allowed};

/// Records signs of life of agents, and brings back agents that were declared offline.
#[derive(Clone, Copy, Debug)]
pub struct LivenessHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`LivenessHandle`].
    pub fn liveness(&self) -> LivenessHandle<'_> {
        LivenessHandle { engine: self }
    }
}

impl LivenessHandle<'_> {
    /// A sign of life, and the only door to presence. An id that is bound to a credential needs that credential; nobody
    /// shows life for somebody else, an observer for nobody, and strangers leave no trace.
    pub fn record_presence(&self, caller: &Caller, agent: &AgentId, source: LifeSource) -> Result<(), Rejection> {
        let roster = self.engine.roster();
        let claims_name = caller.actor.agent() == Some(agent) && !caller.may_speak_as_bound(agent);
        if claims_name && roster.is_sealed(agent) {
            return Err(Rejection::sealed(agent));
        }
        if caller.itself() == Some(agent) && roster.knows(agent) {
            self.engine.board().saw(agent, Presence { last_seen: self.engine.clock().now(), source });
        }
        Ok(())
    }

    /// The sign of life of an agent whose own call has just registered it. The call is committed: a credential that its id
    /// was bound to in between is for the next call to prove.
    pub(crate) fn record_newcomer(&self, caller: &Caller, agent: &AgentId) {
        self.record_presence(caller, agent, LifeSource::Call).ok();
    }

    /// A call that only reads. It is a sign of life like any other, and one by an agent that was declared offline brings
    /// it back.
    pub async fn touch(&self, caller: &Caller) -> Result<(), EngineError> {
        let Some(agent) = caller.actor.agent() else { return Ok(()) };
        self.record_presence(caller, agent, LifeSource::Call)?;
        if caller.itself().is_none() || !self.engine.roster().is_offline(agent) {
            return Ok(());
        }
        match self.return_unless_left(agent, caller).await {
            Err(EngineError::Submit(SubmitError::Refused(refusal))) => Err(refusal.into()),
            Err(error) => {
                // Whoever asks is answered also while nothing can be written; the next call brings it back.
                tracing::debug!(%agent, %error, "an agent that reads could not be brought back");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// A declared heartbeat. That of a live agent waits for nothing, neither for the queue nor for the store.
    pub async fn heartbeat(&self, caller: &Caller, agent: &AgentId) -> Result<(), EngineError> {
        if caller.power == Authority::Observer {
            return Err(Rejection::new(Code::Forbidden, "an observer may only read").into());
        }
        if !self.engine.roster().knows(agent) {
            self.look_up(agent).await?;
        }
        let own = caller.itself() == Some(agent);
        self.record_presence(caller, agent, LifeSource::Heartbeat)?;
        // One that brings its agent back, or comes from somebody else, is decided where every command is.
        if !own || !self.engine.roster().is_here(agent) {
            self.return_agent(agent, caller).await?;
            self.record_presence(caller, agent, LifeSource::Heartbeat)?;
        }
        Ok(())
    }

    /// A declared heartbeat that names the session of the agent's program. The session is kept with the agent; one that is
    /// known already is written nowhere again.
    pub async fn heartbeat_of_session(
        &self,
        caller: &Caller,
        agent: &AgentId,
        session: Option<String>,
    ) -> Result<(), EngineError> {
        self.heartbeat(caller, agent).await?;
        let Some(session) = session.filter(|session| !session.is_empty()) else { return Ok(()) };
        let known = self.engine.query().agent(agent).await?.value;
        if known.is_some_and(|known| known.profile.session_id.as_ref() == Some(&session)) {
            return Ok(());
        }
        let change = ProfileChange { session_id: Some(session), ..ProfileChange::default() };
        let announcement = Announcement::ProfileChange(change);
        let command = RegisterAgent { agent: agent.clone(), announcement };
        self.engine.commit(Submission::new(caller.clone(), command)).await?;
        Ok(())
    }

    pub(crate) async fn look_up(&self, agent: &AgentId) -> Result<(), EngineError> {
        let found = self.engine.query().agent(agent).await?;
        let Some(known) = found.value else {
            let unknown = Rejection::new(Code::AgentNotFound, "Agent not found");
            return Err(unknown.hint("register the agent first").into());
        };
        self.engine.roster().learn(&known, found.head.head);
        Ok(())
    }

    /// Brings an agent back on the credentials of its call, so that nobody does it in its name.
    pub(crate) async fn return_agent(&self, agent: &AgentId, caller: &Caller) -> Result<(), EngineError> {
        let caller = Caller { fence: None, ..caller.clone() };
        let command = rookery_core::agents::ReturnAgent { agent: agent.clone() };
        self.engine.commit(Submission::new(caller, command)).await?;
        Ok(())
    }

    /// Like [`LivenessHandle::return_agent`], but an agent that left a moment ago stays away, and its call is judged like that of
    /// any agent that is not on the team.
    pub(crate) async fn return_unless_left(&self, agent: &AgentId, caller: &Caller) -> Result<(), EngineError> {
        match self.return_agent(agent, caller).await {
            Err(EngineError::Submit(SubmitError::Refused(refusal))) if refusal.code == Code::AgentNotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Whether an agent is on the team as far as this node has heard: no rule may rest on it.
    pub fn knows(&self, agent: &AgentId) -> bool {
        self.engine.roster().knows(agent)
    }
}

/// Learns what other processes saw, and writes down what was seen here since the last time.
pub async fn exchange_presence(engine: &Engine) -> Result<(), EngineError> {
    engine.board().learn(engine.store().presence().await?);
    let entries = engine.board().unwritten();
    if !entries.is_empty() {
        engine.store().operate(Operation::WritePresence(entries.clone())).await?;
        engine.board().wrote(&entries);
    }
    Ok(())
}
