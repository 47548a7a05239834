//! A person decides about a message that was held.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Authority;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::message::{Fate, Header, Message, Sender};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

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

impl Event for MessageReleased {
    const KIND: &'static str = "message.released";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.header.run), thread: Some(&self.header.thread), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        self.header.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.header.message.clone(), |message: &mut Message| {
            message.letter.header = self.header.clone();
            message.fate = Fate::Sent;
            message.sent = stamp.seq;
            message.at = self.at;
        });
        Sender::change(rows, &self.header.from, Sender::hold_one_less);
        self.header.queue(rows, self.at, stamp);
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageDiscarded {
    pub message: MessageId,
    pub from: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Event for MessageDiscarded {
    const KIND: &'static str = "message.discarded";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Message(self.message.clone()), Key::Sender(self.from.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.update(self.message.clone(), |message: &mut Message| {
            message.fate = Fate::Discarded { reason: self.reason.clone() };
        });
        Sender::change(rows, &self.from, Sender::hold_one_less);
    }
}

impl Command for ReleaseHeld {
    const NAME: &'static str = "ReleaseHeld";

    type Reply = Message;

    fn read_set(&self) -> ReadSet {
        vec![Key::Message(self.message.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Message>, Undecided> {
        if cx.caller.power != Authority::Person {
            return Err(Rejection::new(Code::Forbidden, "only a person may decide about a held message").into());
        }
        let message = cx.view.message(&self.message)?;
        let header = message.letter.header.clone();
        let reply = ReplySource::row(self.message.clone());
        let fact = match (&message.fate, &self.verdict) {
            (Fate::Held(_), Verdict::Deliver) => AnyEvent::new(MessageReleased {
                at: cx.view.entry_time(&header.thread, cx.now)?,
                header: Header { hops: 0, ..header },
            }),
            (Fate::Held(_), Verdict::Discard { reason }) => {
                limit::text("reason", reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
                AnyEvent::new(MessageDiscarded {
                    message: self.message.clone(),
                    from: header.from,
                    reason: reason.clone(),
                })
            }
            (Fate::Sent, Verdict::Deliver) | (Fate::Discarded { .. }, Verdict::Discard { .. }) => {
                return Ok(Decision::unchanged(reply));
            }
            (Fate::Sent, Verdict::Discard { .. }) => return Err(decided("was delivered").into()),
            (Fate::Discarded { .. }, Verdict::Deliver) => return Err(decided("was discarded").into()),
        };
        Ok(Decision::new(vec![fact], reply))
    }
}

fn decided(what: &str) -> Rejection {
    Rejection::new(Code::AlreadyAnswered, format!("the message {what} already"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::messages::{SendMessage, StormGuard};
    use crate::model::message::Standing;
    use crate::testing::{World, anna, by, coord, direct, entry};

    const STRICT: StormGuard = StormGuard { per_minute: 1, hops: 20 };

    /// A world in which the message `m` is held.
    fn holding(message: SendMessage) -> World {
        let mut w = World::of(&["a", "b", "c"]);
        w.does(&by("a"), SendMessage { guard: STRICT, ..entry("first", "a", "one") });
        assert_eq!(w.does(&by("a"), SendMessage { guard: STRICT, ..message }), ["message.held"]);
        w
    }

    fn decide(verdict: Verdict) -> ReleaseHeld {
        ReleaseHeld { message: "m".into(), verdict }
    }

    #[test]
    fn a_released_message_is_delivered_as_if_it_came_now() {
        let mut w = holding(entry("m", "a", "@b look"));
        assert_eq!((w.pending("b"), w.standing("m", "b")), (vec![], None));
        w.does(&by("c"), entry("later", "c", "meanwhile"));
        assert_eq!(w.does(&anna(), decide(Verdict::Deliver)), ["message.released"]);
        assert_eq!((w.standing("m", "b"), w.pending("b")), (Some(Standing::Queued), vec!["m"]));
        assert!(w.message("m").at > w.message("later").at && w.message("m").sent > w.message("later").sent);
        assert_eq!((w.message("m").letter.header.hops, w.message("m").letter.text.as_str()), (0, "@b look"));
        assert_eq!(w.does(&anna(), decide(Verdict::Deliver)), [""; 0]);
        assert_eq!(w.refuses(&anna(), decide(Verdict::Discard { reason: None })), Code::AlreadyAnswered);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn every_form_can_be_held_and_released() {
        for message in [direct("m", "a", &["b"]), coord("m", "a", "GENERAL", &["b", "ghost"])] {
            let mut w = holding(message);
            w.does(&anna(), decide(Verdict::Deliver));
            assert_eq!(w.pending("b"), ["m"]);
        }
        let mut w = holding(coord("m", "a", "GENERAL", &[]));
        assert!(!w.message("m").is_broadcast_for(&"b".into()));
        assert_eq!(w.refuses(&by("b"), crate::testing::reads("b", &["m"])), Code::MessageNotFound);
        w.does(&anna(), decide(Verdict::Deliver));
        assert!(w.message("m").is_broadcast_for(&"b".into()));
    }

    #[test]
    fn a_person_may_discard_it_for_good() {
        let mut w = holding(entry("m", "a", "@b look"));
        let discard = decide(Verdict::Discard { reason: Some("noise".to_owned()) });
        assert_eq!(w.does(&anna(), discard.clone()), ["message.discarded"]);
        assert_eq!(w.message("m").fate, Fate::Discarded { reason: Some("noise".to_owned()) });
        assert_eq!((w.does(&anna(), discard), w.pending("b")), (vec![], vec![]));
        assert_eq!(w.refuses(&anna(), decide(Verdict::Deliver)), Code::AlreadyAnswered);
    }

    #[test]
    fn only_a_person_decides() {
        let mut w = holding(entry("m", "a", "@b look"));
        for caller in [by("a"), by("b"), Caller::anonymous(), Caller { power: Authority::Lead, ..by("a") }] {
            assert_eq!(w.refuses(&caller, decide(Verdict::Deliver)), Code::Forbidden);
        }
        let other = ReleaseHeld { message: "x".into(), verdict: Verdict::Deliver };
        assert_eq!(w.refuses(&anna(), other), Code::MessageNotFound);
    }
}
