//! Where a document is inside of its instance: a relative path to a Markdown or text file.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::context_settings::CHANNEL;
use crate::kernel::code::Code;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct DocumentPath(Arc<str>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DocumentPathProblem {
    #[error("file must not be empty")]
    Empty,
    #[error("file is longer than {} bytes", limit::DOCUMENT_PATH_BYTES)]
    TooLong,
    #[error("file must be a path relative to the instance's folder")]
    Absolute,
    #[error("file has a part longer than {} bytes, which no file system takes", limit::FILE_NAME_BYTES)]
    LongPart,
    #[error("file has an empty part, or one that begins with a dot")]
    Part,
    #[error("file contains a backslash or a control character")]
    Character,
    #[error("file must end in .md, .markdown or .txt")]
    Kind,
    #[error("file is where the channel is kept")]
    Channel,
    #[error("file lies below a name that is that of a file: no folder can be called so")]
    BelowAFile,
}

const KINDS: [&str; 3] = [".md", ".markdown", ".txt"];

/// What else is in an instance's folder, and is a file.
const OTHER_FILES: [&str; 2] = ["mcp.json", "context.sock"];

impl DocumentPath {
    pub fn parse(raw: &str) -> Result<DocumentPath, DocumentPathProblem> {
        let path = DocumentPath::parse_any(raw)?;
        if raw.eq_ignore_ascii_case(CHANNEL) { Err(DocumentPathProblem::Channel) } else { Ok(path) }
    }

    /// A path that may also be the channel's.
    pub(crate) fn parse_any(raw: &str) -> Result<DocumentPath, DocumentPathProblem> {
        if raw.is_empty() {
            return Err(DocumentPathProblem::Empty);
        }
        if raw.len() > limit::DOCUMENT_PATH_BYTES {
            return Err(DocumentPathProblem::TooLong);
        }
        if raw.starts_with('/') || raw.starts_with('~') {
            return Err(DocumentPathProblem::Absolute);
        }
        if raw.chars().any(|c| c == '\\' || c.is_control()) {
            return Err(DocumentPathProblem::Character);
        }
        // No part begins with a dot, so that none is `.`, `..` or hidden.
        if raw.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
            return Err(DocumentPathProblem::Part);
        }
        if raw.split('/').any(|part| part.len() > limit::FILE_NAME_BYTES) {
            return Err(DocumentPathProblem::LongPart);
        }
        let lower = raw.to_ascii_lowercase();
        if !is_document(&lower) {
            return Err(DocumentPathProblem::Kind);
        }
        // What could be a document is no folder, whether the document is there yet or not: both can never be files.
        let first = lower.split('/').next().unwrap_or_default();
        let folders = lower.rsplit_once('/').map_or("", |(folders, _)| folders);
        if OTHER_FILES.contains(&first) || folders.split('/').any(is_document) {
            return Err(DocumentPathProblem::BelowAFile);
        }
        Ok(DocumentPath(raw.into()))
    }

    /// A path as it was stored, which was checked when it was written.
    pub(crate) fn stored(raw: &str) -> DocumentPath {
        DocumentPath(raw.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_document(lower: &str) -> bool {
    KINDS.iter().any(|kind| lower.ends_with(kind))
}

impl fmt::Display for DocumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DocumentPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DocumentPath, D::Error> {
        Ok(DocumentPath(<Arc<str>>::deserialize(deserializer)?))
    }
}

impl From<DocumentPathProblem> for Rejection {
    fn from(problem: DocumentPathProblem) -> Rejection {
        let code = match problem {
            DocumentPathProblem::TooLong | DocumentPathProblem::LongPart => Code::TooLarge,
            _ => Code::Invalid,
        };
        Rejection::new(code, problem.to_string()).hint("for example notes.md or findings/auth-issues.md")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_inside_of_the_folder() {
        for good in [
            "notes.md",
            "findings/memory leak.md",
            "a/b/c.txt",
            "v1.2/mcp.json/x.md",
            "ÄRGER.MD",
            "sub/channel.md",
            "a..b.md",
        ] {
            assert_eq!(DocumentPath::parse(good).map(|path| path.to_string()), Ok(good.to_owned()));
        }
        use DocumentPathProblem::*;
        for (bad, problem) in [
            ("", Empty),
            ("/etc/notes.md", Absolute),
            ("~/notes.md", Absolute),
            ("../notes.md", Part),
            ("a/../notes.md", Part),
            ("a//b.md", Part),
            ("./a.md", Part),
            (".md", Part),
            (".hidden/a.md", Part),
            ("a/", Part),
            ("a\\b.md", Character),
            ("a\0.md", Character),
            ("a\n.md", Character),
            ("script.sh", Kind),
            ("notes", Kind),
            ("channel.md", Channel),
            ("Channel.MD", Channel),
            ("notes.md/x.md", BelowAFile),
            ("a/b.TXT/c/d.md", BelowAFile),
            ("channel.md/x.md", BelowAFile),
            ("mcp.json/x.md", BelowAFile),
        ] {
            assert_eq!(DocumentPath::parse(bad), Err(problem), "{bad:?}");
        }
        assert_eq!(DocumentPath::parse(&format!("{}.md", "x".repeat(limit::DOCUMENT_PATH_BYTES))), Err(TooLong));
        assert!(DocumentPath::parse(&format!("{}.md", "x".repeat(252))).is_ok());
        assert_eq!(DocumentPath::parse(&format!("{}.md", "x".repeat(253))), Err(LongPart));
        assert_eq!(DocumentPath::parse(&format!("{}/a.md", "ä".repeat(128))), Err(LongPart));
    }
}
