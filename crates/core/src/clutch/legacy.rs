//! The types of messages from before the protocol (its Appendix A), which are still taken.
//!
//! What such a message does and is shown as is the type it is translated to; its body stays as it was sent, and
//! `meta.legacy_type` names what it said. Where the protocol offers two types, the one is taken that ends nothing by
//! accident: a `PROPOSAL` is progress, for a result would complete the task, and a `BLOCKER` is a notice in the thread unless it
//! says what an error says, a `code`, for an error would end the agent's claim.

use serde_json::{Map, Value};

use crate::model::message_type::MessageType;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LegacyType {
    Plan,
    Proposal,
    ExecReport,
    Review,
    Blocker,
}

impl LegacyType {
    pub const ALL: [LegacyType; 5] =
        [LegacyType::Plan, LegacyType::Proposal, LegacyType::ExecReport, LegacyType::Review, LegacyType::Blocker];

    pub fn as_str(self) -> &'static str {
        match self {
            LegacyType::Plan => "PLAN",
            LegacyType::Proposal => "PROPOSAL",
            LegacyType::ExecReport => "EXEC_REPORT",
            LegacyType::Review => "REVIEW",
            LegacyType::Blocker => "BLOCKER",
        }
    }

    pub fn parse(text: &str) -> Option<LegacyType> {
        LegacyType::ALL.into_iter().find(|legacy| legacy.as_str() == text)
    }

    /// What it is today, for a message with this payload.
    pub fn equivalent(self, payload: Option<&Map<String, Value>>) -> MessageType {
        match self {
            LegacyType::Plan => MessageType::TaskRequest,
            LegacyType::Proposal => MessageType::TaskProgress,
            LegacyType::ExecReport | LegacyType::Review => MessageType::TaskResult,
            LegacyType::Blocker if payload.is_some_and(says_code) => MessageType::TaskError,
            LegacyType::Blocker => MessageType::ChatSystem,
        }
    }

    /// The field that the translation adds where the message has none.
    pub(super) fn implies(self) -> Option<(&'static str, &'static str)> {
        match self {
            LegacyType::Plan => Some(("domain", "planning")),
            LegacyType::Review => Some(("payload_type", "review.feedback.v1")),
            LegacyType::Proposal | LegacyType::ExecReport | LegacyType::Blocker => None,
        }
    }
}

fn says_code(payload: &Map<String, Value>) -> bool {
    payload.get("code").is_some_and(Value::is_string)
}

/// A message in today's words. One that speaks them already stays as it is.
pub fn translate(message: &mut Map<String, Value>) {
    let Some(legacy) = message.get("type").and_then(Value::as_str).and_then(LegacyType::parse) else { return };
    let equivalent = legacy.equivalent(message.get("payload").and_then(Value::as_object));
    message.insert("type".to_owned(), Value::from(equivalent.as_str()));
    if let Some((field, value)) = legacy.implies()
        && message.get(field).is_none_or(Value::is_null)
        && !(field == "payload_type" && message.get("schema_ref").is_some_and(Value::is_string))
    {
        message.insert(field.to_owned(), Value::from(value));
    }
    let meta = message.entry("meta").or_insert(Value::Null);
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    meta["legacy_type"] = Value::from(legacy.as_str());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(message: Value) -> Value {
        let Value::Object(mut message) = message else { panic!("an object") };
        translate(&mut message);
        Value::Object(message)
    }

    #[test]
    fn each_legacy_type_has_its_equivalent() {
        for (old, new) in [
            (
                json!({"type": "PLAN"}),
                json!({"type": "task.request", "domain": "planning", "meta": {"legacy_type": "PLAN"}}),
            ),
            (
                json!({"type": "PLAN", "domain": "ops", "meta": {"a": 1}}),
                json!({"type": "task.request", "domain": "ops", "meta": {"a": 1, "legacy_type": "PLAN"}}),
            ),
            (json!({"type": "PROPOSAL"}), json!({"type": "task.progress", "meta": {"legacy_type": "PROPOSAL"}})),
            (
                json!({"type": "EXEC_REPORT", "payload_type": "code.output.v1"}),
                json!({"type": "task.result", "payload_type": "code.output.v1", "meta": {"legacy_type": "EXEC_REPORT"}}),
            ),
            (
                json!({"type": "REVIEW", "meta": null}),
                json!({"type": "task.result", "payload_type": "review.feedback.v1", "meta": {"legacy_type": "REVIEW"}}),
            ),
            (
                json!({"type": "REVIEW", "schema_ref": "schema://clutch/code/review@1"}),
                json!({"type": "task.result", "schema_ref": "schema://clutch/code/review@1", "meta": {"legacy_type": "REVIEW"}}),
            ),
            (
                json!({"type": "BLOCKER", "payload": {"reason": "no key"}}),
                json!({"type": "chat.system", "payload": {"reason": "no key"}, "meta": {"legacy_type": "BLOCKER"}}),
            ),
            (
                json!({"type": "BLOCKER", "payload": {"code": "NO_KEY"}}),
                json!({"type": "task.error", "payload": {"code": "NO_KEY"}, "meta": {"legacy_type": "BLOCKER"}}),
            ),
        ] {
            assert_eq!(translated(old), new);
        }
    }

    #[test]
    fn a_message_of_today_stays_as_it_is() {
        for message in [json!({"type": "task.result"}), json!({"type": "plan"}), json!({"type": 1}), json!({})] {
            assert_eq!(translated(message.clone()), message);
        }
    }
}
