//! Reading single JSON values: the forms that they have, and the flaw of one that has another form.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FaultCode {
    /// Not JSON: what follows the rules of neither JSON nor UTF-8.
    MalformedJson,
    /// An object names a field twice, so that two readers could see two messages.
    DuplicateKey,
    /// Larger than messages, names or lists may be.
    TooLarge,
    /// Objects and arrays within each other, deeper than anybody needs.
    TooDeep,
    /// Nothing was sent.
    Empty,
    UnsupportedVersion,
    MissingField,
    /// Another kind of JSON value is expected.
    WrongType,
    /// The right kind of value, and not of the right form.
    InvalidField,
    /// No type of the protocol, and none of somebody's own.
    UnknownType,
    /// A type that only the daemon sends.
    ReservedType,
    /// A name that stands for something else than an agent.
    ReservedName,
    DuplicateRecipient,
    /// `schema_ref` names another schema than `payload_type`.
    SchemaRefMismatch,
    /// A number that is read differently by different readers, in a message that is signed.
    InexactNumber,
}

impl FaultCode {
    pub const ALL: [FaultCode; 15] = [
        FaultCode::MalformedJson,
        FaultCode::DuplicateKey,
        FaultCode::TooLarge,
        FaultCode::TooDeep,
        FaultCode::Empty,
        FaultCode::UnsupportedVersion,
        FaultCode::MissingField,
        FaultCode::WrongType,
        FaultCode::InvalidField,
        FaultCode::UnknownType,
        FaultCode::ReservedType,
        FaultCode::ReservedName,
        FaultCode::DuplicateRecipient,
        FaultCode::SchemaRefMismatch,
        FaultCode::InexactNumber,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            FaultCode::MalformedJson => "MALFORMED_JSON",
            FaultCode::DuplicateKey => "DUPLICATE_KEY",
            FaultCode::TooLarge => "TOO_LARGE",
            FaultCode::TooDeep => "TOO_DEEP",
            FaultCode::Empty => "EMPTY",
            FaultCode::UnsupportedVersion => "UNSUPPORTED_VERSION",
            FaultCode::MissingField => "MISSING_FIELD",
            FaultCode::WrongType => "WRONG_TYPE",
            FaultCode::InvalidField => "INVALID_FIELD",
            FaultCode::UnknownType => "UNKNOWN_TYPE",
            FaultCode::ReservedType => "RESERVED_TYPE",
            FaultCode::ReservedName => "RESERVED_NAME",
            FaultCode::DuplicateRecipient => "DUPLICATE_RECIPIENT",
            FaultCode::SchemaRefMismatch => "SCHEMA_REF_MISMATCH",
            FaultCode::InexactNumber => "INEXACT_NUMBER",
        }
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A fault of a value, without its place.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub(crate) code: FaultCode,
    pub(crate) message: String,
}

impl Flaw {
    pub(crate) fn new(code: FaultCode, message: impl Into<String>) -> Flaw {
        Flaw { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Flaw {
        Flaw::new(FaultCode::InvalidField, message)
    }
}

pub(crate) fn wrong(expected: &str, value: &Value) -> Flaw {
    Flaw::new(FaultCode::WrongType, format!("must be {expected}, not {}", kind(value)))
}

/// Something that a sender wrote, short enough to be repeated to it.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("'{}…'", text[..end].escape_debug()),
        None => format!("'{}'", text.escape_debug()),
    }
}

pub(crate) fn string(value: &Value) -> Result<&str, Flaw> {
    value.as_str().ok_or_else(|| wrong("a string", value))
}

pub(crate) fn boolean(value: &Value) -> Result<bool, Flaw> {
    value.as_bool().ok_or_else(|| wrong("true or false", value))
}

pub(crate) fn object(value: &Value) -> Result<&Map<String, Value>, Flaw> {
    value.as_object().ok_or_else(|| wrong("an object", value))
}

/// Any text of at most so many bytes.
pub(crate) fn text(most: usize) -> impl Fn(&Value) -> Result<&str, Flaw> {
    move |value| {
        let text = string(value)?;
        within(text, most).map(|()| text)
    }
}

/// A name that people and programs can carry around: not empty, no spaces or control characters.
pub(crate) fn name(most: usize) -> impl Fn(&Value) -> Result<&str, Flaw> {
    move |value| {
        let name = string(value)?;
        check_name(name, most).map(|()| name)
    }
}

/// An id that may be written with its kind in front, `task:` for a task, which is left out.
pub(crate) fn id(prefix: &'static str, most: usize) -> impl Fn(&Value) -> Result<&str, Flaw> {
    move |value| {
        let given = string(value)?;
        let id = given.strip_prefix(prefix).unwrap_or(given);
        check_name(id, most)?;
        match id.starts_with(prefix) {
            true => Err(Flaw::invalid(format!("has '{prefix}' in front twice"))),
            false => Ok(id),
        }
    }
}

pub(crate) fn check_name(name: &str, most: usize) -> Result<(), Flaw> {
    if name.is_empty() {
        return Err(Flaw::invalid("must not be empty"));
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Flaw::invalid("must not contain spaces or control characters"));
    }
    within(name, most)
}

fn within(text: &str, most: usize) -> Result<(), Flaw> {
    match text.len() {
        bytes if bytes > most => {
            Err(Flaw::new(FaultCode::TooLarge, format!("is {bytes} bytes; at most {most} are taken")))
        }
        _ => Ok(()),
    }
}

/// One of some words.
pub(crate) fn one_of<T: Copy>(value: &Value, all: &[T], word: impl Fn(T) -> &'static str) -> Result<T, Flaw> {
    let text = string(value)?;
    all.iter().copied().find(|&one| word(one) == text).ok_or_else(|| {
        let words: Vec<_> = all.iter().map(|&one| word(one)).collect();
        Flaw::invalid(format!("{} is not known: expected {}", quoted(text), words.join(" or ")))
    })
}

/// A whole number from 1, however it is written.
pub(crate) fn count(value: &Value) -> Result<u32, Flaw> {
    let Value::Number(number) = value else { return Err(wrong("a whole number", value)) };
    let whole = match number.as_u64() {
        Some(whole) => u32::try_from(whole).ok(),
        None => number.as_f64().and_then(whole),
    };
    whole
        .filter(|&whole| whole >= 1)
        .ok_or_else(|| Flaw::invalid(format!("must be a whole number from 1 to {}", u32::MAX)))
}

fn whole(number: f64) -> Option<u32> {
    (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
}

/// The word for a kind of value, with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_whole_and_from_one() {
        for (value, counted) in [(json!(1), 1), (json!(7), 7), (json!(2.0), 2), (json!(u32::MAX), u32::MAX)] {
            assert_eq!(count(&value).unwrap(), counted);
        }
        for bad in [json!(0), json!(-1), json!(1.5), json!(u64::MAX), json!(1e300), json!("1"), json!(null)] {
            assert!(count(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_lose_the_kind_in_front_of_them_once() {
        let read = |text: &str| id("task:", 8)(&json!(text)).map(str::to_owned).map_err(|flaw| flaw.message);
        assert_eq!(read("task:t1").unwrap(), "t1");
        assert_eq!(read("t1").unwrap(), "t1");
        assert_eq!(read("run:t1").unwrap(), "run:t1");
        for bad in ["", "task:", "task:task:x", "a b", "a\u{0}", "a\u{a0}b", "longer-than-eight"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_repeated_to_a_sender_is_short_and_plain() {
        assert_eq!(quoted("a\nb"), r"'a\nb'");
        assert_eq!(quoted(&"é".repeat(100)).chars().count(), 67);
    }
}
