//! What is wrong with a message: a stable code, where it is, and a sentence that says what is expected there.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::place::Place;
use crate::kernel::limit;
use crate::kernel::parse::FaultCode;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    pub code: FaultCode,
    /// A JSON pointer (RFC 6901) into what was sent; of a batch, the first step is the message's index.
    pub pointer: String,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            pointer => write!(f, "{pointer}: {}", self.message),
        }
    }
}

/// Every fault of a message or batch; what exceeds [`limit::FAULTS`] or [`limit::FAULT_BYTES`] is counted only.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Faults {
    found: Vec<Fault>,
    bytes: usize,
    left_out: usize,
}

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn first(&self) -> Option<&Fault> {
        self.found.first()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.found.iter()
    }

    /// How many more there are than are told.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn of(code: FaultCode, place: &Place<'_>, message: impl Into<String>) -> Faults {
        let mut faults = Faults::default();
        faults.add(code, place, message);
        faults
    }

    pub(super) fn add(&mut self, code: FaultCode, place: &Place<'_>, message: impl Into<String>) {
        self.push(Fault { code, pointer: place.pointer(), message: message.into() });
    }

    /// The same faults, of something that is a field of what is at this place.
    pub(super) fn within(self, place: &Place<'_>, field: &str) -> Faults {
        let front = Place::Field(place, field).pointer();
        let mut faults = Faults { left_out: self.left_out, ..Faults::default() };
        for fault in self.found {
            faults.push(Fault { pointer: format!("{front}{}", fault.pointer), ..fault });
        }
        faults
    }

    pub(super) fn append(&mut self, others: Faults) {
        self.left_out += others.left_out;
        others.found.into_iter().for_each(|fault| self.push(fault));
    }

    /// The first one is told however long its pointer is: without it nobody would know what to mend.
    fn push(&mut self, fault: Fault) {
        let bytes = self.bytes + fault.pointer.len() + fault.message.len();
        if self.found.len() == limit::FAULTS || (bytes > limit::FAULT_BYTES && !self.found.is_empty()) {
            self.left_out += 1;
            return;
        }
        self.bytes = bytes;
        self.found.push(fault);
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.found.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}{fault}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for Faults {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_as_they_are_named() {
        for code in FaultCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }

    #[test]
    fn what_exceeds_the_limit_is_counted() {
        let many = |count: usize| {
            let mut faults = Faults::default();
            for index in 0..count {
                faults.add(FaultCode::Empty, &Place::Entry(&Place::Root, index), "nothing");
            }
            faults
        };
        let mut faults = many(limit::FAULTS - 1);
        assert_eq!((faults.iter().count(), faults.left_out()), (limit::FAULTS - 1, 0));
        faults.append(many(limit::FAULTS + 2));
        assert_eq!((faults.iter().count(), faults.left_out()), (limit::FAULTS, limit::FAULTS + 1));
        assert!(faults.to_string().ends_with("; and 101 more"), "{faults}");
    }

    #[test]
    fn faults_in_a_field_with_an_endless_name_do_not_repeat_it_without_end() {
        let name = "x".repeat(limit::FAULT_BYTES);
        let mut faults = Faults::default();
        for _ in 0..3 {
            faults.add(FaultCode::DuplicateKey, &Place::Field(&Place::Root, &name), "twice");
        }
        assert_eq!((faults.iter().count(), faults.left_out()), (1, 2));
    }
}
