//! The forms that values have, and reading the fields of an object by them so that every fault is found.

use serde_json::{Map, Value};

use super::Faults;
use super::place::Place;
use crate::kernel::limit;
use crate::kernel::parse::{FaultCode, Flaw, object, wrong};

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
