//! Event ids are made from the position in the log, so that they need neither a column nor an index: a fixed scramble of
//! `seq`, written in 13 characters.

use super::id::{MessageId, Seq, Timestamp};

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

/// The id of a message that has none of its own: made from its position in the log.
pub fn message_at(seq: Seq) -> MessageId {
    MessageId::new(of(seq).replacen(PREFIX, "msg_", 1))
}

/// The id of a notification: its position, and the time at which it was decided.
pub(crate) fn notification_at(seq: Seq, at: Timestamp) -> MessageId {
    MessageId::new(format!("{}_{:x}", message_at(seq).as_str(), at.0))
}

/// The position that an id of either kind is made from.
pub fn position_of(id: &MessageId) -> Option<Seq> {
    let place = id.as_str().strip_prefix("msg_")?;
    let place = place.split_once('_').map_or(place, |(place, _)| place);
    parse(&format!("{PREFIX}{place}"))
}

/// Whether an id is that of a position which a log can have. Ids of that form that others chose are of none.
pub(crate) fn is_kept_for_the_log(id: &MessageId) -> bool {
    const MAX_POSITION: u64 = 1 << 40;
    position_of(id).is_some_and(|place| place.0 < MAX_POSITION)
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
