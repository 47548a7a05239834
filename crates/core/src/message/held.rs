//! A person decides about a message that was held.

use serde::{Deserialize, Serialize};

use super::{Fate, Header};
use crate::actor::{Caller, Power};
use crate::command::{Decision, Halt, Now, Reply};
use crate::fact::Fact;
use crate::id::{AgentId, MessageId, Timestamp};
use crate::key::{Ask, Key};
use crate::limit;
use crate::refusal::{Code, Refusal};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReleaseHeld {
    pub message: MessageId,
    pub verdict: Verdict,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Deliver,
    Discard { reason: Option<String> },
}

/// A held message is queued for its recipients after all, and begins a new chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageReleased {
    #[serde(flatten)]
    pub header: Header,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageDiscarded {
    pub message: MessageId,
    pub from: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ReleaseHeld {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::Message(self.message.clone()).into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller, now: &Now) -> Result<Decision, Halt> {
        if caller.power != Power::Person {
            return Err(Refusal::new(Code::Forbidden, "only a person may decide about a held message").into());
        }
        let message = view.message_known(&self.message)?;
        let header = message.letter.header.clone();
        let reply = Reply::Row(Key::Message(self.message.clone()));
        let fact = match (&message.fate, &self.verdict) {
            (Fate::Held(_), Verdict::Deliver) => Fact::MessageReleased(MessageReleased {
                at: view.entry_time(&header.thread, now)?,
                header: Header { hops: 0, ..header },
            }),
            (Fate::Held(_), Verdict::Discard { reason }) => {
                limit::text("reason", reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
                Fact::MessageDiscarded(MessageDiscarded {
                    message: self.message.clone(),
                    from: header.from,
                    reason: reason.clone(),
                })
            }
            (Fate::Sent, Verdict::Deliver) | (Fate::Discarded { .. }, Verdict::Discard { .. }) => {
                return Ok(Decision::nothing(reply));
            }
            (Fate::Sent, Verdict::Discard { .. }) => return Err(decided("was delivered").into()),
            (Fate::Discarded { .. }, Verdict::Deliver) => return Err(decided("was discarded").into()),
        };
        Ok(Decision::new(vec![fact], reply))
    }
}

fn decided(what: &str) -> Refusal {
    Refusal::new(Code::AlreadyAnswered, format!("the message {what} already"))
}
