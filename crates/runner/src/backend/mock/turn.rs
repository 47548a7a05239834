//! Plays one turn of a scripted agent, action by action.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;

use rookery_client::ClientError;
use serde_json::{Value, json};
use tokio::time::{Sleep, sleep};

use super::misbehave::{ExitMode, Misbehaviour};
use super::progress::ScriptProgress;
use super::values::Values;
use super::{Failure, Seat, Turn, Why, fault};
use crate::backend::{BackendEvent, Events, MAX_OUTPUT_BYTES, Usage};
use crate::file::{Action, Argument, TextTemplate};
use crate::process::{self, Finished, ProcessEnd, RunLimits};

/// Maximum bytes that the runner prints itself; a program prints more.
const MAX_PRINTED_HERE: usize = 64 << 10;
/// Maximum characters of a tool's input in events.
const MAX_SHOWN_CHARS: usize = 200;
const TRANSCRIPT: &str = "transcript.txt";

pub(super) struct MockTurn<'a> {
    seat: &'a Seat,
    pub(super) turn: &'a Turn,
    events: &'a Events,
    /// Completes when the turn's time has passed.
    deadline: Pin<Box<Sleep>>,
    /// The number of the taken script turn.
    pub(super) number: u64,
    pub(super) said: Option<String>,
    pub(super) worked: bool,
    pub(super) usage: Usage,
    pub(super) transcript: Option<PathBuf>,
}

impl<'a> MockTurn<'a> {
    pub(super) fn begin(seat: &'a Seat, turn: &'a Turn, events: &'a Events) -> MockTurn<'a> {
        let deadline = Box::pin(sleep(turn.timeout));
        let usage = Usage::default();
        MockTurn { seat, turn, events, deadline, number: 0, said: None, worked: false, usage, transcript: None }
    }

    pub(super) async fn perform(
        &mut self,
        at: usize,
        action: &Action,
        progress: &mut ScriptProgress,
    ) -> Result<(), Failure> {
        let values = Values { variables: &self.seat.variables, inbox: &self.turn.inbox, got: &progress.got };
        match action {
            Action::Say(text) => {
                let said = values.text(text)?;
                self.events.emit(BackendEvent::Said(said.clone()));
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
                    Err(CallError::Tool(error)) if *may_fail => {
                        json!({"error": error.to_string(), "code": error.code()})
                    }
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
        file: Option<&TextTemplate>,
        text: &TextTemplate,
    ) -> Result<(), Failure> {
        let mut arguments = json!({"content": values.text(text)?});
        if let Some(file) = file {
            arguments["file"] = values.text(file)?.into();
        }
        self.call(at, tool, arguments).await?;
        Ok(())
    }

    /// Calls a tool as the agent. The same action of the same turn has the same idempotency key, so that a repeated turn has
    /// its effect once.
    async fn call(&mut self, at: usize, tool: &str, arguments: Value) -> Result<Value, CallError> {
        let shown: String = arguments.to_string().chars().take(MAX_SHOWN_CHARS).collect();
        self.events.emit(BackendEvent::Tool { name: tool.to_owned(), input: shown });
        let key = format!("script {} {} {at}", self.seat.generation, self.number);
        let tools = self.seat.tools.clone();
        let answer = self.within(tools.call_once(&key, tool, arguments)).await.map_err(CallError::Time)?;
        match answer {
            Ok(answer) => Ok(answer.value),
            Err(error) => {
                self.events.emit(BackendEvent::ToolFailed { name: tool.to_owned(), reason: error.to_string() });
                Err(CallError::Tool(error))
            }
        }
    }

    /// Writes a file inside the agent's folder, and reports the change to the team, as a well-behaved agent does.
    async fn save(&mut self, path: &str, text: &str) -> Result<(), Failure> {
        let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if path.is_empty() || !inside {
            return Err(fault(format!("`{path}` is not in the agent's folder")));
        }
        let path = self.seat.folder.join(path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|error| fault(format!("cannot write {}: {error}", path.display())))?;
        self.events.emit(BackendEvent::Tool { name: "save".to_owned(), input: path.display().to_string() });
        let report = json!({"agent_id": self.seat.id.as_str(), "action": "resource.modified", "resource": path});
        let client = self.seat.tools.client().clone();
        self.within(client.post(&["events"], &report)).await?.map_err(CallError::Tool)?;
        Ok(())
    }

    fn spend(&mut self, input_tokens: u64, output_tokens: u64, cost_usd: f64) {
        self.usage.input_tokens += input_tokens;
        self.usage.output_tokens += output_tokens;
        if cost_usd > 0.0 {
            self.usage.cost_usd = Some(self.usage.cost_usd.unwrap_or_default() + cost_usd);
        }
        self.events.emit(BackendEvent::Used(self.usage));
    }

    async fn print(&mut self, text: String, times: u64) -> Result<(), Failure> {
        let bytes = (text.len() as u64 + 1).saturating_mul(times);
        if bytes > MAX_PRINTED_HERE as u64 {
            return self.run(Some((text, times)), ExitMode::Exit(0)).await;
        }
        let path = self.seat.state.join(TRANSCRIPT);
        // The first output of a turn truncates the file.
        let more = self.transcript.is_some();
        let opened = OpenOptions::new().create(true).write(true).append(more).truncate(!more).open(&path);
        let printed = opened.and_then(|mut file| (0..times).try_for_each(|_| writeln!(file, "{text}")));
        printed.map_err(|error: io::Error| fault(format!("cannot write the transcript: {error}")))?;
        self.transcript = Some(path);
        Ok(())
    }

    /// Runs a program that misbehaves.
    async fn run(&mut self, print: Option<(String, u64)>, end: ExitMode) -> Result<(), Failure> {
        let request = serde_json::to_vec(&Misbehaviour { print, end }).map_err(|error| fault(error.to_string()))?;
        let program = self.seat.program_for([self.seat.program.as_os_str(), "mock-agent".as_ref()]).stdin(request);
        let limits = RunLimits { timeout: self.turn.timeout, idle: None, output_bytes: MAX_OUTPUT_BYTES };
        let transcript = self.seat.state.join(TRANSCRIPT);
        let cancel = self.turn.cancel.child_token();
        let mut ignore = |_: process::OutputStream, _: &str| {};
        let (finished, late) = {
            let running = process::run(&program, limits, &transcript, &cancel, &mut ignore);
            tokio::pin!(running);
            // The program is always awaited until it has ended.
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
        if late { Err(timeout_failure(self.turn)) } else { judge(&finished, end, self.turn) }
    }

    /// Waits for `work`, unless the turn is cancelled or its time has passed.
    async fn within<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            () = self.turn.cancel.cancelled() => Err(cancellation()),
            () = &mut self.deadline => Err(timeout_failure(self.turn)),
        }
    }
}

/// The reason why a call failed.
enum CallError {
    Tool(ClientError),
    Time(Failure),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        match error {
            CallError::Tool(error) => Failure { hint: Some(error.hint()), ..fault(error.to_string()) },
            CallError::Time(failure) => failure,
        }
    }
}

/// The result of a misbehaving program.
fn judge(finished: &Finished, end: ExitMode, turn: &Turn) -> Result<(), Failure> {
    match finished.end {
        ProcessEnd::Exited(0) if end == ExitMode::Exit(0) => Ok(()),
        ProcessEnd::Exited(code) => Err(fault(format!("it ended with code {code} and without an answer"))),
        ProcessEnd::Signalled(signal) => Err(fault(format!("it died in the middle of its turn, by signal {signal}"))),
        ProcessEnd::TimedOut | ProcessEnd::Idle => Err(timeout_failure(turn)),
        ProcessEnd::Flooded => Err(fault(format!("it printed more than {MAX_OUTPUT_BYTES} bytes"))),
        ProcessEnd::OverLimit(excess) => Err(fault(format!("it {excess} and was ended"))),
        ProcessEnd::Cancelled => Err(cancellation()),
    }
}

fn timeout_failure(turn: &Turn) -> Failure {
    Failure { why: Why::TimedOut, ..fault(format!("it took longer than {} s", turn.timeout.as_secs_f64())) }
}

fn cancellation() -> Failure {
    Failure { why: Why::Cancelled, ..fault("it was asked to stop") }
}
