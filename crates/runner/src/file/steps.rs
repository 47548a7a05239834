//! What results of the workflow's steps must be like: the rules of Clutch, section 3.4, in the file that needs them.

use rookery_core::kernel::limit;
use rookery_core::model::contract::{ExpectedPayload, StepContract};
use rookery_core::model::message_type::MessageType;
use rookery_core::model::payload_type::PayloadType;

use super::agent;
use super::cursor::{Field, Keys, Reader};
use super::fault::{At, Fault};
use super::near::nearest;
use super::shape::{Record, Shape, optional, required};

pub(super) const RECORD: Record = Record {
    name: "step",
    about: "A step of the work and what must come of it. A result that does not fit is refused.",
    keys: &[
        required("id", Shape::Text, "What tasks name the step by"),
        optional("agent", Shape::Text, "Who does it; whoever takes it if absent"),
        required("expects", Shape::Record(&EXPECTS), "What the message that ends it must be"),
    ],
};

const EXPECTS: Record = Record {
    name: "expectation",
    about: "What the message that ends the step must be.",
    keys: &[
        required("type", Shape::Text, "The type of message, such as task.result"),
        required("payload_type", Shape::Text, "The registered schema of its payload, such as research.summary.v1"),
        optional("required", Shape::List(&Shape::Text), "Fields that it must have beside those of the schema"),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    pub rule: StepContract,
    pub agent: Option<At<String>>,
}

impl Step {
    pub(super) fn read_all(field: &Field<'_>, team: &[String], reader: &mut Reader<'_>) -> Vec<Step> {
        let (mut all, mut ids) = (Vec::new(), Vec::new());
        let items = field.list(reader);
        if items.len() > limit::WORKFLOW_STEPS {
            let message = format!("must be at most {} steps", limit::WORKFLOW_STEPS);
            reader.fault(Fault::new(&field.place, message).found(items.len().to_string()));
        }
        for item in items.iter().take(limit::WORKFLOW_STEPS) {
            let Some(keys) = item.record(reader, &RECORD) else { continue };
            if let Some(field) = keys.get("id")
                && let Some(id) = field.as_text()
            {
                if ids.contains(&id) {
                    field.wrong(reader, "another step has this id too");
                }
                ids.push(id);
            }
            let Some(step) = read(&keys, team, reader) else { continue };
            all.push(step);
        }
        all
    }
}

fn read(keys: &Keys<'_>, team: &[String], reader: &mut Reader<'_>) -> Option<Step> {
    let expects =
        keys.get("expects").and_then(|field| field.record(reader, &EXPECTS)).map(|keys| expects(&keys, reader));
    let agent = keys.get("agent").and_then(|field| field.text(reader));
    if let Some(agent) = &agent {
        agent::is_one_of(agent, team, &mut reader.faults);
    }
    let field = keys.get("id")?;
    let id = field.text(reader)?.value;
    if limit::name("id", &id, limit::NAME_BYTES).is_err() {
        field.wrong(reader, "must be a name without spaces");
        return None;
    }
    Some(Step { rule: StepContract { id, expects: expects?? }, agent })
}

fn expects(keys: &Keys<'_>, reader: &mut Reader<'_>) -> Option<ExpectedPayload> {
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

fn message_type(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<MessageType> {
    let text = field.text(reader)?.value;
    let found = MessageType::parse(&text);
    if found.is_none() {
        let known = MessageType::KNOWN.iter().map(MessageType::as_str);
        let fault = Fault::new(&field.place, "is no type of message").found(field.shown(reader));
        reader.fault(match nearest(&text, known) {
            Some(meant) => fault.meant(Some(meant)),
            None => fault.hint("such as task.result; own types begin with `x.`"),
        });
    }
    found
}
