//! Inboxes: mentions and direct messages that an agent has not acknowledged.

use rookery_core::message::{Form, ReadMessages, Standing};
use rookery_core::{AgentId, Caller, MessageId};

use super::{Pending, Waiting};
use crate::engine::{Engine, EngineError, Request};

impl Engine {
    /// Mentions and direct messages that an agent has not acknowledged, and which it is shown by this.
    pub async fn check_inbox(
        &self,
        caller: &Caller,
        agent: &AgentId,
        limit: Option<u32>,
    ) -> Result<Waiting, EngineError> {
        let waiting = self.inbox(agent, limit).await?;
        self.show(caller, agent, &waiting.pending).await?;
        Ok(waiting)
    }

    /// The same without marking anything.
    pub async fn peek_inbox(&self, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        let waiting = self.inbox(agent, limit).await?;
        self.shown().peeked(agent, waiting.pending.iter().map(|pending| pending.message.id().clone()));
        self.shown().saw(agent, waiting.pending.iter().map(|pending| &pending.message));
        Ok(waiting)
    }

    /// What waits in an inbox; nobody is shown it by this.
    pub async fn inbox(&self, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        self.pending(agent, limit, |form| matches!(form, Form::Entry | Form::Direct)).await
    }

    /// Marks what an agent is shown, in one fact.
    pub(super) async fn show(&self, caller: &Caller, agent: &AgentId, pending: &[Pending]) -> Result<(), EngineError> {
        let unseen = pending.iter().filter(|pending| pending.standing == Standing::Queued);
        let unseen = unseen.map(|pending| pending.message.id().clone()).collect();
        self.read(caller, agent, unseen).await?;
        self.shown().saw(agent, pending.iter().map(|pending| &pending.message));
        Ok(())
    }

    pub(super) async fn read(
        &self,
        caller: &Caller,
        agent: &AgentId,
        messages: Vec<MessageId>,
    ) -> Result<(), EngineError> {
        if !messages.is_empty() {
            self.submit(Request::new(caller.clone(), ReadMessages { agent: agent.clone(), messages })).await?;
        }
        Ok(())
    }
}
