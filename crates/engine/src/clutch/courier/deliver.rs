//! One message to one endpoint: posted, and what became of it written down before anybody acts on it.

use std::sync::Arc;
use std::time::Duration;

use rookery_core::message::{AckMessages, GiveUpDelivery, Shown};
use rookery_core::{AgentId, Caller, Code, Command, Key, MessageId, Refusal, Row};
use rookery_store::node::Tenure;
use rookery_store::{Submission, SubmitError};

use super::carrier::{Answered, Carrier, Posting};
use super::signature;
use crate::engine::{Engine, EngineError};

pub(super) struct Job {
    pub(super) engine: Engine,
    pub(super) carrier: Arc<dyn Carrier>,
    pub(super) tenure: Tenure,
    pub(super) agent: AgentId,
    pub(super) url: String,
    pub(super) message: MessageId,
    /// Counted from one.
    pub(super) attempt: u32,
}

#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) agent: AgentId,
    pub(super) url: String,
    pub(super) message: MessageId,
    pub(super) attempt: u32,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// It was taken, and that is in the log.
    Done,
    /// The endpoint will never take it: given up on.
    Refused,
    /// It failed once too often: given up on.
    Dead,
    /// It failed, and is tried again.
    Failed { error: String, asked: Option<Duration> },
    /// Nothing had to be sent: it was acknowledged meanwhile, or is gone.
    Over,
    /// What became of it could not be read or written down.
    Unsaid,
}

/// What an answer means.
pub(crate) enum Meaning {
    Taken,
    Never(String),
    NotNow(String, Option<Duration>),
}

impl Job {
    pub(super) async fn deliver(self) -> Delivered {
        let outcome = self.carried().await.unwrap_or_else(|error| {
            tracing::debug!(%error, agent = %self.agent, message = %self.message, "a delivery was not written down");
            Outcome::Unsaid
        });
        let Job { agent, url, message, attempt, .. } = self;
        Delivered { agent, url, message, attempt, outcome }
    }

    async fn carried(&self) -> Result<Outcome, EngineError> {
        let Some(body) = self.body().await? else { return Ok(Outcome::Over) };
        let key = self.engine.access().delivery_key(&self.agent);
        let posting = Posting {
            signature: key.map(|key| signature::signature(&key, self.engine.clock().now(), &body)),
            url: self.url.clone(),
            agent: self.agent.clone(),
            message: self.message.clone(),
            body,
            attempt: self.attempt,
        };
        match meaning(self.carrier.post(posting).await) {
            Meaning::Taken => {
                let (agent, messages) = (self.agent.clone(), vec![self.message.clone()]);
                self.submit(AckMessages { agent, messages, shown: Shown::Now }).await?;
                Ok(Outcome::Done)
            }
            Meaning::Never(error) => {
                self.give_up(error).await?;
                Ok(Outcome::Refused)
            }
            Meaning::NotNow(error, _) if self.attempt >= self.engine.settings().effort.attempts => {
                self.give_up(error).await?;
                Ok(Outcome::Dead)
            }
            Meaning::NotNow(error, asked) => Ok(Outcome::Failed { error, asked }),
        }
    }

    /// The message as it is sent, unless nobody waits for it any more.
    async fn body(&self) -> Result<Option<Vec<u8>>, EngineError> {
        let key = Key::Delivery { message: self.message.clone(), agent: self.agent.clone() };
        let (mut rows, _) = self.engine.store().rows(vec![key]).await?;
        match rows.pop().flatten() {
            Some(Row::Delivery(delivery)) if delivery.is_settled() || delivery.is_dead() => Ok(None),
            _ => self.engine.parcel_bytes(&self.message).await,
        }
    }

    async fn give_up(&self, error: String) -> Result<(), EngineError> {
        let (message, agent) = (self.message.clone(), self.agent.clone());
        tracing::warn!(%message, %agent, error, "a message could not be delivered, and is given up on");
        self.submit(GiveUpDelivery { message, agent, attempts: self.attempt, error }).await
    }

    async fn submit(&self, command: impl Into<Command>) -> Result<(), EngineError> {
        let submission = Submission::internal(Caller::system(), command).out_of(self.tenure);
        match self.engine.store().submit(submission).await {
            Ok(_) => Ok(()),
            // What changed it meanwhile has settled it.
            Err(SubmitError::Refused(refusal)) if is_settled(&refusal) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether it was acknowledged or passed on, or is gone. Anything else is a fault of ours, and does not end a delivery.
fn is_settled(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Stale | Code::MessageNotFound)
}

pub(crate) fn meaning(answered: Result<Answered, String>) -> Meaning {
    let Answered { status, retry_after } = match answered {
        Ok(answered) => answered,
        Err(error) => return Meaning::NotNow(error, None),
    };
    let told = format!("it answered {status}");
    match status {
        200..=299 => Meaning::Taken,
        300..=399 => Meaning::NotNow(format!("{told}: redirects are not followed"), None),
        // Not there, not allowed or not now may pass; everything else of this kind is about the message.
        401 | 403 | 404 | 407 | 408 | 421 | 425 | 429 => Meaning::NotNow(told, retry_after),
        400..=499 => Meaning::Never(told),
        _ => Meaning::NotNow(told, retry_after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_means_for_the_message() {
        let word = |status: u16| match meaning(Ok(Answered { status, retry_after: None })) {
            Meaning::Taken => "taken",
            Meaning::Never(_) => "never",
            Meaning::NotNow(..) => "not now",
        };
        for (statuses, expected) in [
            (&[200, 201, 202, 204][..], "taken"),
            (&[400, 405, 409, 410, 413, 415, 422], "never"),
            (&[301, 307, 401, 403, 404, 408, 425, 429, 500, 502, 503, 504, 599, 101], "not now"),
        ] {
            for status in statuses {
                assert_eq!(word(*status), expected, "{status}");
            }
        }
    }
}
