//! Taking a secret out of the log: texts go, the row and its hash stay, and a fact says so.
//!
//! This is the one place where something that was written changes. Texts of the named facts are blanked where they
//! stand, and the same texts in derived rows are blanked by the fact, so that a rebuild ends with the same rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::{Caller, Power};
use crate::command::{Decision, Halt, Reply};
use crate::fact::{Fact, touches};
use crate::id::{IntentId, Seq};
use crate::key::{Ask, Key};
use crate::refusal::{Code, Refusal};
use crate::row::Row;
use crate::view::View;

pub const REDACTED: &str = "[redacted]";

/// The names of fields that hold free text, in facts and rows alike.
const TEXTS: [&str; 13] = [
    "title",
    "description",
    "reason",
    "error",
    "outcome",
    "outcome_detail",
    "summary",
    "context",
    "blockers",
    "metadata",
    "warning",
    "text",
    "detail",
];

#[derive(Clone, PartialEq, Debug)]
pub struct Redact {
    pub rows: Vec<Target>,
}

/// A fact whose texts shall go, as it stands in the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    pub seq: Seq,
    pub fact: Fact,
    /// Where its body is a file: the file, and the id for the intent to erase it.
    pub artifact: Option<Erase>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Erase {
    pub intent: IntentId,
    pub sha256: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogRedacted {
    pub seq: Seq,
    pub kind: String,
    /// The rows that still showed a text of the fact, and the fields that did.
    pub cleared: Vec<Cleared>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erases: Vec<Erase>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cleared {
    pub key: Key,
    pub fields: Vec<String>,
}

impl Redact {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        self.rows.iter().flat_map(|target| touches(&target.fact)).map(Ask::from).collect()
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        if caller.power != Power::Person {
            return Err(Refusal::new(Code::Forbidden, "only a person may redact").into());
        }
        if self.rows.is_empty() {
            return Ok(Decision::nothing(Reply::Done));
        }
        let mut decision = Decision::nothing(Reply::Recorded);
        for target in &self.rows {
            let texts = texts(&serde_json::to_value(&target.fact).unwrap_or_default());
            let mut cleared = Vec::new();
            for key in touches(&target.fact) {
                let Some(row) = view.get(&key)? else { continue };
                let fields = showing(row, &texts);
                if !fields.is_empty() {
                    cleared.push(Cleared { key, fields });
                }
            }
            decision.facts.push(Fact::LogRedacted(LogRedacted {
                seq: target.seq,
                kind: target.fact.kind().to_owned(),
                cleared,
                erases: target.artifact.clone().into_iter().collect(),
            }));
            decision.blanked.push((target.seq, target.fact.blanked()));
        }
        Ok(decision)
    }
}

/// The text fields of a document, wherever they stand in it.
fn texts(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    if let Value::Object(fields) = document {
        for (name, value) in fields {
            if TEXTS.contains(&name.as_str()) && !matches!(value, Value::Null) {
                found.push((name.clone(), value.clone()));
            }
            found.extend(texts(value));
        }
    }
    found
}

/// The fields of a row that show one of these texts.
fn showing(row: &Row, hidden: &[(String, Value)]) -> Vec<String> {
    let document = serde_json::to_value(row).unwrap_or_default();
    let mut fields: Vec<String> = texts(&document)
        .into_iter()
        .filter(|(_, value)| hidden.iter().any(|(_, text)| text == value))
        .map(|(name, _)| name)
        .collect();
    fields.sort();
    fields.dedup();
    fields
}

/// A document with the chosen text fields blanked; everything else stays as it is.
fn blank(document: &mut Value, chosen: &dyn Fn(&str) -> bool) {
    if let Value::Object(fields) = document {
        for (name, value) in fields {
            if TEXTS.contains(&name.as_str()) && chosen(name) {
                blank_value(value);
            } else {
                blank(value, chosen);
            }
        }
    }
}

fn blank_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = REDACTED.to_owned(),
        Value::Array(entries) => entries.iter_mut().for_each(blank_value),
        // The keys of free-form objects are text, too.
        Value::Object(fields) => {
            *fields = if fields.is_empty() {
                serde_json::Map::new()
            } else {
                serde_json::Map::from_iter([(REDACTED.to_owned(), Value::String(REDACTED.to_owned()))])
            };
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A fact without its texts.
pub(crate) fn blanked(mut fact: Value) -> Value {
    // An outcome is an object with texts in it, not a text.
    blank(&mut fact, &|name| name != "outcome");
    fact
}

pub(crate) fn apply(row: Row, key: &Key, fact: &LogRedacted) -> Row {
    let Some(cleared) = fact.cleared.iter().find(|cleared| cleared.key == *key) else { return row };
    let Ok(mut document) = serde_json::to_value(&row) else { return row };
    blank(&mut document, &|name| cleared.fields.iter().any(|field| field == name));
    let bytes = serde_json::to_vec(&document).unwrap_or_default();
    Row::decode(row.table(), &bytes).unwrap_or(row)
}
