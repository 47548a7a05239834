//! Inboxes: mentions, direct messages and messages of the Clutch protocol that an agent has not acknowledged.

use rookery_core::messages::ReadMessages;
use rookery_core::model::message::{Form, Standing};
use rookery_core::{AgentId, Caller, MessageId};

use super::Waiting;
use crate::error::EngineError;
use crate::messages::InboxHandle;
use crate::submit::Request;

/// Coordination messages have a list of their own.
pub(super) fn is_in_inbox(form: Form) -> bool {
    matches!(form, Form::Entry | Form::Direct | Form::Envelope)
}

impl InboxHandle<'_> {
    /// What an agent has not acknowledged of its inbox, and is shown by this.
    pub async fn check(&self, caller: &Caller, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        let waiting = self.list(agent, limit).await?;
        self.mark_shown(caller, agent, &waiting).await?;
        Ok(waiting)
    }

    /// The same without marking anything.
    pub async fn peek(&self, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        let waiting = self.preview(agent, limit).await?;
        self.engine.shown().peeked(agent, waiting.standings().map(|(message, _)| message.clone()));
        Ok(waiting)
    }

    /// What waits in an inbox, for whoever tells the agent. What of it the agent is told is not known by this, so that no
    /// acknowledgement covers it; but whatever the agent says next may be an answer to it.
    pub async fn preview(&self, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        let waiting = self.list(agent, limit).await?;
        self.engine.shown().saw(agent, waiting.pending.iter().map(|pending| &pending.message));
        Ok(waiting)
    }

    /// What waits in an inbox; nobody is shown it by this.
    pub async fn list(&self, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        self.list_classes(agent, limit, is_in_inbox).await
    }

    /// Marks what an agent is shown, in one fact.
    pub(super) async fn mark_shown(
        &self,
        caller: &Caller,
        agent: &AgentId,
        waiting: &Waiting,
    ) -> Result<(), EngineError> {
        let unseen = waiting.standings().filter(|(_, standing)| *standing == Standing::Queued);
        let unseen = unseen.map(|(message, _)| message.clone()).collect();
        self.mark_read(caller, agent, unseen).await?;
        self.engine.shown().saw(agent, waiting.pending.iter().map(|pending| &pending.message));
        Ok(())
    }

    pub(super) async fn mark_read(
        &self,
        caller: &Caller,
        agent: &AgentId,
        messages: Vec<MessageId>,
    ) -> Result<(), EngineError> {
        if !messages.is_empty() {
            self.engine.submit(Request::new(caller.clone(), ReadMessages { agent: agent.clone(), messages })).await?;
        }
        Ok(())
    }
}
