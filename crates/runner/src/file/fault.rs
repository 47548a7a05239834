//! FileFaults of a file, with their places. They are collected, so that a person can fix all of them at once.

use std::fmt;
use std::sync::Arc;

use rookery_core::kernel::limit;
use serde::Serialize;

/// Maximum length of a value quoted in a fault.
const FOUND_CHARS: usize = 60;

/// A place in a file. Lines and columns count from one, columns in characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct SourceLocation {
    pub file: Arc<str>,
    pub line: u64,
    pub column: u64,
    /// The path of keys, such as `agents.coder.tools[1]`; empty for the file itself.
    pub path: String,
}

/// A value with its place in the file.
#[derive(Clone, PartialEq, Debug)]
pub struct InFile<T> {
    pub value: T,
    pub place: SourceLocation,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FileFault {
    #[serde(flatten)]
    pub place: SourceLocation,
    pub message: String,
    /// The value in the file. Never a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl FileFault {
    pub fn new(place: &SourceLocation, message: impl Into<String>) -> FileFault {
        FileFault { place: place.clone(), message: message.into(), found: None, hint: None }
    }

    #[must_use]
    pub fn found(self, found: impl AsRef<str>) -> FileFault {
        FileFault { found: Some(excerpt(found.as_ref())), ..self }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> FileFault {
        FileFault { hint: Some(hint.into()), ..self }
    }

    /// Adds the name that was probably meant as a hint, if there is one.
    #[must_use]
    pub fn meant(self, nearest: Option<&str>) -> FileFault {
        match nearest {
            Some(nearest) => self.hint(format!("did you mean `{nearest}`?")),
            None => self,
        }
    }
}

impl fmt::Display for FileFault {
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

/// The first line of a text, cut to [`FOUND_CHARS`].
fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(FOUND_CHARS).collect();
    if short.len() < text.trim_end().len() {
        short.push('…');
    }
    short
}

/// The faults of a file in their order, limited to the first ones found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FileFaults {
    faults: Vec<FileFault>,
    omitted: usize,
}

impl FileFaults {
    pub fn add(&mut self, fault: FileFault) {
        // A fault in an anchor that is used twice has one place.
        if self.faults.contains(&fault) {
            return;
        }
        if self.faults.len() < limit::FAULTS {
            self.faults.push(fault);
        } else {
            self.omitted += 1;
        }
    }

    /// As [`FileFaults::add`], for a fault that is expensive to create. It is not created if it would be left out.
    pub fn add_with(&mut self, fault: impl FnOnce() -> FileFault) {
        if self.faults.len() < limit::FAULTS {
            self.add(fault());
        } else {
            self.omitted += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &FileFault> {
        self.faults.iter()
    }

    pub fn omitted(&self) -> usize {
        self.omitted
    }

    pub fn count(&self) -> usize {
        self.faults.len() + self.omitted
    }

    #[must_use]
    pub(crate) fn in_order(mut self) -> FileFaults {
        self.faults.sort_by(|one, other| one.place.cmp(&other.place));
        self
    }
}

impl From<FileFault> for FileFaults {
    fn from(fault: FileFault) -> FileFaults {
        FileFaults { faults: vec![fault], omitted: 0 }
    }
}

impl fmt::Display for FileFaults {
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

impl std::error::Error for FileFaults {}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> SourceLocation {
        SourceLocation { file: "a.yaml".into(), line: 3, column: 5, path: "agents.coder".to_owned() }
    }

    #[test]
    fn fault_shows_place_message_and_hint() {
        let fault = FileFault::new(&place(), "must be text").found("[1, 2]").hint("put it in quotes");
        assert_eq!(fault.to_string(), "a.yaml:3:5: agents.coder: must be text, found [1, 2]; put it in quotes");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt("one\ntwo"), "one…");
        assert_eq!(excerpt(&"ä".repeat(100)).chars().count(), FOUND_CHARS + 1);
    }

    #[test]
    fn number_of_faults_is_limited() {
        let mut faults = FileFaults::default();
        for n in 0..limit::FAULTS + 5 {
            faults.add(FileFault::new(&place(), format!("{n}")));
            faults.add(FileFault::new(&place(), "0"));
        }
        assert_eq!((faults.iter().count(), faults.omitted()), (limit::FAULTS, 5));
        assert!(faults.to_string().ends_with("… and 5 more"));
    }
}
