//! The one way to write a JSON value (RFC 8785), and the forms of a message that are signed and compared.
//!
//! Names of fields are sorted by their UTF-16 units, numbers are doubles written as ECMAScript writes them, strings escape
//! as little as JSON allows, and nothing is between the tokens. Whoever signs elsewhere gets the same bytes.

use std::fmt::Write;

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

pub fn canonical(value: &Value) -> Vec<u8> {
    let mut text = String::new();
    write_value(value, &mut text);
    text.into_bytes()
}

/// What a message's signature is of: everything but the signature itself.
pub fn signing_form(message: &Map<String, Value>) -> Vec<u8> {
    let mut message = message.clone();
    if let Some(Value::Object(auth)) = message.get_mut("security").and_then(|security| security.get_mut("auth")) {
        auth.remove("sig");
    }
    canonical(&Value::Object(message))
}

/// What makes two messages with one id the same: everything but which attempt it is, how it is traced and who vouches for it.
pub fn sameness_form(message: &Map<String, Value>) -> Vec<u8> {
    without(message, &["attempt", "trace"])
}

/// What makes two messages with one idempotency key the same command: id and time may also differ.
pub fn command_form(message: &Map<String, Value>) -> Vec<u8> {
    without(message, &["attempt", "trace", "id", "ts"])
}

pub fn sameness(message: &Map<String, Value>) -> [u8; 32] {
    Sha256::digest(sameness_form(message)).into()
}

pub fn command_hash(message: &Map<String, Value>) -> [u8; 32] {
    Sha256::digest(command_form(message)).into()
}

/// Whether it is the same number as a double.
pub fn is_exact(number: &Number) -> bool {
    match (number.as_u64(), number.as_i64()) {
        (Some(whole), _) => exact(i128::from(whole)),
        (None, Some(whole)) => exact(i128::from(whole)),
        (None, None) => true,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "whether anything is lost is the question"
)]
fn exact(whole: i128) -> bool {
    (whole as f64) as i128 == whole
}

/// A security that only vouched says nothing without that, and is left out with it.
fn without(message: &Map<String, Value>, fields: &[&str]) -> Vec<u8> {
    let mut message = message.clone();
    message.retain(|field, _| !fields.contains(&field.as_str()));
    if let Some(Value::Object(security)) = message.get_mut("security")
        && security.remove("auth").is_some()
        && security.is_empty()
    {
        message.remove("security");
    }
    canonical(&Value::Object(message))
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(number, text),
        Value::String(string) => write_string(string, text),
        Value::Array(entries) => write_list(entries, text, ('[', ']'), write_value),
        Value::Object(object) => {
            let mut fields: Vec<_> = object.iter().collect();
            fields.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            write_list(fields, text, ('{', '}'), |(name, value), text| {
                write_string(name, text);
                text.push(':');
                write_value(value, text);
            });
        }
    }
}

fn write_list<T>(
    entries: impl IntoIterator<Item = T>,
    text: &mut String,
    (open, close): (char, char),
    write: impl Fn(T, &mut String),
) {
    text.push(open);
    for (index, entry) in entries.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(entry, text);
    }
    text.push(close);
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            c if c < ' ' => {
                // Writing to a string does not fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

fn write_number(number: &Number, text: &mut String) {
    // Without the feature for numbers of any length, every number is a double if it is no whole one.
    write_double(number.as_f64().unwrap_or_default(), text);
}

/// As ECMAScript's `Number::toString` does: the fewest digits that tell it from its neighbours, in exponential form if it is
/// below 1e-6 or from 1e21.
fn write_double(double: f64, text: &mut String) {
    if double == 0.0 {
        text.push('0');
        return;
    }
    let shortest = format!("{:e}", double.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if double < 0.0 {
        text.push('-');
    }
    match exponent {
        0..21 => write_fixed(&digits, exponent.unsigned_abs() as usize + 1, text),
        -6..0 => {
            text.push_str("0.");
            text.extend(std::iter::repeat_n('0', exponent.unsigned_abs() as usize - 1));
            text.push_str(&digits);
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            // Writing to a string does not fail.
            let _ = write!(text, "{first}{point}{rest}e{exponent:+}");
        }
    }
}

/// Digits of which so many are before the point.
fn write_fixed(digits: &str, before: usize, text: &mut String) {
    match digits.split_at_checked(before) {
        Some((whole, "")) => text.push_str(whole),
        Some((whole, fraction)) => {
            text.push_str(whole);
            text.push('.');
            text.push_str(fraction);
        }
        None => {
            text.push_str(digits);
            text.extend(std::iter::repeat_n('0', before - digits.len()));
        }
    }
}
