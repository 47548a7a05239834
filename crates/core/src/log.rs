//! A row of the log: a fact with its place, its time and where it came from.

use crate::actor::{Actor, Auth};
use crate::fact::AnyEvent;
use crate::id::{RunId, Seq, TaskId, ThreadId, Timestamp};

/// The request or envelope as it was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// SHA-256 in hex; stays when the bytes are gone.
    pub sha256: String,
    pub bytes: BodyBytes,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyBytes {
    Here(Vec<u8>),
    /// A file of the artifact folder, named by the hash.
    Artifact,
    /// Redacted.
    Gone,
}

#[derive(Clone, PartialEq, Debug)]
pub struct LogRow {
    pub seq: Seq,
    pub at: Timestamp,
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    pub actor: Actor,
    pub auth: Auth,
    /// Who spoke in the actor's name, if somebody did: a person, or an agent with a lead's token.
    pub via: Option<String>,
    /// The fact that led to this one.
    pub cause: Option<Seq>,
    /// The place of this row among those that one command appended, counted from 0.
    pub part_index: u32,
    pub event: AnyEvent,
    pub body: Option<Body>,
}

impl LogRow {
    /// The first row that the same command appended; it carries the body of the request.
    pub fn first(&self) -> Seq {
        Seq(self.seq.0.saturating_sub(self.part_index.into()))
    }

    pub fn task(&self) -> Option<&TaskId> {
        self.event.task()
    }

    /// The agent that the fact is about, or its author where it is about none: what a reader filters by.
    pub fn concerns(&self) -> String {
        self.event.agent().map_or_else(|| self.actor.to_string(), ToString::to_string)
    }
}

/// Event ids are made from the place in the log, so that they need neither a column nor an index: a fixed scramble of
/// `seq`, written in 13 characters.
pub mod event_id {
    use crate::id::Seq;

    const PREFIX: &str = "evt_";
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    // An odd factor has an inverse modulo 2^64: both directions are one multiplication.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    const INVERSE: u64 = 0xf1de_83e1_9937_733d;

    pub fn of(seq: Seq) -> String {
        let mut scrambled = seq.0.wrapping_mul(FACTOR);
        let mut characters = [b'0'; 13];
        for character in characters.iter_mut().rev() {
            *character = ALPHABET[(scrambled & 31) as usize];
            scrambled >>= 5;
        }
        format!("{PREFIX}{}", String::from_utf8_lossy(&characters))
    }

    pub fn parse(id: &str) -> Option<Seq> {
        let characters = id.strip_prefix(PREFIX).filter(|rest| rest.len() == 13)?;
        let mut scrambled: u64 = 0;
        for character in characters.bytes() {
            let value = ALPHABET.iter().position(|known| *known == character)?;
            scrambled = scrambled.checked_mul(32)?.checked_add(value as u64)?;
        }
        Some(Seq(scrambled.wrapping_mul(INVERSE)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn ids_lead_back_to_their_place() {
            for seq in [0, 1, 2, 77, 1_000_000, u64::MAX] {
                assert_eq!(parse(&of(Seq(seq))), Some(Seq(seq)));
            }
            assert_eq!(parse("evt_abc"), None);
            assert_eq!(parse("evt_zzzzzzzzzzzzz"), None);
            assert_eq!(parse("task_0000000000000"), None);
        }
    }
}
