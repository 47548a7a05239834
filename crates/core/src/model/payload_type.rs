//! Which contract a payload keeps: `research.summary.v1`, also written `schema://clutch/research/summary@1`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::parse::{Flaw, quoted};
use crate::kernel::{limit, parse};

const SCHEME: &str = "schema://clutch/";

/// A name of parts with a version at its end, as it stands in `payload_type`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PayloadType(Arc<str>);

impl PayloadType {
    pub fn parse(text: &str) -> Option<PayloadType> {
        let (name, version) = text.rsplit_once(".v")?;
        (fits(name, '.') && is_version(version) && text.len() <= limit::NAME_BYTES).then(|| PayloadType(text.into()))
    }

    /// The same contract, written as a reference.
    pub fn parse_ref(text: &str) -> Option<PayloadType> {
        let (path, version) = text.strip_prefix(SCHEME)?.rsplit_once('@')?;
        let fits = fits(path, '/') && is_version(version);
        fits.then(|| PayloadType::parse(&format!("{}.v{version}", path.replace('/', "."))))?
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `schema://clutch/research/summary@1`
    pub fn schema_ref(&self) -> String {
        let (name, version) = self.0.rsplit_once(".v").unwrap_or((&self.0, ""));
        format!("{SCHEME}{}@{version}", name.replace('.', "/"))
    }
}

fn fits(name: &str, between: char) -> bool {
    let part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    name.split(between).all(part)
}

/// A number from 1 without zeros in front, so that a version is written in one way.
fn is_version(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit())
}

pub(crate) fn read(value: &Value) -> Result<PayloadType, Flaw> {
    let text = parse::string(value)?;
    PayloadType::parse(text).ok_or_else(|| {
        Flaw::invalid(format!("{} must be a name with a version, like 'research.summary.v1'", quoted(text)))
    })
}

pub(crate) fn read_ref(value: &Value) -> Result<PayloadType, Flaw> {
    let text = parse::string(value)?;
    PayloadType::parse_ref(text).ok_or_else(|| {
        Flaw::invalid(format!("{} must be a reference like 'schema://clutch/research/summary@1'", quoted(text)))
    })
}

impl fmt::Display for PayloadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<PayloadType> for String {
    fn from(payload_type: PayloadType) -> String {
        payload_type.as_str().to_owned()
    }
}

impl TryFrom<String> for PayloadType {
    type Error = String;

    fn try_from(text: String) -> Result<PayloadType, String> {
        PayloadType::parse(&text).ok_or_else(|| format!("{} is no payload type", quoted(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_and_its_reference_are_the_same() {
        for (name, reference) in [
            ("research.summary.v1", "schema://clutch/research/summary@1"),
            ("a.b-c.d_e.v12", "schema://clutch/a/b-c/d_e@12"),
            ("note.v1", "schema://clutch/note@1"),
            ("a.v1.v2", "schema://clutch/a/v1@2"),
        ] {
            let payload_type = PayloadType::parse(name).unwrap();
            assert_eq!(payload_type.schema_ref(), reference);
            assert_eq!(PayloadType::parse_ref(reference), Some(payload_type));
        }
    }

    #[test]
    fn other_texts_are_neither() {
        for text in
            ["", "v1", ".v1", "a.v", "a.v0", "a.v01", "a.v1.", "a..b.v1", "a b.v1", "a", "a.v1234567890", "a.V1"]
        {
            assert_eq!(PayloadType::parse(text), None, "{text}");
        }
        for text in [
            "schema://clutch/a",
            "schema://clutch/@1",
            "schema://acme/a@1",
            "clutch/a@1",
            "schema://clutch/a.b@1",
            "schema://clutch/a/@1",
            "schema://clutch/a@x",
        ] {
            assert_eq!(PayloadType::parse_ref(text), None, "{text}");
        }
    }
}
