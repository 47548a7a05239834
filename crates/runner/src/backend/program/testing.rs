//! Shared setup for the tests of all dialects.

use std::path::Path;

use super::bridge::Bridge;
use super::conversation::{ConversationUsage, ProgramConversation};
use super::dialect::{Dialect, OwnSandbox, TurnInput};
use super::report::ProgramReport;
use crate::backend::BackendEvent;

pub(crate) fn bridge() -> Bridge {
    let variables = ["ROOKERY_AGENT_ID", "ROOKERY_SESSION"].map(str::to_owned).to_vec();
    Bridge::new(Path::new("/bin/rookery"), Path::new("/project"), variables)
}

pub(crate) fn input(bridge: &Bridge) -> TurnInput<'_> {
    TurnInput {
        system: "You are a.",
        prompt: "what is new",
        model: None,
        resumes: None,
        bridge: Some(bridge),
        allowed: None,
        own_sandbox: OwnSandbox::Off,
        folder: Path::new("/project"),
        state: Path::new("/state"),
    }
}

pub(crate) fn resumed(id: &str) -> ProgramConversation {
    kept(id, 0.0)
}

pub(crate) fn kept(id: &str, cost_usd: f64) -> ProgramConversation {
    let used = ConversationUsage { input_tokens: 20, output_tokens: 10, cost_usd };
    ProgramConversation { id: id.to_owned(), system_digest: String::new(), used }
}

/// Reads a program's output lines.
pub(crate) fn read_lines(dialect: &dyn Dialect, lines: &[&str]) -> (ProgramReport, Vec<BackendEvent>) {
    let bridge = bridge();
    read_lines_as(dialect, &input(&bridge), lines)
}

pub(crate) fn read_lines_as(
    dialect: &dyn Dialect,
    input: &TurnInput<'_>,
    lines: &[&str],
) -> (ProgramReport, Vec<BackendEvent>) {
    let (mut report, mut reader) = (ProgramReport::default(), dialect.reader(input));
    let events =
        lines.iter().flat_map(|line| reader.read_event(&serde_json::from_str(line).unwrap(), &mut report)).collect();
    (report, events)
}
