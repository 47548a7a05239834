//! A message that was signed, and not by whom it says it is from. The message itself is not kept; that somebody tried is.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::MessageId;
use crate::kernel::rejection::Rejection;
use crate::model::message_type::MessageType;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, FirstSeq, ReplySource};

/// Notes that a message was refused. How often that may be noted is for the one who notes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoteRejected {
    pub rejected: EnvelopeRejected,
}

/// What was refused, as it said itself: nothing of it is known to be true.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EnvelopeRejected {
    pub message: MessageId,
    #[serde(rename = "type")]
    pub message_type: MessageType,
    /// Whom it says it is from.
    pub from: String,
    /// The key that it says it is signed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    pub code: Code,
    pub pointer: String,
    /// How many more were refused since this was last noted, and are not in the log.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: u64,
}

impl Event for EnvelopeRejected {
    const KIND: &'static str = "envelope.rejected";

    fn write_set(&self) -> Vec<Key> {
        vec![]
    }

    fn apply(&self, _rows: &mut RowWriter<'_>, _stamp: EventStamp) {}
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Command for NoteRejected {
    const NAME: &'static str = "NoteRejected";

    type Reply = FirstSeq;

    fn read_set(&self) -> ReadSet {
        vec![]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<FirstSeq>, Undecided> {
        match cx.caller.actor {
            Actor::System => Ok(Decision::new(vec![AnyEvent::new(self.rejected.clone())], ReplySource::first_seq())),
            _ => Err(Rejection::new(Code::Forbidden, "only the daemon notes what it refused").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::testing::{World, anna, by};

    #[test]
    fn it_is_noted_by_the_daemon_alone_and_changes_nothing() {
        let mut w = World::of(&["ken"]);
        let rejected = EnvelopeRejected {
            message: "msg_1".into(),
            message_type: MessageType::TaskCancel,
            from: "ken".to_owned(),
            kid: Some("k".to_owned()),
            code: Code::BadSignature,
            pointer: "/security/auth/sig".to_owned(),
            others: 0,
        };
        let note = NoteRejected { rejected };
        let rows = w.rows().clone();
        for caller in [by("ken"), anna(), Caller::anonymous()] {
            assert_eq!(w.refuses(&caller, note.clone()), Code::Forbidden);
        }
        assert_eq!(w.does(&Caller::system(), note), ["envelope.rejected"]);
        assert_eq!(*w.rows(), rows);
    }
}
