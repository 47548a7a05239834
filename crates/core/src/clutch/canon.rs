//! The one way to write a JSON value (RFC 8785), and the forms of a message that are signed and compared.
//!
//! Names of fields are sorted by their UTF-16 units, numbers are doubles written as ECMAScript writes them, strings escape
//! as little as JSON allows, and nothing is between the tokens. Whoever signs elsewhere gets the same bytes. (Writing to a
//! string never fails, so what `write!` says is not looked at.)

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
    let mut security = message.get("security").cloned();
    if let Some(Value::Object(auth)) = security.as_mut().and_then(|security| security.get_mut("auth")) {
        auth.remove("sig");
    }
    form(message, &[], security)
}

/// What makes two messages with one id the same: everything but which attempt it is, how it is traced and who vouches for it.
pub fn sameness_form(message: &Map<String, Value>) -> Vec<u8> {
    form(message, &["attempt", "trace"], without_auth(message))
}

/// What makes two messages with one idempotency key the same command: id and time may also differ.
pub fn command_form(message: &Map<String, Value>) -> Vec<u8> {
    form(message, &["attempt", "trace", "id", "ts"], without_auth(message))
}

pub fn sameness(message: &Map<String, Value>) -> [u8; 32] {
    Sha256::digest(sameness_form(message)).into()
}

pub fn command_hash(message: &Map<String, Value>) -> [u8; 32] {
    Sha256::digest(command_form(message)).into()
}

/// Whether it is the same number as a double.
pub fn is_exact(number: &Number) -> bool {
    let exact = |whole: i128| whole as f64 as i128 == whole;
    match (number.as_u64(), number.as_i64()) {
        (Some(whole), _) => exact(whole.into()),
        (None, Some(whole)) => exact(whole.into()),
        (None, None) => true,
    }
}

/// The message without some fields, and with this in place of its security. Nothing large is copied.
fn form(message: &Map<String, Value>, left_out: &[&str], security: Option<Value>) -> Vec<u8> {
    let kept = |(name, _): &(&String, &Value)| *name != "security" && !left_out.contains(&name.as_str());
    let mut fields: Vec<_> = message.iter().filter(kept).map(|(name, value)| (name.as_str(), value)).collect();
    fields.extend(security.as_ref().map(|security| ("security", security)));
    let mut text = String::new();
    write_fields(fields, &mut text);
    text.into_bytes()
}

/// A security that only vouches says nothing without that, and goes with it.
fn without_auth(message: &Map<String, Value>) -> Option<Value> {
    let mut security = message.get("security")?.clone();
    let object = security.as_object_mut()?;
    match object.remove("auth").is_some() && object.is_empty() {
        true => None,
        false => Some(security),
    }
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
            write_fields(object.iter().map(|(name, value)| (name.as_str(), value)).collect(), text);
        }
    }
}

fn write_fields(mut fields: Vec<(&str, &Value)>, text: &mut String) {
    fields.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    write_list(fields, text, ('{', '}'), |(name, value), text| {
        write_string(name, text);
        text.push(':');
        write_value(value, text);
    });
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
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

fn write_number(number: &Number, text: &mut String) {
    match number.as_i64() {
        // Doubles tell these from each other, and write them all out.
        Some(whole) if whole.unsigned_abs() < 1 << 53 => {
            let _ = write!(text, "{whole}");
        }
        // Every number that was read is a double, or a whole number, which becomes one.
        _ => text.push_str(ryu_js::Buffer::new().format_finite(number.as_f64().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(json: &str) -> String {
        String::from_utf8(canonical(&serde_json::from_str(json).unwrap())).unwrap()
    }

    /// The table of RFC 8785, appendix B, which says bits and text.
    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        for (bits, text) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let double = f64::from_bits(bits);
            assert_eq!(String::from_utf8(canonical(&json!(double))).unwrap(), text);
            let read: f64 = serde_json::from_str(text).unwrap();
            assert!(read == double, "{text} is read as it is written");
        }
    }

    #[test]
    fn whole_numbers_are_doubles_too() {
        for (read, text) in [
            ("-0", "0"),
            ("10", "10"),
            ("-10", "-10"),
            ("1.0", "1"),
            ("1E2", "100"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551615", "18446744073709552000"),
            ("-9223372036854775808", "-9223372036854776000"),
            ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ] {
            assert_eq!(written(read), text);
        }
    }

    /// The examples of RFC 8785, sections 3.2.2 and 3.2.3.
    #[test]
    fn the_examples_of_the_rfc_come_out_as_it_says() {
        assert_eq!(
            written(
                r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
                     "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }"#
            ),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        let sorted =
            written(r#"{"\u20ac": 5, "\r": 1, "\ufb33": 7, "1": 2, "\ud83d\ude00": 6, "\u0080": 3, "\u00f6": 4}"#);
        assert_eq!(sorted, "{\"\\r\":1,\"1\":2,\"\u{80}\":3,\"ö\":4,\"€\":5,\"😀\":6,\"\u{fb33}\":7}");
    }

    #[test]
    fn numbers_that_are_no_doubles_are_found() {
        for (text, is) in [
            ("0", true),
            ("-1", true),
            ("0.1", true),
            ("9007199254740992", true),
            ("9007199254740993", false),
            ("-9007199254740993", false),
            ("18446744073709551615", false),
            ("9223372036854775808", true),
        ] {
            assert_eq!(is_exact(&serde_json::from_str(text).unwrap()), is, "{text}");
        }
    }

    #[test]
    fn the_signing_form_lacks_the_signature_alone() {
        let signed = json!({"id": "m", "attempt": 2, "security": {"auth": {"kid": "k", "sig": "s"}, "policy": {}}});
        let form = String::from_utf8(signing_form(signed.as_object().unwrap())).unwrap();
        assert_eq!(form, r#"{"attempt":2,"id":"m","security":{"auth":{"kid":"k"},"policy":{}}}"#);
        for odd in [json!({"security": 1}), json!({"security": {"auth": "x"}}), json!({"security": null}), json!({})] {
            assert_eq!(signing_form(odd.as_object().unwrap()), canonical(&odd));
        }
    }

    #[test]
    fn the_forms_that_are_compared_lack_what_may_differ() {
        let first = json!({"id": "m", "ts": "t", "type": "x.a", "payload": {"id": "p"}});
        let again = json!({"id": "m", "ts": "t", "type": "x.a", "payload": {"id": "p"}, "attempt": 2,
                           "trace": {"trace_id": "t"}, "security": {"auth": {"sig": "s"}}});
        let restricted = json!({"id": "m", "ts": "t", "type": "x.a", "payload": {"id": "p"},
                                "security": {"policy": {"sandbox": true}}});
        let resent = json!({"id": "n", "ts": "u", "type": "x.a", "payload": {"id": "p"}});
        let hashes =
            |message: &Value| (sameness(message.as_object().unwrap()), command_hash(message.as_object().unwrap()));
        assert_eq!(hashes(&first), hashes(&again));
        assert_ne!(hashes(&first).0, hashes(&resent).0);
        assert_eq!(hashes(&first).1, hashes(&resent).1);
        assert_ne!(hashes(&first).1, hashes(&restricted).1);
        let form = String::from_utf8(command_form(again.as_object().unwrap())).unwrap();
        assert_eq!(form, r#"{"payload":{"id":"p"},"type":"x.a"}"#);
    }
}
