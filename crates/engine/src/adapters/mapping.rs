//! From JSON of any form to the fields of an envelope.

use std::collections::BTreeMap;

use rookery_core::clutch::Attachment;
use rookery_core::model::addressee::ORCHESTRATOR;
use rookery_core::model::capabilities::VERSION;
use serde_json::{Map, Value, json};

use super::hook::Incoming;

/// Where a value comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// A JSON pointer (RFC 6901) into the body.
    Pointer(String),
    /// A header of the request, in small letters.
    Header(String),
    Constant(Value),
}

/// Which field of an envelope comes from where.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Mapping {
    /// What a request must be like for the hook to be meant: any of some values for each.
    pub when: Vec<(Source, Vec<String>)>,
    /// Fields with a text: `type`, `thread_id`, `domain` and the like.
    pub texts: BTreeMap<&'static str, Source>,
    pub to: Vec<Source>,
    pub requires: Vec<Source>,
    pub prefers: Vec<Source>,
    /// All of the body, if it is not said.
    pub payload: Option<BTreeMap<String, Source>>,
    /// What may be missing, and is then left out.
    pub deadline: Option<Source>,
    pub limits: BTreeMap<String, Source>,
    pub trace: BTreeMap<String, Source>,
    /// References to artifacts, each one or a list of them.
    pub attachments: Vec<Source>,
    /// Restrictions of how the work is done: what is named here must be there, or less would be restricted than was meant.
    pub policy: BTreeMap<String, Source>,
    /// The workflow and its step that results are held against; they must be there too.
    pub meta: BTreeMap<&'static str, Source>,
}

/// A request lacks what the hook needs for this field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the request has no text at {at}, which is needed for the envelope's {field}")]
pub struct Gap {
    pub field: String,
    /// The pointer or header.
    pub at: String,
}

impl Gap {
    pub(super) fn of(field: &str, source: &Source) -> Gap {
        Gap { field: field.to_owned(), at: source.to_string() }
    }
}

impl Source {
    /// As it is written in the configuration: `/pointer`, `header:NAME`, or a text that is meant as it is, also behind
    /// `text:`, if it would mean something else.
    pub fn read(text: &str) -> Source {
        match text {
            pointer if pointer.starts_with('/') => Source::Pointer(pointer.to_owned()),
            text => match (text.strip_prefix("header:"), text.strip_prefix("text:")) {
                (Some(name), _) => Source::Header(name.trim().to_ascii_lowercase()),
                (None, Some(text)) => Source::Constant(json!(text)),
                (None, None) => Source::Constant(json!(text)),
            },
        }
    }

    fn value(&self, incoming: &Incoming<'_>) -> Option<Value> {
        match self {
            Source::Pointer(pointer) => incoming.json.pointer(pointer).cloned(),
            Source::Header(name) => (incoming.header)(name).map(Value::String),
            Source::Constant(value) => Some(value.clone()),
        }
    }

    /// A text, also of a number or a truth. Nothing and what holds other values is none.
    pub(super) fn text(&self, incoming: &Incoming<'_>) -> Option<String> {
        let text = match self.value(incoming)? {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some(text).filter(|text| !text.trim().is_empty())
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Pointer(pointer) => f.write_str(pointer),
            Source::Header(name) => write!(f, "header:{name}"),
            Source::Constant(value) => value.fmt(f),
        }
    }
}

impl Mapping {
    /// The first thing that would have to be otherwise for the hook to be meant.
    pub(super) fn unmet(&self, incoming: &Incoming<'_>) -> Option<String> {
        let meets =
            |source: &Source, wanted: &[String]| source.text(incoming).is_some_and(|text| wanted.contains(&text));
        let (source, wanted) = self.when.iter().find(|(source, wanted)| !meets(source, wanted))?;
        Some(format!("{source} is not {}", wanted.join(" or ")))
    }

    /// The fields of the envelope that the request tells. Where it belongs is made of the hook's name and of what makes
    /// this delivery `unique`, unless that is said.
    pub(super) fn fields(&self, incoming: &Incoming<'_>, hook: &str, unique: &str) -> Result<Map<String, Value>, Gap> {
        let mut fields = Map::from_iter([
            ("v".to_owned(), json!(VERSION)),
            ("type".to_owned(), json!("task.request")),
            ("run_id".to_owned(), json!(format!("run_{hook}_{unique}"))),
            ("thread_id".to_owned(), json!(format!("thr_{hook}"))),
            ("task_id".to_owned(), json!(format!("task_{hook}_{unique}"))),
            ("payload".to_owned(), self.payload(incoming)),
        ]);
        for (field, source) in &self.texts {
            let text = source.text(incoming).ok_or_else(|| Gap::of(field, source))?;
            fields.insert((*field).to_owned(), text.into());
        }
        let to = match texts(&self.to, incoming, "to")? {
            named if named.is_empty() => vec![ORCHESTRATOR.to_owned()],
            named => named,
        };
        fields.insert("to".to_owned(), to.iter().map(|name| json!({ "agent_id": name })).collect());
        for (field, sources) in [("requires", &self.requires), ("prefers", &self.prefers)] {
            if !sources.is_empty() {
                fields.insert(field.to_owned(), json!(texts(sources, incoming, field)?));
            }
        }
        if !self.policy.is_empty() {
            fields.insert("security".to_owned(), json!({ "policy": self.policy(incoming)? }));
        }
        fields.extend(self.terms(incoming));
        Ok(fields)
    }

    fn policy(&self, incoming: &Incoming<'_>) -> Result<Map<String, Value>, Gap> {
        let one = |(name, source): (&String, &Source)| {
            let value = source.value(incoming).filter(|value| !value.is_null());
            let gap = || Gap::of(&format!("security.policy.{name}"), source);
            Ok((name.clone(), value.ok_or_else(gap)?))
        };
        self.policy.iter().map(one).collect()
    }

    /// What is said about the work beside what it is.
    fn terms(&self, incoming: &Incoming<'_>) -> Vec<(String, Value)> {
        let deadline = self.deadline.as_ref().and_then(|source| source.text(incoming)).map(Value::from);
        let object = |sources: &BTreeMap<String, Source>| {
            let told = found(sources, incoming);
            let told: Map<String, Value> = told.into_iter().filter(|(_, value)| !value.is_null()).collect();
            Some(Value::Object(told)).filter(|told| *told != json!({}))
        };
        let attached = self.attachments.iter().filter_map(|source| source.value(incoming)).flat_map(attachments);
        let attached: Vec<Value> = attached.collect();
        let terms = [
            ("deadline", deadline),
            ("limits", object(&self.limits)),
            ("trace", object(&self.trace)),
            ("attachments", Some(attached.into()).filter(|attached| *attached != json!([]))),
        ];
        terms.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// What stands in `meta` beside what the hook tells of itself.
    pub(super) fn meta(&self, incoming: &Incoming<'_>) -> Result<Map<String, Value>, Gap> {
        let one = |(field, source): (&&'static str, &Source)| {
            let text = source.text(incoming).ok_or_else(|| Gap::of(&format!("meta.{field}"), source))?;
            Ok(((*field).to_owned(), text.into()))
        };
        self.meta.iter().map(one).collect()
    }

    /// What is not in the body is left out: senders leave out what does not apply.
    fn payload(&self, incoming: &Incoming<'_>) -> Value {
        match (&self.payload, incoming.json) {
            (Some(fields), _) => Value::Object(found(fields, incoming)),
            (None, Value::Object(_)) => incoming.json.clone(),
            (None, other) => json!({ "body": other }),
        }
    }
}

/// Those of the fields that are there.
pub(super) fn found(fields: &BTreeMap<String, Source>, incoming: &Incoming<'_>) -> Map<String, Value> {
    fields.iter().filter_map(|(name, source)| Some((name.clone(), source.value(incoming)?))).collect()
}

/// A reference, a list of them, or attachments as the protocol has them.
fn attachments(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values.into_iter().flat_map(attachments).collect(),
        Value::Null => vec![],
        Value::String(reference) => vec![json!({ "kind": Attachment::ARTIFACT_REF, "ref": reference })],
        other => vec![other],
    }
}

fn texts(sources: &[Source], incoming: &Incoming<'_>, field: &str) -> Result<Vec<String>, Gap> {
    sources.iter().map(|source| source.text(incoming).ok_or_else(|| Gap::of(field, source))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(json: &Value, asks: impl FnOnce(&Incoming<'_>) -> T) -> T {
        let header = |name: &str| (name == "x-event").then(|| "issues".to_owned());
        asks(&Incoming { body: b"", json, header: &header })
    }

    #[test]
    fn a_value_comes_from_the_body_a_header_or_is_as_it_is_written() {
        let json = json!({ "a": { "b/c": ["x", 7, true, null, {}, " "] } });
        for (written, text) in [
            ("/a/b~1c/0", Some("x")),
            ("/a/b~1c/1", Some("7")),
            ("/a/b~1c/2", Some("true")),
            ("/a/b~1c/3", None),
            ("/a/b~1c/4", None),
            ("/a/b~1c/5", None),
            ("/nowhere", None),
            ("header:X-Event", Some("issues")),
            ("header:X-Other", None),
            ("agent:ken", Some("agent:ken")),
            ("text:/a", Some("/a")),
            ("text:header:x", Some("header:x")),
        ] {
            let found = with(&json, |incoming| Source::read(written).text(incoming));
            assert_eq!(found.as_deref(), text, "{written}");
        }
    }

    #[test]
    fn little_has_to_be_said() {
        let fields = with(&json!([1]), |incoming| Mapping::default().fields(incoming, "ci", "u1")).unwrap();
        let expected = json!({
            "v": "clutch/0.1", "type": "task.request", "run_id": "run_ci_u1", "thread_id": "thr_ci",
            "task_id": "task_ci_u1", "to": [{ "agent_id": "agent:orchestrator" }], "payload": { "body": [1] },
        });
        assert_eq!(Value::Object(fields), expected);
    }

    #[test]
    fn everything_can_be_said_and_what_is_needed_must_be_there() {
        let read = |text: &str| Source::read(text);
        let mapping = Mapping {
            when: vec![(read("header:x-event"), vec!["push".into(), "issues".into()]), (read("/n"), vec!["7".into()])],
            texts: BTreeMap::from([("type", read("chat.message")), ("thread_id", read("/thread"))]),
            to: vec![read("/who"), read("agent:ada")],
            requires: vec![read("skill:law")],
            prefers: vec![],
            payload: Some(BTreeMap::from([
                ("text".to_owned(), read("/title")),
                ("absent".to_owned(), read("/nowhere")),
                ("deep".to_owned(), read("/deep")),
                ("fixed".to_owned(), Source::Constant(json!(3))),
            ])),
            ..Mapping::default()
        };
        let json = json!({ "n": 7, "thread": "thr_9", "who": "agent:ken", "title": "hi", "deep": { "er": [1] } });
        assert_eq!(with(&json, |incoming| mapping.unmet(incoming)), None);
        let fields = with(&json, |incoming| mapping.fields(incoming, "ci", "u1")).unwrap();
        assert_eq!((&fields["type"], &fields["thread_id"]), (&json!("chat.message"), &json!("thr_9")));
        assert_eq!(fields["to"], json!([{ "agent_id": "agent:ken" }, { "agent_id": "agent:ada" }]));
        assert_eq!(fields["payload"], json!({ "text": "hi", "deep": { "er": [1] }, "fixed": 3 }));
        assert_eq!((&fields["requires"], fields.get("prefers")), (&json!(["skill:law"]), None));
        let other = json!({ "n": 8 });
        assert_eq!(with(&other, |incoming| mapping.unmet(incoming)).as_deref(), Some("/n is not 7"));
        let lacking = json!({ "n": 7, "thread": { "id": 1 } });
        let gap = with(&lacking, |incoming| mapping.fields(incoming, "ci", "u1")).unwrap_err();
        assert_eq!(gap, Gap { field: "thread_id".into(), at: "/thread".into() });
    }

    #[test]
    fn the_terms_of_the_work_can_be_said_too() {
        let read = |fields: &[(&str, &str)]| -> BTreeMap<String, Source> {
            fields.iter().map(|(name, text)| ((*name).to_owned(), Source::read(text))).collect()
        };
        let mut policy = read(&[("network", "/net")]);
        policy.insert("sandbox".to_owned(), Source::Constant(json!(true)));
        let mapping = Mapping {
            deadline: Some(Source::read("/due")),
            limits: read(&[("max_runtime_sec", "/secs"), ("max_attempts", "/tries")]),
            trace: read(&[("trace_id", "header:x-event"), ("span_id", "/span")]),
            attachments: vec![Source::read("/log"), Source::read("/reports"), Source::read("artifact:a")],
            policy,
            meta: BTreeMap::from([("workflow", Source::read("release")), ("step", Source::read("/stage"))]),
            ..Mapping::default()
        };
        let whole = json!({ "due": "2026-02-01T14:00:00Z", "secs": 60, "net": "none", "stage": "build",
            "log": "artifact:l", "reports": ["artifact:r", { "kind": "link", "ref": "x" }] });
        let fields = with(&whole, |incoming| mapping.fields(incoming, "ci", "u1")).unwrap();
        assert_eq!(fields["deadline"], json!("2026-02-01T14:00:00Z"));
        assert_eq!(
            (&fields["limits"], &fields["trace"]),
            (&json!({ "max_runtime_sec": 60 }), &json!({ "trace_id": "issues" }))
        );
        assert_eq!(fields["security"], json!({ "policy": { "network": "none", "sandbox": true } }));
        let attached = |reference: &str| json!({ "kind": "artifact_ref", "ref": reference });
        let link = json!({ "kind": "link", "ref": "x" });
        assert_eq!(
            fields["attachments"],
            json!([attached("artifact:l"), attached("artifact:r"), link, attached("artifact:a")])
        );
        let meta = with(&whole, |incoming| mapping.meta(incoming)).unwrap();
        assert_eq!(Value::Object(meta), json!({ "workflow": "release", "step": "build" }));

        // What restricts and what is checked against must be there; the rest may be missing.
        let gap = with(&json!({}), |incoming| mapping.fields(incoming, "ci", "u1")).unwrap_err();
        assert_eq!(gap, Gap { field: "security.policy.network".into(), at: "/net".into() });
        let gap = with(&json!({}), |incoming| mapping.meta(incoming)).unwrap_err();
        assert_eq!(gap, Gap { field: "meta.step".into(), at: "/stage".into() });
        let little = Mapping { policy: BTreeMap::new(), attachments: vec![], trace: BTreeMap::new(), ..mapping };
        let fields = with(&json!({}), |incoming| little.fields(incoming, "ci", "u1")).unwrap();
        let left_out = ["deadline", "limits", "trace", "attachments", "security"];
        assert_eq!(left_out.map(|field| fields.get(field)), [None; 5]);
    }
}
