//! What is kept at hand of a message that is too long for it: the beginning of its texts, and where the whole is. Its body is an
//! artifact, like every large one.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::artifacts;
use crate::kernel::hex::hex;
use crate::kernel::limit;

/// The whole message that texts are taken from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Whole<'a> {
    /// Every text of it is short enough.
    Short,
    Long(&'a [u8]),
}

impl<'a> Whole<'a> {
    pub(super) fn of(body: &'a [u8]) -> Whole<'a> {
        if body.len() > limit::TEXT_BYTES { Whole::Long(body) } else { Whole::Short }
    }

    fn reference(&self) -> Option<String> {
        match self {
            Whole::Short => None,
            Whole::Long(body) => Some(artifacts::reference(&hex(&Sha256::digest(body)))),
        }
    }

    /// A text of the message as it is kept at hand.
    pub(super) fn text(&self, text: &str) -> String {
        match self.reference().filter(|_| text.len() > limit::TEXT_BYTES) {
            Some(reference) => {
                let beginning = &text[..text.floor_char_boundary(limit::EXCERPT_BYTES)];
                let all = text.len();
                format!("{beginning}\n[the first {} of {all} bytes; the whole message is {reference}]", beginning.len())
            }
            None => text.to_owned(),
        }
    }

    /// Its payload likewise. What is attached in it stays attached.
    pub(super) fn payload(&self, payload: &Map<String, Value>) -> Value {
        let written = serde_json::to_string(payload).unwrap_or_default();
        match self.reference().filter(|_| written.len() > limit::TEXT_BYTES) {
            Some(reference) => {
                let own = json!({ "kind": artifacts::KIND, "ref": reference });
                let attached = payload.get("attachments").and_then(Value::as_array).into_iter().flatten();
                let attached = attached.filter(|entry| is_reference(entry)).take(limit::ATTACHMENTS - 1).cloned();
                let attachments: Vec<Value> = std::iter::once(own).chain(attached).collect();
                json!({ "excerpt": self.text(&written), "attachments": attachments })
            }
            None => Value::Object(payload.clone()),
        }
    }
}

fn is_reference(entry: &Value) -> bool {
    entry.get("ref").and_then(Value::as_str).is_some_and(|named| artifacts::referred(named).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_beyond_the_limit_and_not_at_it() {
        let body = vec![b'x'; limit::TEXT_BYTES + 1];
        let at_most = "x".repeat(limit::TEXT_BYTES);
        assert_eq!(Whole::of(&body[1..]), Whole::Short);
        let whole = Whole::of(&body);
        assert_eq!(whole.text(&at_most), at_most);
        let long = "ü".repeat(limit::TEXT_BYTES / 2) + "x";
        let cut = whole.text(&long);
        let reference = artifacts::reference(&hex(&Sha256::digest(&body)));
        assert!(cut.starts_with("üüü") && cut.len() < limit::EXCERPT_BYTES + 200);
        assert!(cut.ends_with(&format!("bytes; the whole message is {reference}]")), "{}", &cut[cut.len() - 200..]);
        assert!(cut.contains(&format!("the first {} of {} bytes", limit::EXCERPT_BYTES, long.len())));
    }

    #[test]
    fn a_payload_is_cut_and_keeps_what_is_attached() {
        let body = vec![b'x'; limit::TEXT_BYTES + 1];
        let whole = Whole::of(&body);
        let entry = json!({ "kind": "artifact_ref", "ref": artifacts::reference(&"a".repeat(64)) });
        let short = json!({ "attachments": [entry] });
        assert_eq!(whole.payload(short.as_object().unwrap()), short);
        let long =
            json!({ "log": "x".repeat(limit::TEXT_BYTES), "attachments": [entry, { "kind": "big", "ref": "y" }] });
        let cut = whole.payload(long.as_object().unwrap());
        assert_eq!(artifacts::passed_on(&cut).len(), 2, "the message itself, and what was attached");
        assert!(cut["excerpt"].as_str().unwrap().contains("the whole message is artifact:sha256-"));
        assert!(cut.to_string().len() < limit::TEXT_BYTES);
    }
}
