//! The forms that values have, and reading the fields of an object by them so that every fault is found.

use serde_json::{Map, Value};

use super::fault::{FaultCode, Faults};
use super::json::kind;
use super::place::Place;
use crate::limit;

/// What is wrong with a value, wherever it is.
#[derive(Debug)]
pub(super) struct Flaw {
    pub(super) code: FaultCode,
    pub(super) message: String,
}

impl Flaw {
    pub(super) fn new(code: FaultCode, message: impl Into<String>) -> Flaw {
        Flaw { code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Flaw {
        Flaw::new(FaultCode::InvalidField, message)
    }
}

fn wrong(expected: &str, value: &Value) -> Flaw {
    Flaw::new(FaultCode::WrongType, format!("must be {expected}, not {}", kind(value)))
}

/// Something that a sender wrote, short enough to be repeated to it.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("'{}…'", text[..end].escape_debug()),
        None => format!("'{}'", text.escape_debug()),
    }
}

pub(super) fn string(value: &Value) -> Result<&str, Flaw> {
    value.as_str().ok_or_else(|| wrong("a string", value))
}

pub(super) fn boolean(value: &Value) -> Result<bool, Flaw> {
    value.as_bool().ok_or_else(|| wrong("true or false", value))
}

pub(super) fn object(value: &Value) -> Result<&Map<String, Value>, Flaw> {
    value.as_object().ok_or_else(|| wrong("an object", value))
}

/// Any text of at most so many bytes.
pub(super) fn text(most: usize) -> impl Fn(&Value) -> Result<&str, Flaw> {
    move |value| {
        let text = string(value)?;
        within(text, most).map(|()| text)
    }
}

/// A name that people and programs can carry around: not empty, no spaces or control characters.
pub(super) fn name(most: usize) -> impl Fn(&Value) -> Result<&str, Flaw> {
    move |value| {
        let name = string(value)?;
        check_name(name, most).map(|()| name)
    }
}

/// An id that may be written with its kind in front, `task:` for a task, which is left out.
pub(super) fn id(prefix: &'static str, most: usize) -> impl Fn(&Value) -> Result<&str, Flaw> {
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

pub(super) fn check_name(name: &str, most: usize) -> Result<(), Flaw> {
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
pub(super) fn one_of<T: Copy>(value: &Value, all: &[T], word: impl Fn(T) -> &'static str) -> Result<T, Flaw> {
    let text = string(value)?;
    all.iter().copied().find(|&one| word(one) == text).ok_or_else(|| {
        let words: Vec<_> = all.iter().map(|&one| word(one)).collect();
        Flaw::invalid(format!("{} is not known: expected {}", quoted(text), words.join(" or ")))
    })
}

/// A whole number from 1, however it is written.
pub(super) fn count(value: &Value) -> Result<u32, Flaw> {
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

/// An object whose fields are read one after the other; a fault in one does not keep the others from being read.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    place: &'a Place<'a>,
    faults: &'a mut Faults,
}

/// What a field holds: `None` if it has a fault, which has been told.
pub(super) type Read<T> = Option<T>;

impl<'a> Fields<'a> {
    pub(super) fn new(object: &'a Map<String, Value>, place: &'a Place<'a>, faults: &'a mut Faults) -> Fields<'a> {
        Fields { object, place, faults }
    }

    pub(super) fn required<T>(
        &mut self,
        field: &str,
        expected: &str,
        form: impl FnOnce(&'a Value) -> Result<T, Flaw>,
    ) -> Read<T> {
        match self.object.get(field) {
            Some(value) => self.read(field, value, form),
            None => self.missing(field, expected),
        }
    }

    /// A field that may be absent or null, which is the same.
    pub(super) fn optional<T>(
        &mut self,
        field: &str,
        form: impl FnOnce(&'a Value) -> Result<T, Flaw>,
    ) -> Read<Option<T>> {
        match self.given(field) {
            Some(value) => self.read(field, value, form).map(Some),
            None => Some(None),
        }
    }

    pub(super) fn required_object<T>(
        &mut self,
        field: &str,
        expected: &str,
        fields: impl FnOnce(&mut Fields<'_>) -> Read<T>,
    ) -> Read<T> {
        match self.object.get(field) {
            Some(value) => self.within(field, value, fields),
            None => self.missing(field, expected),
        }
    }

    pub(super) fn optional_object<T>(
        &mut self,
        field: &str,
        fields: impl FnOnce(&mut Fields<'_>) -> Read<T>,
    ) -> Read<Option<T>> {
        match self.given(field) {
            Some(value) => self.within(field, value, fields).map(Some),
            None => Some(None),
        }
    }

    /// A list whose entries have one form; nothing if the field is absent or null.
    pub(super) fn list<T>(&mut self, field: &str, form: impl Fn(&'a Value) -> Result<T, Flaw>) -> Read<Vec<T>> {
        let Some(entries) = self.entries(field)? else { return Some(Vec::new()) };
        let list = Place::Field(self.place, field);
        let read = entries.iter().enumerate().map(|(index, entry)| {
            form(entry).map_err(|flaw| self.faults.add(flaw.code, &Place::Entry(&list, index), flaw.message)).ok()
        });
        // Every entry is read before any is missed, so that all faults are told.
        read.collect::<Vec<_>>().into_iter().collect()
    }

    /// A list of objects; nothing if the field is absent or null.
    pub(super) fn objects<T>(
        &mut self,
        field: &str,
        mut fields: impl FnMut(&mut Fields<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let Some(entries) = self.entries(field)? else { return Some(Vec::new()) };
        let list = Place::Field(self.place, field);
        let read = entries.iter().enumerate().map(|(index, entry)| {
            let place = Place::Entry(&list, index);
            match object(entry) {
                Ok(object) => fields(&mut Fields::new(object, &place, self.faults)),
                Err(flaw) => {
                    self.faults.add(flaw.code, &place, flaw.message);
                    None
                }
            }
        });
        read.collect::<Vec<_>>().into_iter().collect()
    }

    pub(super) fn object(&self) -> &'a Map<String, Value> {
        self.object
    }

    pub(super) fn required_objects<T>(
        &mut self,
        field: &str,
        expected: &str,
        fields: impl FnMut(&mut Fields<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        match self.object.get(field) {
            None => self.missing(field, expected),
            Some(Value::Null) => {
                self.fault(field, wrong("an array", &Value::Null));
                None
            }
            Some(_) => self.objects(field, fields),
        }
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.given(field).is_some()
    }

    pub(super) fn fault(&mut self, field: &str, flaw: Flaw) {
        self.faults.add(flaw.code, &Place::Field(self.place, field), flaw.message);
    }

    fn missing<T>(&mut self, field: &str, expected: &str) -> Read<T> {
        self.fault(field, Flaw::new(FaultCode::MissingField, format!("is missing: expected {expected}")));
        None
    }

    fn given(&self, field: &str) -> Option<&'a Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    fn entries(&mut self, field: &str) -> Read<Option<&'a Vec<Value>>> {
        let Some(value) = self.given(field) else { return Some(None) };
        let most = limit::LIST_ENTRIES;
        let flaw = match value {
            Value::Array(entries) if entries.len() <= most => return Some(Some(entries)),
            Value::Array(entries) => {
                Flaw::new(FaultCode::TooLarge, format!("has {} entries; at most {most} are taken", entries.len()))
            }
            other => wrong("an array", other),
        };
        self.fault(field, flaw);
        None
    }

    fn read<T>(&mut self, field: &str, value: &'a Value, form: impl FnOnce(&'a Value) -> Result<T, Flaw>) -> Read<T> {
        form(value).map_err(|flaw| self.fault(field, flaw)).ok()
    }

    fn within<T>(&mut self, field: &str, value: &Value, fields: impl FnOnce(&mut Fields<'_>) -> Read<T>) -> Read<T> {
        match object(value) {
            Ok(object) => fields(&mut Fields::new(object, &Place::Field(self.place, field), self.faults)),
            Err(flaw) => {
                self.fault(field, flaw);
                None
            }
        }
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
