//! Messages that an adapter could not pass on, and that a person lets go of.
//!
//! How far an adapter has come is operational, and what it put aside with it. That somebody decided that nobody gets some of it
//! is not: it is the last that is known of these messages.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::Seq;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, FirstSeq, ReplySource};

/// Notes that what was put aside for an adapter is let go of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoteDropped {
    pub dropped: LettersDropped,
}

/// These messages are not passed on any more. They stay in the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LettersDropped {
    /// As in `http:ci`.
    pub adapter: String,
    pub letters: Vec<DroppedLetter>,
}

impl Event for LettersDropped {
    const KIND: &'static str = "adapter.dropped";

    fn write_set(&self) -> Vec<Key> {
        vec![]
    }

    fn apply(&self, _rows: &mut RowWriter<'_>, _stamp: EventStamp) {}
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DroppedLetter {
    /// The place of the message in the log.
    pub seq: Seq,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
}

impl Command for NoteDropped {
    const NAME: &'static str = "NoteDropped";

    type Reply = FirstSeq;

    fn read_set(&self) -> ReadSet {
        vec![]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<FirstSeq>, Undecided> {
        let dropped = &self.dropped;
        limit::list("letters", &dropped.letters)?;
        limit::text("adapter", &dropped.adapter, limit::NAME_BYTES)?;
        match cx.caller.actor {
            Actor::Person(_) => Ok(Decision::new(vec![AnyEvent::new(dropped.clone())], ReplySource::first_seq())),
            _ => Err(Rejection::new(Code::Forbidden, "only a person lets go of what was not passed on").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::testing::{World, anna, by};

    #[test]
    fn a_person_lets_go_and_nobody_else() {
        let mut w = World::of(&["lead"]);
        let letters = vec![DroppedLetter { seq: Seq(1), attempts: 12, error: "it answered 503".to_owned() }];
        let note = NoteDropped { dropped: LettersDropped { adapter: "http:ci".to_owned(), letters } };
        let rows = w.rows().clone();
        for caller in [by("lead"), Caller::anonymous(), Caller::system()] {
            assert_eq!(w.refuses(&caller, note.clone()), Code::Forbidden);
        }
        assert_eq!(w.does(&anna(), note), ["adapter.dropped"]);
        assert_eq!(*w.rows(), rows, "how far the adapter has come is kept elsewhere");
    }
}
