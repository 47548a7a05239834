//! Paths as claims know them: relative to the project's root, normalised, never outside of it.
//!
//! Pure text work. Links, worktrees and absolute paths are resolved by the engine before a path comes here.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_normalization::UnicodeNormalization;

use crate::kernel::limit;

/// Whether two spellings that differ in case name the same file on the project's file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Case {
    #[default]
    Kept,
    Folded,
}

/// A normalised path. A trailing slash means the whole subtree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath {
    key: Arc<str>,
    shown: Arc<str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathProblem {
    #[error("path must not be empty")]
    Empty,
    #[error("path must not contain NUL")]
    Nul,
    #[error("path is longer than {} bytes or deeper than {} folders", limit::PATH_BYTES, limit::PATH_DEPTH)]
    TooLong,
    #[error("path is absolute and not inside the project")]
    Absolute,
    #[error("path leaves the project")]
    Outside,
    #[error("path names the project's root")]
    Root,
}

impl FilePath {
    pub fn parse(raw: &str, case: Case) -> Result<FilePath, PathProblem> {
        if raw.is_empty() {
            return Err(PathProblem::Empty);
        }
        if raw.contains('\0') {
            return Err(PathProblem::Nul);
        }
        if raw.starts_with('/') {
            return Err(PathProblem::Absolute);
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in raw.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop().ok_or(PathProblem::Outside)?;
                }
                name => parts.push(name),
            }
        }
        if parts.is_empty() {
            return Err(PathProblem::Root);
        }
        let mut shown: String = parts.join("/").nfc().collect();
        if raw.ends_with('/') || raw.ends_with("/.") {
            shown.push('/');
        }
        if shown.len() > limit::PATH_BYTES || parts.len() > limit::PATH_DEPTH {
            return Err(PathProblem::TooLong);
        }
        Ok(FilePath::from_parts(shown, case))
    }

    fn from_parts(shown: String, case: Case) -> FilePath {
        let shown: Arc<str> = shown.into();
        let key = match case {
            Case::Kept => shown.clone(),
            Case::Folded => shown.to_lowercase().into(),
        };
        FilePath { key, shown }
    }

    /// What claims are compared by.
    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn is_subtree(&self) -> bool {
        self.key.ends_with('/')
    }

    /// The prefix that everything below this path begins with.
    pub fn below(&self) -> String {
        format!("{}/", self.key.trim_end_matches('/'))
    }

    /// Every other key whose claim would cover this path: the same name in its other form, and each folder above, be
    /// it claimed with its slash or without.
    pub fn covers(&self) -> Vec<String> {
        let bare = self.key.trim_end_matches('/');
        let above = bare.match_indices('/');
        let mut keys: Vec<String> = above.flat_map(|(at, _)| [bare[..at].to_owned(), bare[..=at].to_owned()]).collect();
        keys.push(if self.is_subtree() { bare.to_owned() } else { format!("{bare}/") });
        keys
    }

    /// One is the other, or is above or below it.
    pub fn overlaps(&self, other: &FilePath) -> bool {
        let (one, other) = (self.below(), other.below());
        one.starts_with(&other) || other.starts_with(&one)
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// On the wire a path is its text; only where case is folded does its key stand beside it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Plain(Arc<str>),
    Keyed { key: Arc<str>, shown: Arc<str> },
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.key == self.shown {
            return self.key.serialize(serializer);
        }
        Wire::Keyed { key: self.key.clone(), shown: self.shown.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FilePath, D::Error> {
        Ok(match Wire::deserialize(deserializer)? {
            Wire::Plain(text) => FilePath { key: text.clone(), shown: text },
            Wire::Keyed { key, shown } => FilePath { key, shown },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(raw: &str) -> Result<String, PathProblem> {
        FilePath::parse(raw, Case::Kept).map(|path| path.to_string())
    }

    #[test]
    fn spellings_of_one_path_are_one_path() {
        for raw in ["a/b", "./a/b", "a//b", "a/./b", "a/c/../b", "x/../a/b"] {
            assert_eq!(parsed(raw).as_deref(), Ok("a/b"), "{raw}");
        }
        for raw in ["a/b/", "a/b//", "./a/b/.", "a/b/./"] {
            assert_eq!(parsed(raw).as_deref(), Ok("a/b/"), "{raw}");
        }
        // e + combining acute accent is the one character é.
        assert_eq!(parsed("cafe\u{301}").as_deref(), Ok("caf\u{e9}"));
        assert_eq!(parsed("Src/Main.rs").as_deref(), Ok("Src/Main.rs"));
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for (raw, problem) in [
            ("", PathProblem::Empty),
            ("a\0b", PathProblem::Nul),
            ("/etc/passwd", PathProblem::Absolute),
            ("..", PathProblem::Outside),
            ("a/../../b", PathProblem::Outside),
            (".", PathProblem::Root),
            ("a/..", PathProblem::Root),
        ] {
            assert_eq!(parsed(raw), Err(problem), "{raw:?}");
        }
        assert_eq!(parsed(&"x".repeat(limit::PATH_BYTES + 1)), Err(PathProblem::TooLong));
        assert_eq!(parsed(&"x/".repeat(limit::PATH_DEPTH + 1)), Err(PathProblem::TooLong));
    }

    #[test]
    fn folded_case_compares_equal_and_shows_as_given() {
        let one = FilePath::parse("Src/Main.rs", Case::Folded).unwrap();
        let two = FilePath::parse("src/main.RS", Case::Folded).unwrap();
        assert_eq!(one.key(), two.key());
        assert_eq!(one.to_string(), "Src/Main.rs");
        let back: FilePath = serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap();
        assert_eq!(back, one);
    }

    #[test]
    fn a_path_is_covered_by_the_folders_above_it() {
        let covers = |raw| FilePath::parse(raw, Case::Kept).unwrap().covers();
        assert_eq!(covers("a/b/c"), ["a", "a/", "a/b", "a/b/", "a/b/c/"]);
        assert_eq!(covers("a/b/"), ["a", "a/", "a/b"]);
        assert_eq!(covers("a"), ["a/"]);
    }
}
