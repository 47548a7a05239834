//! What a request asks of whoever does it: `skill:research`, or `skill:research@^1.0` if only some versions will do.

use std::fmt;

use semver::VersionReq;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::parse::{Flaw, quoted};
use crate::kernel::{limit, parse};

#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Requirement {
    /// With its kind in front, `skill:` where none was written.
    pub capability: String,
    pub versions: Option<VersionReq>,
}

impl Requirement {
    pub fn parse(text: &str) -> Option<Requirement> {
        need(text).ok()
    }

    /// `skill`, `tool`, `domain` or another word.
    pub fn kind(&self) -> &str {
        self.capability.split_once(':').map_or("", |(kind, _)| kind)
    }

    /// Whether it is a tool, and not only that tools can be used at all (`tool:mcp`).
    pub fn is_tool(&self) -> bool {
        matches!(self.kind(), "tool" | "mcp") && self.name() != "mcp"
    }

    pub fn name(&self) -> &str {
        self.capability.split_once(':').map_or(&self.capability, |(_, name)| name)
    }
}

pub(crate) fn read(value: &Value) -> Result<Requirement, Flaw> {
    need(parse::string(value)?)
}

fn need(text: &str) -> Result<Requirement, Flaw> {
    let (capability, versions) = match text.split_once('@') {
        Some((capability, versions)) => (capability, Some(range(versions)?)),
        None => (text, None),
    };
    parse::check_name(capability, limit::NAME_BYTES)?;
    let capability = match capability.split_once(':') {
        None => format!("skill:{capability}"),
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => capability.to_owned(),
        Some(_) => {
            return Err(Flaw::invalid(format!("{} must be a kind and a name, like 'skill:research'", quoted(text))));
        }
    };
    Ok(Requirement { capability, versions })
}

fn range(text: &str) -> Result<VersionReq, Flaw> {
    let expected = "must be a range of versions, like '^1.0' or '>=1.2, <2'";
    let short = text.len() <= limit::NAME_BYTES;
    short
        .then(|| VersionReq::parse(text).ok())
        .flatten()
        .ok_or_else(|| Flaw::invalid(format!("{} behind '@' {expected}", quoted(text))))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.versions {
            Some(versions) => write!(f, "{}@{versions}", self.capability),
            None => f.write_str(&self.capability),
        }
    }
}

impl From<Requirement> for String {
    fn from(need: Requirement) -> String {
        need.to_string()
    }
}

impl TryFrom<String> for Requirement {
    type Error = String;

    fn try_from(text: String) -> Result<Requirement, String> {
        need(&text).map_err(|flaw| flaw.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_read_back_as_written() {
        for (text, written) in [
            ("skill:research", "skill:research"),
            ("research", "skill:research"),
            ("skill:research@^1.0", "skill:research@^1.0"),
            ("skill:research@1", "skill:research@^1"),
            ("tool:mcp@>=1.2, <2", "tool:mcp@>=1.2, <2"),
            ("domain:fintech", "domain:fintech"),
            ("skill:a:b", "skill:a:b"),
        ] {
            let need = Requirement::parse(text).unwrap();
            assert_eq!(need.to_string(), written);
            assert_eq!(Requirement::parse(written), Some(need));
        }
        let need = Requirement::parse("tool:browser@*").unwrap();
        assert_eq!((need.kind(), need.name()), ("tool", "browser"));
    }

    #[test]
    fn other_texts_are_no_needs() {
        for text in ["", ":", "skill:", ":x", "skill:a b", "skill:x@", "skill:x@latest", "skill:x@1@2", "@1"] {
            assert_eq!(Requirement::parse(text), None, "{text}");
        }
    }
}
