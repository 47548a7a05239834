//! `bash`: runs a command in the agent's folder, within its sandbox.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::backend::Seat;
use crate::backend::sdk::model::ModelTool;
use crate::process::{self, ProcessEnd, RunLimits};
use crate::sandbox::Sandbox;

const DEFAULT_SECONDS: u64 = 120;
const MAX_SECONDS: u64 = 600;
/// A command that prints more is ended.
const MAX_OUTPUT_BYTES: u64 = 16 << 20;

pub(super) fn tool() -> ModelTool {
    ModelTool {
        name: super::BASH.to_owned(),
        description: format!(
            "Runs a command with bash in your folder and returns what it prints. It gets no input, and everything that it \
             starts ends with it, after {DEFAULT_SECONDS} s at the latest unless you say more."
        ),
        schema: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command"},
                "seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS,
                    "description": "Time limit of the command"},
            },
            "required": ["command"],
        }),
    }
}

#[derive(Deserialize)]
struct BashInput {
    command: String,
    seconds: Option<u64>,
}

/// Runs a command. Returns its output, as an error if the command failed.
pub(super) async fn run(
    seat: &Seat,
    sandbox: Option<Arc<Sandbox>>,
    input: Value,
    stop: &CancellationToken,
) -> Result<String, String> {
    let input: BashInput = serde_json::from_value(input).map_err(|error| error.to_string())?;
    let timeout = Duration::from_secs(input.seconds.unwrap_or(DEFAULT_SECONDS).clamp(1, MAX_SECONDS));
    let program = seat.program_for(["bash", "-c", &input.command]).sandbox(sandbox);
    let limits = RunLimits { timeout, idle: None, output_bytes: MAX_OUTPUT_BYTES };
    let mut output = CommandOutput::default();
    let transcript = seat.state.join("bash.txt");
    let finished = process::run(&program, limits, &transcript, stop, &mut |_, line| output.line(line)).await;
    let end = finished.map_err(|error| error.to_string())?.end;
    let text = output.text();
    match end {
        ProcessEnd::Exited(0) if text.is_empty() => Ok("(it printed nothing)".to_owned()),
        ProcessEnd::Exited(0) => Ok(text),
        end => Err(format!("{text}\n[{end}]").trim_start().to_owned()),
    }
}

/// The beginning and the end of a command's output, within bounds.
#[derive(Default)]
struct CommandOutput {
    beginning: String,
    end: std::collections::VecDeque<String>,
    /// Size of the end.
    held: usize,
    left_out: usize,
}

impl CommandOutput {
    const PART_BYTES: usize = super::MAX_RESULT_BYTES / 2 - 256;
    const LINE_BYTES: usize = 4 << 10;

    fn line(&mut self, line: &str) {
        let line = super::clip(line, Self::LINE_BYTES);
        if self.end.is_empty() && self.beginning.len() + line.len() < Self::PART_BYTES {
            self.beginning.push_str(&line);
            self.beginning.push('\n');
            return;
        }
        self.held += line.len() + 1;
        self.end.push_back(line);
        while self.held > Self::PART_BYTES {
            let Some(oldest) = self.end.pop_front() else { return };
            self.held -= oldest.len() + 1;
            self.left_out += 1;
        }
    }

    fn text(self) -> String {
        let mut text = self.beginning;
        if self.left_out > 0 {
            text.push_str(&format!("[{} lines left out here]\n", self.left_out));
        }
        self.end.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_command_output_keeps_its_beginning_and_end() {
        let mut output = CommandOutput::default();
        (0..100_000).for_each(|n| output.line(&n.to_string()));
        let text = output.text();
        assert!(text.starts_with("0\n1\n2\n") && text.ends_with("\n99999"), "{}", &text[..40]);
        assert!(text.contains("lines left out here") && text.len() <= super::super::MAX_RESULT_BYTES);
        let mut output = CommandOutput::default();
        output.line(&"x".repeat(1 << 20));
        assert!(output.text().len() < 2 * CommandOutput::LINE_BYTES);
    }
}
