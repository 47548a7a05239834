//! Any program as an agent: what it is told comes on its input, who it is stands in its environment, and what it prints is its
//! answer. It can take part with `rookery context` besides.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rookery_core::kernel::limit;

use super::{
    Backend, BackendEvent, BackendOutcome, Events, Failure, OUTPUT_BYTES, Seat, Turn, TurnVerdict, Usage, Why,
    over_limit,
};
use crate::file::Template;
use crate::process::{self, Finished, How, Limits, NotStarted, Program, Stream};
use crate::sandbox::Sandbox;

/// How much of an answer is posted: it has to fit into a message.
const ANSWER_BYTES: usize = limit::TEXT_BYTES / 2;

#[derive(Debug)]
pub(super) struct CommandBackend {
    seat: Seat,
    argv: Vec<String>,
    sandbox: Option<Arc<Sandbox>>,
}

impl CommandBackend {
    pub(super) fn new(argv: &[Template], seat: &Seat) -> Result<CommandBackend, Failure> {
        let argv: Vec<String> = argv.iter().map(|part| seat.variables.fill(part)).collect();
        if argv.first().is_none_or(|program| program.trim().is_empty()) {
            let reason = format!("the command of {} names no program", seat.name);
            return Err(Failure { why: Why::Hopeless, reason, hint: Some("see `command` in the file".to_owned()) });
        }
        let sandbox = Sandbox::of(seat, None, &seat.env.0, &[])?;
        Ok(CommandBackend { seat: seat.clone(), argv, sandbox })
    }

    async fn run(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        let transcript = self.seat.state.join("transcript.txt");
        let limits = Limits { timeout: turn.timeout, idle: None, output_bytes: OUTPUT_BYTES };
        let mut answer = Answer::default();
        self.sandbox.iter().for_each(|sandbox| sandbox.tell(events));
        let finished = process::run(&self.program(turn), limits, &transcript, &turn.cancel, &mut |stream, line| {
            if stream == Stream::Stdout {
                events.tell(BackendEvent::Said(line.to_owned()));
                answer.take(line);
            }
        })
        .await;
        if let Some(sandbox) = &self.sandbox {
            sandbox.tell_traps(events).await;
        }
        let (verdict, transcript) = match finished {
            Ok(finished) => (self.judged(&finished, answer.said(), turn), Some(transcript)),
            Err(error) => (TurnVerdict::Failed(self.not_started(&error)), None),
        };
        BackendOutcome { verdict, conversation: None, usage: Usage::default(), transcript }
    }

    fn program(&self, turn: &Turn) -> Program {
        let mut program = self.seat.starts(&self.argv);
        let path = with_ours(program.env.get(&OsString::from("PATH")), &self.seat.program);
        program = program.env("ROOKERY_TURN", &turn.id).env("ROOKERY_ATTEMPT", turn.attempt.to_string());
        if let Some(path) = path {
            program = program.env("PATH", path);
        }
        program.stdin(format!("{}\n{}", turn.system, turn.prompt)).sandbox(self.sandbox.clone())
    }

    fn judged(&self, finished: &Finished, said: Option<String>, turn: &Turn) -> TurnVerdict {
        let fault = |why: Why, reason: String| TurnVerdict::Failed(Failure { why, reason, hint: None });
        let name = &self.argv[0];
        match finished.how {
            How::Exited(0) => TurnVerdict::Done { worked: said.is_some(), said },
            How::Exited(code) => {
                let last = finished.stderr_tail.lines().rfind(|line| !line.trim().is_empty());
                let last = last.map(|line| format!(": {}", line.trim())).unwrap_or_default();
                fault(Why::Fault, format!("{name} ended with code {code}{last}"))
            }
            How::Signalled(signal) => fault(Why::Fault, format!("{name} was ended by signal {signal}")),
            How::TimedOut | How::Idle => {
                fault(Why::TimedOut, format!("{name} took longer than {} s", turn.timeout.as_secs_f64()))
            }
            How::Flooded => fault(Why::Fault, format!("{name} printed more than {OUTPUT_BYTES} bytes")),
            How::OverLimit(excess) => TurnVerdict::Failed(over_limit(&self.seat, excess)),
            How::Cancelled => fault(Why::Cancelled, "it was asked to stop".to_owned()),
        }
    }

    fn not_started(&self, error: &NotStarted) -> Failure {
        let hint = format!(
            "see `command` of {} in the file; {} has to be there and on the PATH",
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

/// The search path with our own program's folder at its end, so that `rookery context` is found.
fn with_ours(path: Option<&OsString>, program: &Path) -> Option<OsString> {
    let ours = program.parent().filter(|folder| !folder.as_os_str().is_empty())?.to_path_buf();
    let others = path.map(std::env::split_paths).into_iter().flatten();
    std::env::join_paths(others.chain([ours])).ok()
}

/// What a program printed, as much of it as is posted.
#[derive(Default)]
struct Answer {
    text: String,
    missing: usize,
}

impl Answer {
    fn take(&mut self, line: &str) {
        if self.missing > 0 || self.text.len() + line.len() > ANSWER_BYTES {
            self.missing += line.len() + 1;
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn said(self) -> Option<String> {
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
    fn an_answer_is_what_was_printed_within_bounds() {
        let said = |lines: &[&str]| {
            let mut answer = Answer::default();
            lines.iter().for_each(|line| answer.take(line));
            answer.said()
        };
        assert_eq!(said(&[]), None);
        assert_eq!(said(&["", "  "]), None);
        assert_eq!(said(&["a", "", "b", ""]).as_deref(), Some("a\n\nb"));
        let long = "x".repeat(ANSWER_BYTES);
        let said = said(&["begin", &long, "end"]).unwrap();
        assert!(said.starts_with("begin\n[") && said.contains("more bytes were printed"), "{}", &said[..80]);
    }

    #[test]
    fn our_own_program_is_found_after_all_others() {
        let path = with_ours(Some(&"/usr/bin:/bin".into()), Path::new("/opt/rookery/bin/rookery")).unwrap();
        assert_eq!(path, "/usr/bin:/bin:/opt/rookery/bin");
        assert_eq!(with_ours(None, Path::new("rookery")), None);
    }
}
