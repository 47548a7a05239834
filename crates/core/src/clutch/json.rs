//! JSON read strictly: one value, no field named twice, not too deep. Everything else is as `serde_json` reads it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::Faults;
use super::place::Place;
use crate::kernel::limit;
use crate::kernel::parse::FaultCode;

/// The value that `bytes` are, with the faults that do not keep it from being read.
pub(super) fn read(bytes: &[u8], place: &Place<'_>) -> Result<(Value, Faults), Faults> {
    let text = utf8(bytes, place)?;
    let mut faults = Faults::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let node = Node { place: *place, depth: 0, faults: &mut faults };
    match node.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok((value, faults)),
        Err(_) if faults.iter().any(|fault| fault.code == FaultCode::TooDeep) => Err(faults),
        Err(error) => {
            faults.append(malformed(&error, place));
            Err(faults)
        }
    }
}

pub(super) fn utf8<'a>(bytes: &'a [u8], place: &Place<'_>) -> Result<&'a str, Faults> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("not UTF-8 at byte {}; JSON is sent as UTF-8", error.valid_up_to());
        Faults::of(FaultCode::MalformedJson, place, message)
    })?;
    match text.starts_with('\u{feff}') {
        true => Err(Faults::of(FaultCode::MalformedJson, place, "begins with a byte order mark; JSON has none")),
        false => Ok(text),
    }
}

pub(super) fn malformed(error: &serde_json::Error, place: &Place<'_>) -> Faults {
    let message = match error.is_eof() {
        true => format!("not JSON: it ends too early, at line {} column {}", error.line(), error.column()),
        false => format!("not JSON: {error}"),
    };
    Faults::of(FaultCode::MalformedJson, place, message)
}

/// A value that is about to be read, at its place.
struct Node<'a> {
    place: Place<'a>,
    depth: usize,
    faults: &'a mut Faults,
}

impl Node<'_> {
    fn check_depth<E: Error>(&mut self) -> Result<(), E> {
        if self.depth < limit::ENVELOPE_DEPTH {
            return Ok(());
        }
        let message = format!("objects and arrays are nested deeper than {}", limit::ENVELOPE_DEPTH);
        self.faults.add(FaultCode::TooDeep, &self.place, message);
        Err(E::custom("too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut values = Vec::new();
        loop {
            let place = Place::Entry(&self.place, values.len());
            let node = Node { place, depth: self.depth + 1, faults: self.faults };
            match entries.next_element_seed(node)? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let place = Place::Field(&self.place, &name);
            if object.contains_key(&name) {
                self.faults.add(FaultCode::DuplicateKey, &place, "is there twice; an object names each field once");
            }
            let node = Node { place, depth: self.depth + 1, faults: self.faults };
            let value = fields.next_value_seed(node)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &[u8]) -> Vec<(FaultCode, String)> {
        let faults = match read(text, &Place::Root) {
            Ok((_, faults)) | Err(faults) => faults,
        };
        faults.iter().map(|fault| (fault.code, fault.pointer.clone())).collect()
    }

    #[test]
    fn it_reads_what_serde_json_reads() {
        let text = r#"{"a": [1, -2, 0.1, 1e3, true, null, "\u00e9\ud83d\ude00\u0000"], "b": {"c": {}}, "d": 18446744073709551615}"#;
        let (value, faults) = read(text.as_bytes(), &Place::Root).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        assert!(faults.is_empty());
    }

    #[test]
    fn every_field_that_is_named_twice_is_told() {
        let twice = r#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3, "\u0061": 4}"#;
        let told = [("/b/0/c"), ("/a"), ("/a")].map(|pointer| (FaultCode::DuplicateKey, pointer.to_owned()));
        assert_eq!(faults(twice.as_bytes()), told);
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        let bad: [&[u8]; 12] = [
            b"",
            b"{",
            b"{} {}",
            b"{'a': 1}",
            b"[1,]",
            b"nul",
            b"\"\\ud800\"",
            b"\"\\ude00\"",
            b"\"\x01\"",
            b"\"\xff\"",
            b"1e999",
            b"\xef\xbb\xbf{}",
        ];
        for text in bad {
            assert_eq!(faults(text), [(FaultCode::MalformedJson, String::new())], "{}", text.escape_ascii());
        }
    }

    #[test]
    fn depth_is_limited_and_its_place_told() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(faults(nested(limit::ENVELOPE_DEPTH).as_bytes()), []);
        let pointer = "/0".repeat(limit::ENVELOPE_DEPTH);
        assert_eq!(faults(nested(limit::ENVELOPE_DEPTH + 1).as_bytes()), [(FaultCode::TooDeep, pointer.clone())]);
        assert_eq!(faults("[".repeat(100_000).as_bytes()), [(FaultCode::TooDeep, pointer)]);
    }
}
