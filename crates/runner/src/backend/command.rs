//! Runs any program as an agent: the prompt comes on its input, its identity is in its environment, and its output is the
//! answer. It can also take part with `rookery context`.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rookery_core::kernel::limit;

use super::{
    Backend, BackendEvent, BackendOutcome, Events, Failure, MAX_OUTPUT_BYTES, Seat, Turn, TurnVerdict, Usage, Why,
    over_limit,
};
use crate::file::TextTemplate;
use crate::process::{self, Finished, NotStarted, OutputStream, ProcessEnd, Program, RunLimits};
use crate::sandbox::Sandbox;

/// Maximum length of a posted answer: it has to fit into a message.
const ANSWER_BYTES: usize = limit::TEXT_BYTES / 2;

#[derive(Debug)]
pub(super) struct CommandBackend {
    seat: Seat,
    argv: Vec<String>,
    sandbox: Option<Arc<Sandbox>>,
}

impl CommandBackend {
    pub(super) fn new(argv: &[TextTemplate], seat: &Seat) -> Result<CommandBackend, Failure> {
        let argv: Vec<String> = argv.iter().map(|part| seat.variables.fill(part)).collect();
        if argv.first().is_none_or(|program| program.trim().is_empty()) {
            let reason = format!("the command of {} names no program", seat.name);
            return Err(Failure { why: Why::Hopeless, reason, hint: Some("see `command` in the file".to_owned()) });
        }
        let sandbox = Sandbox::for_seat(seat, None, &seat.env.0, &[])?;
        Ok(CommandBackend { seat: seat.clone(), argv, sandbox })
    }

    async fn run(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        let transcript = self.seat.state.join("transcript.txt");
        let limits = RunLimits { timeout: turn.timeout, idle: None, output_bytes: MAX_OUTPUT_BYTES };
        let mut answer = PrintedAnswer::default();
        self.sandbox.iter().for_each(|sandbox| sandbox.report_to(events));
        let finished = process::run(&self.program(turn), limits, &transcript, &turn.cancel, &mut |stream, line| {
            if stream == OutputStream::Stdout {
                events.emit(BackendEvent::Said(line.to_owned()));
                answer.take(line);
            }
        })
        .await;
        if let Some(sandbox) = &self.sandbox {
            sandbox.report_traps(events).await;
        }
        let (verdict, transcript) = match finished {
            Ok(finished) => (self.judge(&finished, answer.into_text(), turn), Some(transcript)),
            Err(error) => (TurnVerdict::Failed(self.not_started(&error)), None),
        };
        BackendOutcome { verdict, conversation: None, usage: Usage::default(), transcript }
    }

    fn program(&self, turn: &Turn) -> Program {
        let mut program = self.seat.program_for(&self.argv);
        let path = with_own_folder(program.env.get(&OsString::from("PATH")), &self.seat.program);
        program = program.env("ROOKERY_TURN", &turn.id).env("ROOKERY_ATTEMPT", turn.attempt.to_string());
        if let Some(path) = path {
            program = program.env("PATH", path);
        }
        program.stdin(format!("{}\n{}", turn.system, turn.prompt)).sandbox(self.sandbox.clone())
    }

    fn judge(&self, finished: &Finished, said: Option<String>, turn: &Turn) -> TurnVerdict {
        let fault = |why: Why, reason: String| TurnVerdict::Failed(Failure { why, reason, hint: None });
        let name = &self.argv[0];
        match finished.end {
            ProcessEnd::Exited(0) => TurnVerdict::Done { worked: said.is_some(), said },
            ProcessEnd::Exited(code) => {
                let last = finished.stderr_tail.lines().rfind(|line| !line.trim().is_empty());
                let last = last.map(|line| format!(": {}", line.trim())).unwrap_or_default();
                fault(Why::Fault, format!("{name} ended with code {code}{last}"))
            }
            ProcessEnd::Signalled(signal) => fault(Why::Fault, format!("{name} was ended by signal {signal}")),
            ProcessEnd::TimedOut | ProcessEnd::Idle => {
                fault(Why::TimedOut, format!("{name} took longer than {} s", turn.timeout.as_secs_f64()))
            }
            ProcessEnd::Flooded => fault(Why::Fault, format!("{name} printed more than {MAX_OUTPUT_BYTES} bytes")),
            ProcessEnd::OverLimit(excess) => TurnVerdict::Failed(over_limit(&self.seat, excess)),
            ProcessEnd::Cancelled => fault(Why::Cancelled, "it was asked to stop".to_owned()),
        }
    }

    fn not_started(&self, error: &NotStarted) -> Failure {
        let hint = format!(
            "see `command` of {} in the file; check that {} is installed and on the PATH",
            self.seat.name, self.argv[0]
        );
        Failure { why: Why::Hopeless, reason: error.to_string(), hint: Some(hint) }
    }
}

impl Backend for CommandBackend {
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome> {
        Box::pin(self.run(turn, events))
    }

    fn account(&self) -> String {
        self.argv[0].clone()
    }
}

/// Appends the folder of the `rookery` executable to the search path, so that `rookery context` is found.
fn with_own_folder(path: Option<&OsString>, program: &Path) -> Option<OsString> {
    let ours = program.parent().filter(|folder| !folder.as_os_str().is_empty())?.to_path_buf();
    let others = path.map(std::env::split_paths).into_iter().flatten();
    std::env::join_paths(others.chain([ours])).ok()
}

/// The output of a program, up to the length that is posted.
#[derive(Default)]
struct PrintedAnswer {
    text: String,
    missing: usize,
}

impl PrintedAnswer {
    fn take(&mut self, line: &str) {
        if self.missing > 0 || self.text.len() + line.len() > ANSWER_BYTES {
            self.missing += line.len() + 1;
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn into_text(self) -> Option<String> {
        let said = self.text.trim();
        match self.missing {
            0 if said.is_empty() => None,
            0 => Some(said.to_owned()),
            missing => {
                Some(format!("{said}\n[{missing} more bytes were printed; the transcript of the turn has them]"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_the_printed_text_within_bounds() {
        let said = |lines: &[&str]| {
            let mut answer = PrintedAnswer::default();
            lines.iter().for_each(|line| answer.take(line));
            answer.into_text()
        };
        assert_eq!(said(&[]), None);
        assert_eq!(said(&["", "  "]), None);
        assert_eq!(said(&["a", "", "b", ""]).as_deref(), Some("a\n\nb"));
        let long = "x".repeat(ANSWER_BYTES);
        let said = said(&["begin", &long, "end"]).unwrap();
        assert!(said.starts_with("begin\n[") && said.contains("more bytes were printed"), "{}", &said[..80]);
    }

    #[test]
    fn own_program_is_found_after_all_others() {
        let path = with_own_folder(Some(&"/usr/bin:/bin".into()), Path::new("/opt/rookery/bin/rookery")).unwrap();
        assert_eq!(path, "/usr/bin:/bin:/opt/rookery/bin");
        assert_eq!(with_own_folder(None, Path::new("rookery")), None);
    }
}
