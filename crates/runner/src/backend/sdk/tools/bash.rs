//! `bash`: a command in the agent's folder, within its sandbox.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::backend::Seat;
use crate::backend::sdk::model::Tool;
use crate::process::{self, How, Limits};
use crate::sandbox::Sandbox;

const SECONDS: u64 = 120;
const MAX_SECONDS: u64 = 600;
/// A command that prints more is ended.
const OUTPUT_BYTES: u64 = 16 << 20;

pub(super) fn tool() -> Tool {
    Tool {
        name: super::BASH.to_owned(),
        description: format!(
            "Runs a command with bash in your folder and returns what it prints. It gets no input, and everything that it \
             starts ends with it, after {SECONDS} s at the latest unless you say more."
        ),
        schema: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command"},
                "seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS,
                    "description": "How long it may take"},
            },
            "required": ["command"],
        }),
    }
}

#[derive(Deserialize)]
struct Bash {
    command: String,
    seconds: Option<u64>,
}

/// What it printed, as a failure if the command was one.
pub(super) async fn run(
    seat: &Seat,
    sandbox: Option<Arc<Sandbox>>,
    input: Value,
    stop: &CancellationToken,
) -> Result<String, String> {
    let asked: Bash = serde_json::from_value(input).map_err(|error| error.to_string())?;
    let timeout = Duration::from_secs(asked.seconds.unwrap_or(SECONDS).clamp(1, MAX_SECONDS));
    let program = seat.starts(["bash", "-c", &asked.command]).sandbox(sandbox);
    let limits = Limits { timeout, idle: None, output_bytes: OUTPUT_BYTES };
    let mut printed = Printed::default();
    let transcript = seat.state.join("bash.txt");
    let finished = process::run(&program, limits, &transcript, stop, &mut |_, line| printed.line(line)).await;
    let how = finished.map_err(|error| error.to_string())?.how;
    let text = printed.text();
    match how {
        How::Exited(0) if text.is_empty() => Ok("(it printed nothing)".to_owned()),
        How::Exited(0) => Ok(text),
        how => Err(format!("{text}\n[{how}]").trim_start().to_owned()),
    }
}

/// The beginning and the end of what a command prints, within bounds.
#[derive(Default)]
struct Printed {
    beginning: String,
    end: std::collections::VecDeque<String>,
    /// How much the end has.
    held: usize,
    left_out: usize,
}

impl Printed {
    const PART_BYTES: usize = super::RESULT_BYTES / 2 - 256;
    const LINE_BYTES: usize = 4 << 10;

    fn line(&mut self, line: &str) {
        let line = super::clipped(line, Self::LINE_BYTES);
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
    fn of_much_output_beginning_and_end_are_told() {
        let mut printed = Printed::default();
        (0..100_000).for_each(|n| printed.line(&n.to_string()));
        let text = printed.text();
        assert!(text.starts_with("0\n1\n2\n") && text.ends_with("\n99999"), "{}", &text[..40]);
        assert!(text.contains("lines left out here") && text.len() <= super::super::RESULT_BYTES);
        let mut printed = Printed::default();
        printed.line(&"x".repeat(1 << 20));
        assert!(printed.text().len() < 2 * Printed::LINE_BYTES);
    }
}
