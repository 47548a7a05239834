//! Violations of a schema: where a payload differs from it, and how.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Violation {
    /// A JSON pointer (RFC 6901) into the message.
    pub pointer: String,
    pub message: String,
}

/// Every violation once, in the order of their places; what exceeds [`limit::FAULTS`] or [`limit::FAULT_BYTES`] is counted
/// only.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Violations {
    found: Vec<Violation>,
    left_out: usize,
}

impl Violations {
    pub fn of(found: impl IntoIterator<Item = Violation>) -> Violations {
        let mut all = Violations::default();
        let mut bytes = 0;
        for violation in found.into_iter().collect::<BTreeSet<_>>() {
            bytes += violation.pointer.len() + violation.message.len();
            // The first one is told however long it is: without it nobody would know what to mend.
            if all.found.len() == limit::FAULTS || (bytes > limit::FAULT_BYTES && !all.found.is_empty()) {
                all.left_out += 1;
            } else {
                all.found.push(violation);
            }
        }
        all
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Violation> {
        self.found.iter()
    }

    /// The same in a message that stands at this place among others.
    #[must_use]
    pub fn within(mut self, front: &str) -> Violations {
        self.found.iter_mut().for_each(|violation| violation.pointer.insert_str(0, front));
        self
    }

    /// The same where what stands below one place stands below another.
    #[must_use]
    pub fn moved(mut self, from: &str, to: &str) -> Violations {
        for violation in &mut self.found {
            if let Some(rest) = violation.pointer.strip_prefix(from) {
                violation.pointer = format!("{to}{rest}");
            }
        }
        self
    }

    /// Why the message is not taken, if there are any.
    pub fn refusal(&self) -> Option<Rejection> {
        let first = self.found.first()?;
        let refusal = Rejection::new(Code::SchemaViolation, self.to_string()).about(&first.pointer);
        Some(refusal.hint("the step is still open: correct these places and send it again"))
    }

    /// How many more there are than are told.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Violation { pointer, message }) in self.found.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}{pointer} {message}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// That a field of what is at a place is not there.
pub fn missing(within: &str, field: &str) -> Violation {
    Violation { pointer: pointer_below(within, field), message: "is required, and missing".to_owned() }
}

/// The place of a field of what is at a place.
pub fn pointer_below(pointer: &str, field: &str) -> String {
    format!("{pointer}/{}", field.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_in_the_order_of_their_places() {
        let all = Violations::of([missing("/payload", "b"), missing("/payload", "a/~"), missing("/payload", "b")]);
        let pointers: Vec<_> = all.iter().map(|violation| violation.pointer.as_str()).collect();
        assert_eq!(pointers, ["/payload/a~1~0", "/payload/b"]);
        assert_eq!(all.to_string(), "/payload/a~1~0 is required, and missing; /payload/b is required, and missing");
    }

    #[test]
    fn what_exceeds_the_limit_is_counted() {
        let all = Violations::of((0..limit::FAULTS + 2).map(|at| missing("/payload", &at.to_string())));
        assert_eq!((all.iter().count(), all.left_out()), (limit::FAULTS, 2));
        let long = Violations::of((0..3).map(|at| missing(&"x".repeat(limit::FAULT_BYTES), &at.to_string())));
        assert_eq!((long.iter().count(), long.left_out()), (1, 2));
        assert!(long.to_string().ends_with("; and 2 more"));
    }
}
