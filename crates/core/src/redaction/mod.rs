//! Taking a secret out of the log: texts go, the row and its hash stay, and a fact says so.
//!
//! This is the one place where something that was written changes. Texts of the named facts are blanked where they
//! stand, and the same texts in derived rows are blanked by the fact, so that a rebuild ends with the same rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::caller::Authority;
use crate::kernel::code::Code;
use crate::kernel::id::{IntentId, Seq};
use crate::kernel::rejection::Rejection;
use crate::model::artifact::ArtifactRef;
use crate::model::intent::{Effect, Intent};
use crate::model::{EventStamp, Key, ReadItem, ReadSet, Row, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource};

pub const REDACTED: &str = "[redacted]";

/// The names of fields that hold free text, in facts and rows alike.
const TEXTS: [&str; 20] = [
    "title",
    "description",
    "desc",
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
    "source_content",
    "config",
    "approach",
    "steps",
    "context_needed",
    "subject",
];

#[derive(Clone, PartialEq, Debug)]
pub struct Redact {
    pub rows: Vec<Target>,
}

/// A fact whose texts shall go, as it stands in the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    pub seq: Seq,
    pub fact: AnyEvent,
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

impl LogRedacted {
    /// The row without the texts that it showed. The first entry of a key counts.
    fn clear(&self, key: &Key, row: Row) -> Row {
        let Some(cleared) = self.cleared.iter().find(|cleared| cleared.key == *key) else { return row };
        let Ok(mut document) = serde_json::to_value(&row) else { return row };
        blank(&mut document, &|name| cleared.fields.iter().any(|field| field == name));
        let bytes = serde_json::to_vec(&document).unwrap_or_default();
        Row::decode(row.table(), &bytes).unwrap_or(row)
    }
}

impl Event for LogRedacted {
    const KIND: &'static str = "log.redacted";

    fn write_set(&self) -> Vec<Key> {
        let cleared = self.cleared.iter().map(|cleared| cleared.key.clone());
        cleared.chain(self.erases.iter().map(|erase| Key::Intent(erase.intent.clone()))).collect()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        for Cleared { key, .. } in &self.cleared {
            match key {
                // An effect is still to happen as it was decided.
                Key::Intent(_) => {}
                Key::ArtifactRef(id) => {
                    rows.replace(id.clone(), |named: Option<ArtifactRef>| named?.without(self.seq));
                }
                key => rows.change(key, |row| self.clear(key, row)),
            }
        }
        // Backwards, because the first entry of an intent counts.
        for Erase { intent, sha256 } in self.erases.iter().rev() {
            let effect = Effect::EraseArtifact { sha256: sha256.clone() };
            rows.put(intent.clone(), Intent { id: intent.clone(), opened: stamp.seq, effect, site: None });
        }
    }

    fn opens_intent(&self) -> bool {
        !self.erases.is_empty()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cleared {
    pub key: Key,
    pub fields: Vec<String>,
}

impl Command for Redact {
    const NAME: &'static str = "Redact";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        self.rows.iter().flat_map(|target| target.fact.write_set()).map(ReadItem::from).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        if cx.caller.power != Authority::Person {
            return Err(Rejection::new(Code::Forbidden, "only a person may redact").into());
        }
        if self.rows.is_empty() {
            return Ok(Decision::unchanged(ReplySource::done()));
        }
        let mut decision = Decision::unchanged(ReplySource::done());
        for target in &self.rows {
            let texts = texts(&target.fact.to_value());
            let mut cleared = Vec::new();
            for key in target.fact.write_set() {
                let Some(row) = cx.view.get(&key)? else { continue };
                let fields = showing(row, &texts);
                // What it named, it names no longer.
                let named = matches!(row, Row::ArtifactRef(row) if row.named_in.contains(&target.seq));
                if named || !fields.is_empty() {
                    cleared.push(Cleared { key, fields });
                }
            }
            decision.events.push(AnyEvent::new(LogRedacted {
                seq: target.seq,
                kind: target.fact.kind().to_owned(),
                cleared,
                erases: target.artifact.clone().into_iter().collect(),
            }));
            decision.redacted.push((target.seq, target.fact.blanked()));
        }
        Ok(decision)
    }

    fn queued_bytes(&self) -> usize {
        self.rows.iter().map(|target| 256 + 2 * target.fact.encode().len()).sum()
    }
}

/// The text fields of a document, wherever they stand in it.
pub(crate) fn texts(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                if TEXTS.contains(&name.as_str()) && !matches!(value, Value::Null) {
                    found.push((name.clone(), value.clone()));
                }
                found.extend(texts(value));
            }
        }
        Value::Array(entries) => found.extend(entries.iter().flat_map(texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
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
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                if TEXTS.contains(&name.as_str()) && chosen(name) {
                    blank_value(value);
                } else {
                    blank(value, chosen);
                }
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| blank(entry, chosen)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
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

impl AnyEvent {
    /// The event without its free texts.
    pub fn blanked(&self) -> Vec<u8> {
        serde_json::to_vec(&blanked(self.to_value())).unwrap_or_default()
    }

    /// The free texts that [`AnyEvent::blanked`] removes, each as JSON.
    pub fn texts(&self) -> Vec<String> {
        texts(&self.to_value()).into_iter().map(|(_, text)| text.to_string()).collect()
    }
}

/// An event without its texts.
fn blanked(mut fact: Value) -> Value {
    // An outcome is an object with texts in it, not a text.
    blank(&mut fact, &|name| name != "outcome");
    fact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::CloseIntent;
    use crate::kernel::caller::Caller;
    use crate::model::task::{Outcome, TaskState};
    use crate::tasks::{CancelTask, CompleteTask, CreateTask, FailTask, SetTaskStep};
    use crate::testing::{World, anna, by, cancel, complete, create, fail, hand_over, moves, retry};
    use crate::traits::{AnyReply, AnyReplySource};

    fn redact(w: &World, seqs: impl IntoIterator<Item = u64>) -> Redact {
        let target = |seq: u64| {
            let row = &w.log[usize::try_from(seq - 1).unwrap()];
            Target { seq: row.seq, fact: row.event.clone(), artifact: None }
        };
        Redact { rows: seqs.into_iter().map(target).collect() }
    }

    /// Takes texts out of every place they get to, in any order of facts.
    fn told_everywhere() -> World {
        let mut w = World::of(&["a", "b"]);
        let text = || "secret".to_owned();
        w.does(&by("a"), CreateTask { title: text(), description: text(), ..create("t", &[]) });
        w.starts("a", "t");
        w.does(&by("a"), SetTaskStep { reason: Some(text()), ..moves("t", TaskState::Paused) });
        let mut offer = hand_over("h", "a", Some("b"), "t");
        offer.note.context = text();
        offer.note.blockers = vec![text()];
        w.does(&by("a"), offer);
        let reject = crate::handoffs::RejectHandoff { handoff: "h".into(), agent: "b".into(), reason: text() };
        w.does(&by("b"), reject);
        w.does(&by("a"), FailTask { error: Some(text()), ..fail("t") });
        w.does(&by("a"), retry("t"));
        w.starts("a", "t");
        let detail = Some(serde_json::json!({ "secret": ["secret", 7] }));
        w.does(&by("a"), CompleteTask { outcome: Outcome { text: Some(text()), detail }, ..complete("t") });
        w.does(&by("a"), CreateTask { title: text(), ..create("u", &[]) });
        w.does(&by("a"), CancelTask { reason: Some(text()), ..cancel("u") });
        let mut profile = crate::testing::profile(crate::model::agent::AgentRole::Worker);
        profile.metadata = serde_json::Map::from_iter([("secret".to_owned(), "secret".into())]);
        w.does(&by("b"), crate::agents::RegisterAgent::with_profile("b".into(), profile));
        told_in_messages(&mut w);
        w
    }

    fn told_in_messages(w: &mut World) {
        use crate::messages::{ReleaseHeld, SendMessage, StormGuard, Verdict, What};
        use crate::testing::{coord, document, entry};
        let strict = StormGuard { per_minute: 2, hops: 20 };
        w.does(&by("a"), SendMessage { guard: strict, ..entry("m1", "a", "@b secret") });
        let mut told = SendMessage { text: "secret".to_owned(), guard: strict, ..coord("m2", "a", "GENERAL", &["b"]) };
        if let What::Coord { subject, .. } = &mut told.what {
            *subject = "secret".to_owned();
        }
        w.does(&by("a"), told);
        for (id, verdict) in [("m3", Verdict::Deliver), ("m4", Verdict::Discard { reason: Some("secret".to_owned()) })]
        {
            assert_eq!(
                w.does(&by("a"), SendMessage { guard: strict, ..entry(id, "a", "@b secret") }),
                ["message.held"]
            );
            w.does(&anna(), ReleaseHeld { message: id.into(), verdict });
        }
        w.reads("b", &["m1", "m2", "m3"]);
        w.acks("b", &["m1"]);
        let append = crate::documents::AppendDocument {
            id: document("notes.md"),
            text: "secret".to_owned(),
            writer: crate::documents::Writer::Named("a".into()),
        };
        w.does(&by("a"), append.clone());
        w.does(&by("a"), append);
    }

    fn mentions(w: &World) -> (usize, usize) {
        let count = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().matches("secret").count();
        (
            w.log.iter().map(|row| count(row.event.encode())).sum(),
            w.rows().values().map(|row| count(row.encode())).sum(),
        )
    }

    #[test]
    fn a_text_goes_from_log_and_rows_and_a_rebuild_agrees() {
        let mut w = told_everywhere();
        let (head, (in_log, in_rows)) = (w.log.len() as u64, mentions(&w));
        assert!(in_log > 10 && in_rows > 8);
        w.does(&anna(), redact(&w, 1..=head));
        assert_eq!(mentions(&w), (0, 0));
        assert_eq!(w.rebuilt(), *w.rows());
        assert_eq!(w.task("t").title, REDACTED);
        assert_eq!(w.log.len() as u64, 2 * head, "every row is still there, and a fact for each redaction");
    }

    #[test]
    fn each_fact_alone_rebuilds_to_the_same_rows() {
        let head = told_everywhere().log.len() as u64;
        for seq in 1..=head {
            let mut w = told_everywhere();
            w.does(&anna(), redact(&w, [seq]));
            assert_eq!(w.rebuilt(), *w.rows(), "seq {seq}");
            w.does(&anna(), redact(&w, [seq]));
            assert_eq!(w.rebuilt(), *w.rows(), "seq {seq} twice");
        }
    }

    #[test]
    fn only_a_person_redacts_and_nothing_is_no_answer_to_point_at() {
        let mut w = told_everywhere();
        for caller in [by("a"), Caller::anonymous(), Caller { power: Authority::Lead, ..by("b") }] {
            assert_eq!(w.refuses(&caller, redact(&w, [1])), Code::Forbidden);
        }
        assert_eq!(w.run(&anna(), Redact { rows: vec![] }), Ok((vec![], AnyReplySource::Value(AnyReply::Done))));
    }

    #[test]
    fn a_body_on_disk_is_erased_by_an_intent_that_closes_once() {
        let mut w = told_everywhere();
        let mut command = redact(&w, [3]);
        command.rows[0].artifact = Some(Erase { intent: "int_1".into(), sha256: "ab".to_owned() });
        w.does(&anna(), command);
        let key = Key::Intent("int_1".into());
        assert!(w.rows().contains_key(&key));
        let close = CloseIntent { intent: "int_1".into(), failed: None };
        assert_eq!(w.does(&Caller::system(), close.clone()), ["intent.closed"]);
        assert!(!w.rows().contains_key(&key));
        assert_eq!(w.refuses(&Caller::system(), close), Code::Stale);
    }
}
