//! One message to one endpoint: posted, and what became of it written down before anybody acts on it.

use rookery_core::model::{DeliveryId, LifeSource};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::kernel::outbound::AllowedHost;
use rookery_core::messages::{AckMessages, GiveUpDelivery, Shown};
use rookery_core::{AgentId, AnyCommand, Auth, Caller, Code, Key, MessageId, Rejection, Row};
use rookery_store::node::LeaderEpoch;
use rookery_store::{Submission, SubmitError};

use crate::endpoints::answer::{Meaning, meaning};
use crate::endpoints::{EndpointClient, HttpAttempt, signature};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::state::delivery_attempts::AttemptState;

/// A message that is to be posted now. Whoever carries it tells the courier what it came to.
#[derive(Debug)]
pub struct Job {
    pub(super) engine: Engine,
    pub(super) carrier: Arc<dyn EndpointClient>,
    pub(super) tenure: LeaderEpoch,
    /// No two of a tenure have the same.
    pub(super) number: u64,
    pub(super) agent: AgentId,
    pub(super) url: String,
    pub(super) message: MessageId,
    /// Counted from one.
    pub(super) attempt: u32,
    /// What an earlier attempt came to and could not be written down: nothing has to be posted for it.
    pub(super) verdict: Option<Verdict>,
}

#[derive(Debug)]
pub struct Delivered {
    pub(super) number: u64,
    pub(super) agent: AgentId,
    pub(super) url: String,
    pub(super) message: MessageId,
    pub(super) attempt: u32,
    pub(super) showed: Showed,
    pub(super) fate: Fate,
}

/// How a delivery ended, which is to stand in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Taken,
    GivenUp { error: String },
}

/// What the endpoint showed of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Showed {
    /// It works, whatever it thinks of the message.
    Answered,
    Failed,
    /// It was not asked.
    Nothing,
}

/// What became of the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The log says how it ended.
    Over,
    /// It failed, and is tried again.
    Again { error: String, asked: Option<Duration> },
    /// How it ended could not be written down, which is tried again.
    Unwritten(Verdict),
    /// It could not even be looked at.
    Untried,
}

impl Job {
    pub async fn deliver(self) -> Delivered {
        let (showed, fate) = match self.verdict.clone() {
            Some(verdict) => (Showed::Nothing, self.write(verdict).await),
            None => self.post().await,
        };
        let Job { number, agent, url, message, attempt, .. } = self;
        Delivered { number, agent, url, message, attempt, showed, fate }
    }

    async fn post(&self) -> (Showed, Fate) {
        let (body, allowed) = match self.body().await {
            Ok(Some(found)) => found,
            Ok(None) => return (Showed::Nothing, Fate::Over),
            Err(error) => return (Showed::Nothing, self.unreadable(error).await),
        };
        match meaning(self.carrier.post(self.posting(body, allowed)).await) {
            Meaning::Taken => {
                let fate = self.write(Verdict::Taken).await;
                self.is_alive().await;
                (Showed::Answered, fate)
            }
            Meaning::Never(error) => (Showed::Answered, self.write(Verdict::GivenUp { error }).await),
            Meaning::NotNow(error, asked) => (Showed::Failed, self.again(error, asked).await),
        }
    }

    fn posting(&self, body: Vec<u8>, allowed: Option<AllowedHost>) -> HttpAttempt {
        let key = self.engine.access().delivery_key(&self.agent);
        HttpAttempt {
            signature: key.map(|key| signature::signature(&key, self.engine.clock().now(), &body)),
            url: self.url.clone(),
            allowed,
            agent: self.agent.clone(),
            message: self.message.clone(),
            body,
            attempt: self.attempt,
        }
    }

    /// The message as it is sent, and the host that a person allowed for it; `None` if the delivery is settled.
    async fn body(&self) -> Result<Option<(Vec<u8>, Option<AllowedHost>)>, EngineError> {
        let key = Key::Delivery(DeliveryId { message: self.message.clone(), agent: self.agent.clone() });
        let (rows, _) = self.engine.store().rows(vec![key, Key::Agent(self.agent.clone())]).await?;
        let mut allowed = None;
        for row in rows.into_iter().flatten() {
            match row {
                Row::Delivery(delivery) if delivery.is_settled() || delivery.is_dead() => return Ok(None),
                Row::Agent(agent) => allowed = agent.allowed_endpoint,
                _ => {}
            }
        }
        Ok(self.engine.inbox().parcel_bytes(&self.message).await?.map(|body| (body, allowed)))
    }

    /// Words that are lost are a matter of this one message: it holds up nothing that comes after it.
    async fn unreadable(&self, error: EngineError) -> Fate {
        let told = format!("its words cannot be read: {error}");
        match error {
            EngineError::Artifact(lost) if lost.is_of_one() => self.write(Verdict::GivenUp { error: told }).await,
            EngineError::Artifact(_) => self.again(told, None).await,
            EngineError::Submit(_) | EngineError::Read(_) => {
                tracing::debug!(%error, agent = %self.agent, message = %self.message, "what waits cannot be read");
                Fate::Untried
            }
        }
    }

    async fn again(&self, error: String, asked: Option<Duration>) -> Fate {
        if self.attempt >= self.engine.config().delivery.attempts {
            return self.write(Verdict::GivenUp { error }).await;
        }
        Fate::Again { error, asked }
    }

    async fn write(&self, verdict: Verdict) -> Fate {
        let (message, agent) = (self.message.clone(), self.agent.clone());
        let command: AnyCommand = match &verdict {
            Verdict::Taken => {
                let last_at = self.engine.clock().now();
                let state = AttemptState { attempts: self.attempt, last_at, error: None, next_at: None };
                self.engine.attempt_log().put(&agent, &message, state);
                AckMessages { agent, messages: vec![message], shown: Shown::Now }.into()
            }
            Verdict::GivenUp { error } => {
                tracing::warn!(%message, %agent, error, "a message could not be delivered, and is given up on");
                GiveUpDelivery { message, agent, attempts: self.attempt, error: error.clone() }.into()
            }
        };
        let submission = Submission::internal(Caller::system(), command).out_of(self.tenure);
        match self.engine.commit(submission).await {
            Ok(_) => Fate::Over,
            // What changed it meanwhile has settled it, or another node does.
            Err(SubmitError::Refused(refusal)) if is_settled(&refusal) => Fate::Over,
            Err(error) => {
                tracing::debug!(%error, agent = %self.agent, message = %self.message, "a delivery was not written down");
                Fate::Unwritten(verdict)
            }
        }
    }

    /// An agent that shows itself by nothing but calls is here as long as its endpoint takes messages. Signs of life are kept in
    /// memory and written down now and then, however many there are.
    ///
    /// One that sends heartbeats is believed by those alone: something in front of it may answer when it is gone. For the same
    /// reason nobody comes back by this who went by its own word, or who was missed while it had work.
    async fn is_alive(&self) {
        let seen = self.engine.board().get(&self.agent);
        if seen.is_some_and(|seen| seen.source != LifeSource::Call) {
            return;
        }
        if self.engine.roster().is_offline(&self.agent) && !self.was_only_silent().await {
            return;
        }
        let agent = Caller { auth: Auth::Token, ..Caller::asserted(self.agent.clone()) };
        if let Err(error) = self.engine.liveness().touch(&agent).await {
            tracing::debug!(%error, agent = %self.agent, "a sign of life was not taken");
        }
    }

    async fn was_only_silent(&self) -> bool {
        let known = self.engine.query().agent(&self.agent).await.ok().and_then(|known| known.value);
        known.is_some_and(|known| !known.said_goodbye && known.claims_when_offline.is_empty())
    }
}

/// Whether it was acknowledged or passed on, or is gone. Anything else is a fault of ours, and does not end a delivery.
fn is_settled(refusal: &Rejection) -> bool {
    matches!(refusal.code, Code::Stale | Code::MessageNotFound)
}
