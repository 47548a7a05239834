//! One turn of a scripted agent, action by action.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;

use rookery_client::ClientError;
use serde_json::{Value, json};
use tokio::time::{Sleep, sleep};

use super::misbehave::{ExitMode, Misbehaviour};
use super::progress::Progress;
use super::values::Values;
use super::{Failure, Seat, Turn, Why, fault};
use crate::backend::{BackendEvent, Events, OUTPUT_BYTES, Usage};
use crate::file::{Action, Argument, Template};
use crate::process::{self, Finished, How, Limits};

/// As much is printed by the runner itself; a program prints more.
const LITTLE: usize = 64 << 10;
/// How much of what a tool is given is shown.
const SHOWN_LETTERS: usize = 200;
const TRANSCRIPT: &str = "transcript.txt";

pub(super) struct Act<'a> {
    seat: &'a Seat,
    pub(super) turn: &'a Turn,
    events: &'a Events,
    /// Over with the turn's time.
    deadline: Pin<Box<Sleep>>,
    /// Which taking of a turn of the script it is.
    pub(super) number: u64,
    pub(super) said: Option<String>,
    pub(super) worked: bool,
    pub(super) usage: Usage,
    pub(super) transcript: Option<PathBuf>,
}

impl<'a> Act<'a> {
    pub(super) fn begin(seat: &'a Seat, turn: &'a Turn, events: &'a Events) -> Act<'a> {
        let deadline = Box::pin(sleep(turn.timeout));
        let usage = Usage::default();
        Act { seat, turn, events, deadline, number: 0, said: None, worked: false, usage, transcript: None }
    }

    pub(super) async fn perform(&mut self, at: usize, action: &Action, progress: &mut Progress) -> Result<(), Failure> {
        let values = Values { variables: &self.seat.variables, inbox: &self.turn.inbox, got: &progress.got };
        match action {
            Action::Say(text) => {
                let said = values.text(text)?;
                self.events.tell(BackendEvent::Said(said.clone()));
                self.said = Some(said);
            }
            Action::Send { text, to } => {
                let mut arguments = json!({"message": values.text(text)?});
                if let Some(to) = to {
                    arguments["to"] = to.value.clone().into();
                }
                self.call(at, "channel_send", arguments).await?;
            }
            Action::Write { file, text } => self.document(at, "document_write", &values, file.as_ref(), text).await?,
            Action::Append { file, text } => self.document(at, "document_append", &values, file.as_ref(), text).await?,
            Action::Call { tool, with, keep, may_fail } => {
                let arguments = with.as_ref().map_or(Ok(json!({})), |with: &Argument| values.argument(with))?;
                let result = match self.call(at, &tool.value, arguments).await {
                    Err(Refused::Tool(error)) if *may_fail => json!({"error": error.to_string(), "code": error.code()}),
                    other => other?,
                };
                if let Some(keep) = keep {
                    progress.got.insert(keep.value.clone(), result);
                    progress.save(self.seat).map_err(|error| fault(format!("cannot keep a result: {error}")))?;
                }
            }
            Action::Save { path, text } => {
                let (path, text) = (values.text(path)?, values.text(text)?);
                self.save(&path, &text).await?;
            }
            Action::Wait(time) => {
                let time = *time;
                return self.within(sleep(time)).await;
            }
            Action::Print { text, times } => return self.print(values.text(text)?, *times).await,
            Action::Spend { input_tokens, output_tokens, cost_usd } => {
                self.spend(*input_tokens, *output_tokens, *cost_usd);
                return Ok(());
            }
            Action::Fail(reason) => return Err(fault(values.text(reason)?)),
            Action::Exit(code) => return self.run(None, ExitMode::Exit(*code)).await,
            Action::Crash => return self.run(None, ExitMode::Crash).await,
            Action::Hang { stubborn } => {
                return self.run(None, if *stubborn { ExitMode::Stubborn } else { ExitMode::Hang }).await;
            }
            Action::Pass => {}
        }
        self.worked = true;
        Ok(())
    }

    async fn document(
        &mut self,
        at: usize,
        tool: &str,
        values: &Values<'_>,
        file: Option<&Template>,
        text: &Template,
    ) -> Result<(), Failure> {
        let mut arguments = json!({"content": values.text(text)?});
        if let Some(file) = file {
            arguments["file"] = values.text(file)?.into();
        }
        self.call(at, tool, arguments).await?;
        Ok(())
    }

    /// Calls a tool as the agent. The same action of the same turn has the same key, so that it is done once however often
    /// the turn is repeated.
    async fn call(&mut self, at: usize, tool: &str, arguments: Value) -> Result<Value, Refused> {
        let shown: String = arguments.to_string().chars().take(SHOWN_LETTERS).collect();
        self.events.tell(BackendEvent::Tool { name: tool.to_owned(), input: shown });
        let key = format!("script {} {} {at}", self.seat.generation, self.number);
        let tools = self.seat.tools.clone();
        let answer = self.within(tools.call_once(&key, tool, arguments)).await.map_err(Refused::Time)?;
        match answer {
            Ok(answer) => Ok(answer.value),
            Err(error) => {
                self.events.tell(BackendEvent::ToolFailed { name: tool.to_owned(), reason: error.to_string() });
                Err(Refused::Tool(error))
            }
        }
    }

    /// A file in the agent's folder, and nowhere else. The team is told, as by an agent that is well behaved.
    async fn save(&mut self, path: &str, text: &str) -> Result<(), Failure> {
        let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if path.is_empty() || !inside {
            return Err(fault(format!("`{path}` is not in the agent's folder")));
        }
        let path = self.seat.folder.join(path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|error| fault(format!("cannot write {}: {error}", path.display())))?;
        self.events.tell(BackendEvent::Tool { name: "save".to_owned(), input: path.display().to_string() });
        let report = json!({"agent_id": self.seat.id.as_str(), "action": "resource.modified", "resource": path});
        let client = self.seat.tools.client().clone();
        self.within(client.post(&["events"], &report)).await?.map_err(Refused::Tool)?;
        Ok(())
    }

    fn spend(&mut self, input_tokens: u64, output_tokens: u64, cost_usd: f64) {
        self.usage.input_tokens += input_tokens;
        self.usage.output_tokens += output_tokens;
        if cost_usd > 0.0 {
            self.usage.cost_usd = Some(self.usage.cost_usd.unwrap_or_default() + cost_usd);
        }
        self.events.tell(BackendEvent::Used(self.usage));
    }

    async fn print(&mut self, text: String, times: u64) -> Result<(), Failure> {
        let bytes = (text.len() as u64 + 1).saturating_mul(times);
        if bytes > LITTLE as u64 {
            return self.run(Some((text, times)), ExitMode::Exit(0)).await;
        }
        let path = self.seat.state.join(TRANSCRIPT);
        // The first of a turn begins a new one.
        let more = self.transcript.is_some();
        let opened = OpenOptions::new().create(true).write(true).append(more).truncate(!more).open(&path);
        let printed = opened.and_then(|mut file| (0..times).try_for_each(|_| writeln!(file, "{text}")));
        printed.map_err(|error: io::Error| fault(format!("cannot write the transcript: {error}")))?;
        self.transcript = Some(path);
        Ok(())
    }

    /// Has a program do what programs do wrong.
    async fn run(&mut self, print: Option<(String, u64)>, end: ExitMode) -> Result<(), Failure> {
        let told = serde_json::to_vec(&Misbehaviour { print, end }).map_err(|error| fault(error.to_string()))?;
        let program = self.seat.starts([self.seat.program.as_os_str(), "mock-agent".as_ref()]).stdin(told);
        let limits = Limits { timeout: self.turn.timeout, idle: None, output_bytes: OUTPUT_BYTES };
        let transcript = self.seat.state.join(TRANSCRIPT);
        let cancel = self.turn.cancel.child_token();
        let mut ignore = |_: process::Stream, _: &str| {};
        let (finished, late) = {
            let running = process::run(&program, limits, &transcript, &cancel, &mut ignore);
            tokio::pin!(running);
            // Whatever happens, it is waited for until it has ended.
            tokio::select! {
                finished = &mut running => (finished, false),
                () = &mut self.deadline => {
                    cancel.cancel();
                    (running.await, true)
                }
            }
        };
        self.transcript = Some(transcript);
        let finished = finished.map_err(|error| fault(error.to_string()))?;
        if late { Err(timed_out(self.turn)) } else { judged(&finished, end, self.turn) }
    }

    /// Does something unless the turn is over before.
    async fn within<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            () = self.turn.cancel.cancelled() => Err(cancelled()),
            () = &mut self.deadline => Err(timed_out(self.turn)),
        }
    }
}

/// Why a call came to nothing.
enum Refused {
    Tool(ClientError),
    Time(Failure),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Tool(error) => Failure { hint: Some(error.hint()), ..fault(error.to_string()) },
            Refused::Time(failure) => failure,
        }
    }
}

/// What came of a program that misbehaved as it was told.
fn judged(finished: &Finished, end: ExitMode, turn: &Turn) -> Result<(), Failure> {
    match finished.how {
        How::Exited(0) if end == ExitMode::Exit(0) => Ok(()),
        How::Exited(code) => Err(fault(format!("it ended with code {code} and without an answer"))),
        How::Signalled(signal) => Err(fault(format!("it died in the middle of its turn, by signal {signal}"))),
        How::TimedOut | How::Idle => Err(timed_out(turn)),
        How::Flooded => Err(fault(format!("it printed more than {OUTPUT_BYTES} bytes"))),
        How::OverLimit(excess) => Err(fault(format!("it {excess} and was ended"))),
        How::Cancelled => Err(cancelled()),
    }
}

fn timed_out(turn: &Turn) -> Failure {
    Failure { why: Why::TimedOut, ..fault(format!("it took longer than {} s", turn.timeout.as_secs_f64())) }
}

fn cancelled() -> Failure {
    Failure { why: Why::Cancelled, ..fault("it was asked to stop") }
}
