//! Artifacts as the log knows them: bytes named by their SHA-256, and which facts name them.
//!
//! Only a structured reference counts: an entry of an `attachments` list. What a text says is never searched for names.
//! The bytes themselves are the store's.

use serde_json::Value;

use crate::kernel::code::Code;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;

/// How a reference begins; the hash in hex follows.
pub const REF_PREFIX: &str = "artifact:sha256-";

/// The `kind` of an attachment that is one.
pub(crate) const KIND: &str = "artifact_ref";

/// How an artifact is referred to.
pub fn reference(sha256: &str) -> String {
    format!("{REF_PREFIX}{sha256}")
}

/// The hash in a reference; `None` if it is of another form.
pub fn referred(reference: &str) -> Option<&str> {
    reference.strip_prefix(REF_PREFIX).filter(|sha256| is_sha256(sha256))
}

/// Whether a name is a hash and nothing else.
pub fn is_sha256(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The artifacts in the `attachments` of a detail, each once. References of another form are somebody else's, and nobody
/// has to have what is named: it may be uploaded later.
pub(crate) fn attached(detail: Option<&Value>) -> Result<Vec<String>, Rejection> {
    named(references(detail))
}

fn references(detail: Option<&Value>) -> impl Iterator<Item = &str> {
    let entries = detail.and_then(|detail| detail.get("attachments")).and_then(Value::as_array);
    let attached =
        entries.into_iter().flatten().filter(|entry| entry.get("kind").and_then(Value::as_str) == Some(KIND));
    attached.filter_map(|entry| entry.get("ref").and_then(Value::as_str))
}

/// The artifacts among these references, each once.
pub(crate) fn named<'a>(references: impl Iterator<Item = &'a str>) -> Result<Vec<String>, Rejection> {
    let found = each_once(references);
    if found.len() > limit::ATTACHMENTS {
        let message = format!("{} artifacts are attached; at most {} are taken", found.len(), limit::ATTACHMENTS);
        return Err(Rejection::new(Code::TooLarge, message).hint("put them into an archive, and attach that"));
    }
    Ok(found)
}

fn each_once<'a>(references: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = references.filter_map(referred).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// The artifacts that are attached to a message as it is passed on. How many may be was settled when it came in.
pub fn passed_on(message: &Value) -> Vec<String> {
    each_once(references(Some(message)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::effects::IntentClosed;
    use crate::kernel::caller::Caller;
    use crate::kernel::id::{Seq, Timestamp};
    use crate::model::task::{CheckpointKind, Outcome};
    use crate::model::{ArtifactRefId, EventStamp, Key, Row};
    use crate::redaction::{Cleared, LogRedacted, Redact, Target};
    use crate::registry::EventRef;
    use crate::routing::OfferTask;
    use crate::tasks::{AddCheckpoint, CompleteTask};
    use crate::testing::{World, anna, by, complete, route, sends};
    use crate::traits::{AnyEvent, LogRow, apply_row};

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn attaching(hashes: &[&str]) -> Option<Value> {
        let entry = |hash: &&str| json!({ "kind": KIND, "ref": reference(hash) });
        Some(json!({ "attachments": hashes.iter().map(entry).collect::<Vec<_>>() }))
    }

    fn completing(hashes: &[&str]) -> CompleteTask {
        CompleteTask { outcome: Outcome { text: Some("done".to_owned()), detail: attaching(hashes) }, ..complete("t") }
    }

    fn noting(id: &str, detail: Option<Value>) -> AddCheckpoint {
        AddCheckpoint {
            id: id.to_owned(),
            task: "t".into(),
            agent: None,
            kind: CheckpointKind::Progress,
            summary: "half".to_owned(),
            detail,
            files_changed: vec![],
        }
    }

    fn named(w: &World) -> Vec<(String, String, usize)> {
        let row = |row: &Row| match row {
            Row::ArtifactRef(row) => Some((row.sha256[..1].to_owned(), row.by.clone(), row.named_in.len())),
            _ => None,
        };
        let mut rows: Vec<_> = w.rows().values().filter_map(row).collect();
        rows.sort();
        rows
    }

    fn working() -> World {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        w
    }

    #[test]
    fn a_reference_is_a_prefix_and_a_hash_and_nothing_else() {
        assert_eq!(referred(&reference(A)), Some(A));
        let upper = reference(&A.to_uppercase());
        for other in
            ["", "artifact:report_456", A, &upper, "artifact:sha256-", "artifact:sha256-../../etc", &reference("ab")]
        {
            assert_eq!(referred(other), None, "{other}");
        }
    }

    #[test]
    fn only_attachments_name_artifacts() {
        let entry = json!({ "kind": KIND, "ref": reference(A) });
        let details = [
            json!(null),
            json!("artifact"),
            json!([entry]),
            json!({ "attachments": entry }),
            json!({ "nested": { "attachments": [entry] } }),
            json!({ "attachments": [reference(A), { "ref": reference(A) }, { "kind": "link", "ref": reference(A) }] }),
            json!({ "attachments": [{ "kind": KIND, "ref": "artifact:report_456" }, { "kind": KIND, "ref": 7 }] }),
            json!({ "text": reference(A) }),
        ];
        for detail in details {
            assert_eq!(attached(Some(&detail)).unwrap(), Vec::<String>::new(), "{detail}");
        }
        assert_eq!(attached(attaching(&[B, A, B]).as_ref()).unwrap(), [A, B]);
    }

    #[test]
    fn tasks_and_checkpoints_name_what_is_attached_to_them() {
        let mut w = working();
        w.does(&by("a"), noting("cp_1", attaching(&[A])));
        w.does(&by("a"), completing(&[A, B]));
        let row = |hash: &str, by: &str, facts| (hash.to_owned(), by.to_owned(), facts);
        assert_eq!(named(&w), [row("a", "checkpoint:cp_1", 1), row("a", "task:t", 1), row("b", "task:t", 1)]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn messages_name_what_is_attached_to_them_and_so_do_requests_as_they_are_passed_on() {
        let mut w = World::of(&["a"]);
        let entry = |reference: &str| json!({ "kind": KIND, "ref": reference });
        let attachments = json!([
            entry(&reference(B)),
            entry(&reference(A)),
            entry(&reference(B)),
            entry("artifact:report_456"),
            { "kind": "link", "ref": "https://example.org/report" },
            { "kind": "link", "ref": reference(&"c".repeat(64)) },
        ]);
        sends(&mut w, "m", "x.report", "a", &json!({ "attachments": attachments }));
        let row = |hash: &str, by: &str| (hash.to_owned(), by.to_owned(), 1);
        assert_eq!(named(&w), [row("a", "message:m"), row("b", "message:m")]);
        let asked = json!({ "task_id": "t", "attachments": [entry(&reference(A))] });
        sends(&mut w, "r", "task.request", "a", &asked);
        let given = route(&w, "t");
        let forward = OfferTask {
            task: "t".into(),
            to: given.choice.selected.clone().unwrap(),
            message: "f".into(),
            accept_within_millis: 1,
            artifacts: passed_on(&asked),
        };
        w.does(&Caller::system(), given);
        w.does(&Caller::system(), forward);
        let is_request =
            |row: &&LogRow| matches!(row.event.typed(), EventRef::EnvelopeReceived(fact) if fact.message == "r".into());
        let asked_for = w.log.iter().find(is_request).unwrap();
        let target = Target { seq: asked_for.seq, fact: asked_for.event.clone(), artifact: None };
        w.does(&anna(), Redact { rows: vec![target] });
        assert_eq!(named(&w), [row("a", "message:f"), row("a", "message:m"), row("b", "message:m")]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn a_message_with_too_much_attached_is_refused_at_the_place() {
        let attaching = |many: usize| {
            let entry = |number| json!({ "kind": KIND, "ref": reference(&format!("{number:064x}")) });
            let envelope = json!({
                "v": "clutch/0.1", "id": "m", "ts": "2026-02-01T13:20:11Z", "thread_id": "thr_1", "run_id": "run_1",
                "task_id": "t", "from": { "agent_id": "a" }, "to": [{ "agent_id": "b" }], "type": "x.y", "payload": {},
                "attachments": (0..many).map(entry).collect::<Vec<_>>(),
            });
            let bytes = serde_json::to_vec(&envelope).unwrap();
            let received = crate::clutch::read_batch(&bytes, crate::clutch::Shape::Json).unwrap();
            crate::clutch::take_in(&received, crate::messages::StormGuard::default()).map(drop)
        };
        assert_eq!(attaching(limit::ATTACHMENTS), Ok(()));
        let told = attaching(limit::ATTACHMENTS + 1).unwrap_err().to_string();
        assert!(told.contains("/attachments") && told.contains("at most 256"), "{told}");
    }

    #[test]
    fn redaction_takes_back_what_the_redacted_fact_named_and_nothing_else() {
        let mut w = working();
        w.does(&by("a"), noting("cp_1", attaching(&[A])));
        let noted = w.log.len() as u64;
        w.does(&by("a"), completing(&[A]));
        let left = [("a".to_owned(), "task:t".to_owned(), 1)];
        for time in ["once", "twice"] {
            let fact = w.log[usize::try_from(noted - 1).unwrap()].event.clone();
            w.does(&anna(), Redact { rows: vec![Target { seq: Seq(noted), fact, artifact: None }] });
            assert_eq!(named(&w), left, "{time}");
            assert_eq!(w.rebuilt(), *w.rows(), "{time}");
        }
    }

    #[test]
    fn what_two_facts_name_is_named_until_both_are_redacted() {
        let mut w = working();
        w.does(&by("a"), completing(&[A]));
        let fact = w.log.last().unwrap().event.clone();
        let key = Key::ArtifactRef(ArtifactRefId { sha256: A.to_owned(), by: "task:t".to_owned() });
        let redacted = |seq| {
            let cleared = vec![Cleared { key: key.clone(), fields: vec![] }];
            AnyEvent::new(LogRedacted { seq: Seq(seq), kind: fact.kind().to_owned(), cleared, erases: vec![] })
        };
        let after = |old: Option<Row>, event: &AnyEvent, seq| {
            apply_row(old, &key, event, EventStamp { seq: Seq(seq), at: Timestamp(0) })
        };
        let both = after(after(None, &fact, 3), &fact, 7);
        let other = AnyEvent::new(IntentClosed { intent: "int_1".into(), failed: None });
        assert_eq!(after(both.clone(), &other, 8), both, "an event that does not name it changes nothing");
        let one = after(both, &redacted(3), 8);
        assert!(matches!(&one, Some(Row::ArtifactRef(named)) if named.named_in == [Seq(7)]));
        assert_eq!(after(one, &redacted(7), 9), None);
    }

    #[test]
    fn there_is_a_limit_to_what_is_attached() {
        let mut w = working();
        let many: Vec<String> = (0..=limit::ATTACHMENTS).map(|number| format!("{number:064x}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(w.refuses(&by("a"), completing(&many)), Code::TooLarge);
        assert_eq!(w.refuses(&by("a"), noting("cp_1", attaching(&many))), Code::TooLarge);
        w.does(&by("a"), completing(&many[1..]));
    }
}
