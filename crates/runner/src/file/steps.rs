//! The step contracts of a workflow: the expected results of its steps, by the rules of Clutch, section 3.4.

use rookery_core::kernel::limit;
use rookery_core::model::contract::{ExpectedPayload, StepContract};
use rookery_core::model::message_type::MessageType;
use rookery_core::model::payload_type::PayloadType;

use super::agent;
use super::cursor::{Field, FileReader, RecordKeys};
use super::fault::{FileFault, InFile};
use super::near::nearest;
use super::shape::{Record, Shape, optional_key, required_key};

pub(super) const RECORD: Record = Record {
    name: "step",
    about: "A step of the work and its expected result. Other results are rejected.",
    keys: &[
        required_key("id", Shape::Text, "The id by which tasks name the step"),
        optional_key("agent", Shape::Text, "The agent that gets a task for the step; none if absent"),
        required_key("expects", Shape::Record(&EXPECTS), "The message that ends it"),
    ],
};

const EXPECTS: Record = Record {
    name: "expectation",
    about: "The message that ends the step.",
    keys: &[
        required_key("type", Shape::Text, "The type of message, such as task.result"),
        required_key("payload_type", Shape::Text, "The registered schema of its payload, such as research.summary.v1"),
        optional_key(
            "required",
            Shape::List(&Shape::Text),
            "Fields that it must have in addition to those of the schema",
        ),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct StepConfig {
    pub rule: StepContract,
    pub agent: Option<InFile<String>>,
}

impl StepConfig {
    pub(super) fn read_all(field: &Field<'_>, team: &[String], reader: &mut FileReader<'_>) -> Vec<StepConfig> {
        let (mut all, mut ids) = (Vec::new(), Vec::new());
        let items = field.list(reader);
        if items.len() > limit::WORKFLOW_STEPS {
            let message = format!("must be at most {} steps", limit::WORKFLOW_STEPS);
            reader.fault(FileFault::new(&field.place, message).found(items.len().to_string()));
        }
        for item in items.iter().take(limit::WORKFLOW_STEPS) {
            let Some(keys) = item.record(reader, &RECORD) else { continue };
            if let Some(field) = keys.get("id")
                && let Some(id) = field.as_text()
            {
                if ids.contains(&id) {
                    field.wrong(reader, "another step has the same id");
                }
                ids.push(id);
            }
            let Some(step) = read(&keys, team, reader) else { continue };
            all.push(step);
        }
        all
    }
}

fn read(keys: &RecordKeys<'_>, team: &[String], reader: &mut FileReader<'_>) -> Option<StepConfig> {
    let expects =
        keys.get("expects").and_then(|field| field.record(reader, &EXPECTS)).map(|keys| expects(&keys, reader));
    let agent = keys.get("agent").and_then(|field| field.text(reader));
    if let Some(agent) = &agent {
        agent::check_is_member(agent, team, &mut reader.faults);
    }
    let field = keys.get("id")?;
    let id = field.text(reader)?.value;
    if limit::name("id", &id, limit::NAME_BYTES).is_err() {
        field.wrong(reader, "must be a name without spaces");
        return None;
    }
    Some(StepConfig { rule: StepContract { id, expects: expects?? }, agent })
}

fn expects(keys: &RecordKeys<'_>, reader: &mut FileReader<'_>) -> Option<ExpectedPayload> {
    let message_type = keys.get("type").and_then(|field| message_type(field, reader));
    let payload_type = keys.get("payload_type").and_then(|field| {
        let found = field.as_text().and_then(PayloadType::parse);
        if found.is_none() {
            field.wrong(reader, "must be the name of a schema with its version, such as research.summary.v1");
        }
        found
    });
    let required = keys.get("required").map(|field| field.list(reader)).unwrap_or_default();
    let required = required.iter().filter_map(|item| item.text(reader)).map(|text| text.value).collect();
    Some(ExpectedPayload { message_type: message_type?, payload_type: payload_type?, required })
}

fn message_type(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<MessageType> {
    let text = field.text(reader)?.value;
    let found = MessageType::parse(&text);
    if found.is_none() {
        let known = MessageType::KNOWN.iter().map(MessageType::as_str);
        let fault = FileFault::new(&field.place, "is not a message type").found(field.describe(reader));
        reader.fault(match nearest(&text, known) {
            Some(meant) => fault.meant(Some(meant)),
            None => fault.hint("such as task.result; custom types begin with `x.`"),
        });
    }
    found
}
