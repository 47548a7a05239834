//! What the tests of all programs begin with.

use std::path::Path;

use super::bridge::Bridge;
use super::conversation::{Conversation, Used};
use super::dialect::{Asked, Dialect, Walls};
use super::report::Heard;
use crate::backend::BackendEvent;

pub(crate) fn bridge() -> Bridge {
    let variables = ["ROOKERY_AGENT_ID", "ROOKERY_SESSION"].map(str::to_owned).to_vec();
    Bridge::new(Path::new("/bin/rookery"), Path::new("/project"), variables)
}

pub(crate) fn asked(bridge: &Bridge) -> Asked<'_> {
    Asked {
        system: "You are a.",
        prompt: "what is new",
        model: None,
        resumes: None,
        bridge: Some(bridge),
        allowed: None,
        walls: Walls::NotItsOwn,
        folder: Path::new("/project"),
        state: Path::new("/state"),
    }
}

pub(crate) fn resumed(id: &str) -> Conversation {
    kept(id, 0.0)
}

pub(crate) fn kept(id: &str, cost_usd: f64) -> Conversation {
    let used = Used { input_tokens: 20, output_tokens: 10, cost_usd };
    Conversation { id: id.to_owned(), told: String::new(), used }
}

/// What a program's lines come to.
pub(crate) fn hear(dialect: &dyn Dialect, lines: &[&str]) -> (Heard, Vec<BackendEvent>) {
    let bridge = bridge();
    hear_as(dialect, &asked(&bridge), lines)
}

pub(crate) fn hear_as(dialect: &dyn Dialect, asked: &Asked<'_>, lines: &[&str]) -> (Heard, Vec<BackendEvent>) {
    let (mut heard, mut reader) = (Heard::default(), dialect.reader(asked));
    let events = lines.iter().flat_map(|line| reader.hear(&serde_json::from_str(line).unwrap(), &mut heard)).collect();
    (heard, events)
}
