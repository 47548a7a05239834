//! Every limit on what a command may carry: a name, a figure, and a refusal that says both.

use super::code::Code;
use super::rejection::Rejection;

pub const AGENT_ID_BYTES: usize = 128;

pub const NAME_BYTES: usize = 256;

/// Ids of tasks, in a request that only mentions them.
pub const TASK_ID_BYTES: usize = 256;

/// What an agent tells of itself beside the fields that have a name.
pub const METADATA_BYTES: usize = 64 * 1024;

pub const TITLE_BYTES: usize = 4 * 1024;

pub const TEXT_BYTES: usize = 256 * 1024;

pub const LIST_ENTRIES: usize = 1_000;

pub const PATH_BYTES: usize = 4 * 1024;

/// How far below each other subtree claims are looked for.
pub const PATH_DEPTH: usize = 128;

/// What a checkpoint tells at a glance; the rest goes into its detail.
pub const SUMMARY_BYTES: usize = 16 * 1024;

/// How deep tasks are within each other.
pub const TASK_LEVELS: u32 = 8;

/// How many open tasks end together with the one that they are part of.
pub const TASK_PARTS: usize = 10_000;

/// The tasks that one event unblocks at most. More of them follow in events of the same size.
pub const UNBLOCKED_AT_ONCE: usize = 256;

pub const TASK_CHECKPOINTS: usize = 5_000;

pub const RUN_TASKS: usize = 500;

/// The tasks of a plan together.
pub const PLAN_BYTES: usize = 4 * 1024 * 1024;

/// How many artifacts one thing names.
pub const ATTACHMENTS: usize = 256;

pub const MESSAGE_ID_BYTES: usize = 128;

/// What one author sends in a minute, or at once, before its messages are held.
pub const MESSAGES_PER_MINUTE: u32 = 600;

/// How many messages of agents may follow from each other without a person.
pub const MESSAGE_HOPS: u32 = 20;

/// How many messages of one author wait for a person before it may send no more.
pub const HELD_PER_SENDER: u32 = 100;

/// The whole text of a document.
pub const DOCUMENT_BYTES: usize = 1024 * 1024;

pub const DOCUMENT_PATH_BYTES: usize = 512;

/// The longest name that file systems take.
pub const FILE_NAME_BYTES: usize = 255;

/// How many appended pieces a document has before they are written as one text.
pub const DOCUMENT_PIECES: u64 = 64;

/// A message of the Clutch protocol, as it was sent. Texts of it that are longer than texts may be are kept as excerpts.
pub const ENVELOPE_BYTES: usize = 1024 * 1024;

/// How much of such a text is kept at hand.
pub const EXCERPT_BYTES: usize = 16 * 1024;

/// How deep objects and arrays are nested in one.
pub const ENVELOPE_DEPTH: usize = 100;

/// Messages that are sent at once.
pub const BATCH_ENVELOPES: usize = 1_000;

/// How many faults of what was sent are told, and how many bytes long they are together.
pub const FAULTS: usize = 100;

pub const FAULT_BYTES: usize = 64 * 1024;

pub const IDEMPOTENCY_KEY_BYTES: usize = 256;

pub const SIGNATURE_BYTES: usize = 1024;

/// A JSON Schema, as it was sent.
pub const SCHEMA_BYTES: usize = 64 * 1024;

/// The rules of a workflow, as they were sent.
pub const WORKFLOW_BYTES: usize = 256 * 1024;

pub const WORKFLOW_STEPS: usize = 500;

/// A card of an agent, with what it says beyond what is known here.
pub const CARD_BYTES: usize = 64 * 1024;

pub const URL_BYTES: usize = 2 * 1024;

/// The agents that one runner runs.
pub const TEAM_AGENTS: usize = 200;

pub fn text(field: &'static str, value: &str, most: usize) -> Result<(), Rejection> {
    if value.len() <= most {
        return Ok(());
    }
    Err(Rejection::new(Code::TooLarge, format!("{field} is {} bytes; at most {most} are taken", value.len()))
        .hint("shorten it, or put the long part into a file and name that file"))
}

/// Data of any shape, measured as it is written.
pub fn json(field: &'static str, value: &impl serde::Serialize, most: usize) -> Result<(), Rejection> {
    text(field, &serde_json::to_string(value).unwrap_or_default(), most)
}

pub fn list<T>(field: &'static str, values: &[T]) -> Result<(), Rejection> {
    if values.len() <= LIST_ENTRIES {
        return Ok(());
    }
    Err(Rejection::new(
        Code::TooLarge,
        format!("{field} has {} entries; at most {LIST_ENTRIES} are taken", values.len()),
    ))
}

/// Paths as they are told, whether they exist or not.
pub fn paths(field: &'static str, values: &[String]) -> Result<(), Rejection> {
    list(field, values)?;
    values.iter().try_for_each(|value| text(field, value, PATH_BYTES))
}

/// A name that people and programs can carry around: not empty, no spaces or control characters.
pub fn name(field: &'static str, value: &str, most: usize) -> Result<(), Rejection> {
    let bad = |what: &str| Err(Rejection::new(Code::Invalid, format!("{field} {what}")));
    if value.is_empty() {
        return bad("must not be empty");
    }
    if value.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return bad("must not contain spaces or control characters");
    }
    text(field, value, most)
}
