//! Event ids are made from the position in the log, so that they need neither a column nor an index: a fixed scramble of
//! `seq`, written in 13 characters.

use super::id::{MessageId, Seq, Timestamp};

const PREFIX: &str = "evt_";

const NOTIFICATION_PREFIX: &str = "ntf_";

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

/// The id of the message that notifies agents of the event at a position. A store that is taken back to a backup uses a position
/// twice, so the time at which the event was decided is part of the id.
pub(crate) fn notification_of(event: Seq, at: Timestamp) -> MessageId {
    MessageId::new(format!("{}_{:x}", of(event).replacen(PREFIX, NOTIFICATION_PREFIX, 1), at.0))
}

/// Whether an id is of the kind that the daemon gives to events and notifications: senders choose others.
pub(crate) fn is_reserved(id: &MessageId) -> bool {
    [PREFIX, NOTIFICATION_PREFIX].iter().any(|prefix| id.as_str().starts_with(prefix))
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
