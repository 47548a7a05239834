//! What is wrong with a file, and where. Faults are collected, so that a person mends a file once and not line by line.

use std::fmt;
use std::sync::Arc;

use rookery_core::kernel::limit;
use serde::Serialize;

/// The longest piece of a file that a fault repeats.
const FOUND_CHARS: usize = 60;

/// Where something stands: lines and columns count from one, columns in characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct SourceLocation {
    pub file: Arc<str>,
    pub line: u64,
    pub column: u64,
    /// The way to it in the file, such as `agents.coder.tools[1]`; empty for the file itself.
    pub path: String,
}

/// A value, and where it was written.
#[derive(Clone, PartialEq, Debug)]
pub struct At<T> {
    pub value: T,
    pub place: SourceLocation,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    #[serde(flatten)]
    pub place: SourceLocation,
    pub message: String,
    /// What stands there instead. Never a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Fault {
    pub fn new(place: &SourceLocation, message: impl Into<String>) -> Fault {
        Fault { place: place.clone(), message: message.into(), found: None, hint: None }
    }

    #[must_use]
    pub fn found(self, found: impl AsRef<str>) -> Fault {
        Fault { found: Some(excerpt(found.as_ref())), ..self }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Fault {
        Fault { hint: Some(hint.into()), ..self }
    }

    /// With the word that was probably meant, if one is near.
    #[must_use]
    pub fn meant(self, nearest: Option<&str>) -> Fault {
        match nearest {
            Some(nearest) => self.hint(format!("did you mean `{nearest}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceLocation { file, line, column, path } = &self.place;
        write!(f, "{file}:{line}:{column}: ")?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(found) = &self.found {
            write!(f, ", found {found}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The first line of a text, and not all of a long one.
fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(FOUND_CHARS).collect();
    if short.len() < text.trim_end().len() {
        short.push('…');
    }
    short
}

/// All that is wrong, in the order of the file; of a file that has too many faults, the first ones found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Faults {
    faults: Vec<Fault>,
    omitted: usize,
}

impl Faults {
    pub fn add(&mut self, fault: Fault) {
        // An anchor that is used twice is wrong in one place.
        if self.faults.contains(&fault) {
            return;
        }
        if self.faults.len() < limit::FAULTS {
            self.faults.push(fault);
        } else {
            self.omitted += 1;
        }
    }

    /// As [`Faults::add`], for one that takes time to word: what is left out anyway is not worded.
    pub fn add_with(&mut self, fault: impl FnOnce() -> Fault) {
        if self.faults.len() < limit::FAULTS {
            self.add(fault());
        } else {
            self.omitted += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }

    pub fn omitted(&self) -> usize {
        self.omitted
    }

    pub fn count(&self) -> usize {
        self.faults.len() + self.omitted
    }

    #[must_use]
    pub(crate) fn in_order(mut self) -> Faults {
        self.faults.sort_by(|one, other| one.place.cmp(&other.place));
        self
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Faults {
        Faults { faults: vec![fault], omitted: 0 }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        match self.omitted {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

impl std::error::Error for Faults {}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> SourceLocation {
        SourceLocation { file: "a.yaml".into(), line: 3, column: 5, path: "agents.coder".to_owned() }
    }

    #[test]
    fn a_fault_says_where_what_and_what_to_do() {
        let fault = Fault::new(&place(), "must be text").found("[1, 2]").hint("put it in quotes");
        assert_eq!(fault.to_string(), "a.yaml:3:5: agents.coder: must be text, found [1, 2]; put it in quotes");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt("one\ntwo"), "one…");
        assert_eq!(excerpt(&"ä".repeat(100)).chars().count(), FOUND_CHARS + 1);
    }

    #[test]
    fn there_are_only_so_many() {
        let mut faults = Faults::default();
        for n in 0..limit::FAULTS + 5 {
            faults.add(Fault::new(&place(), format!("{n}")));
            faults.add(Fault::new(&place(), "0"));
        }
        assert_eq!((faults.iter().count(), faults.omitted()), (limit::FAULTS, 5));
        assert!(faults.to_string().ends_with("… and 5 more"));
    }
}
