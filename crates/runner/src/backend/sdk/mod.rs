//! Our own agent loop on the API of a model: it sends a request, carries out the calls of tools in the answer, sends their
//! results, and so on until an answer has no calls. That answer's text is the result of the turn.
//!
//! [`model`] sends requests, [`tools`] carries out calls, [`conversation`] keeps the messages. This module decides when to stop.

mod conversation;
mod model;
#[cfg(test)]
mod tests;
mod tools;
mod transcript;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rookery_core::kernel::limit;
use tokio_util::sync::CancellationToken;

use self::conversation::ModelConversation;
use self::model::{
    Model, ModelAnswer, ModelCall, ModelCallResult, ModelError, ModelMessage, ModelObserver, ModelRequest,
    ModelRetryPolicy, ModelSettings, ModelTarget, ModelTool, StopReason,
};
use self::tools::{Toolbox, clip};
use self::transcript::ModelTranscript;
use super::{Backend, BackendEvent, BackendOutcome, Events, Failure, Seat, Secret, Turn, TurnVerdict, Usage, Why};
use crate::file::{Agent, Provider, Variables};

/// Maximum number of requests in one turn.
const MAX_REQUESTS: usize = 60;
/// Maximum length of a posted answer: it has to fit into a message.
const MAX_ANSWER_BYTES: usize = limit::TEXT_BYTES / 2;
/// The attempt from which a turn starts a new conversation.
const NEW_CONVERSATION_ATTEMPT: u32 = 3;
/// Length of a partial line that is reported without waiting for its end.
const MAX_LINE_BYTES: usize = 400;
/// Maximum length of a call's arguments in events.
const MAX_INPUT_CHARS: usize = 120;

#[derive(Debug)]
pub(super) struct Sdk {
    seat: Seat,
    model: Model,
    toolbox: Toolbox,
}

impl Sdk {
    pub(super) fn new(provider: &Provider, seat: &Seat) -> Result<Sdk, Failure> {
        Sdk::with_retry_policy(provider, seat, ModelRetryPolicy::default())
    }

    fn with_retry_policy(provider: &Provider, seat: &Seat, retry_policy: ModelRetryPolicy) -> Result<Sdk, Failure> {
        let variable = provider.api_key.as_ref().map(|name| name.value.as_str());
        let settings = ModelSettings {
            model: seat.model.as_deref().unwrap_or_default(),
            base_url: seat.provider.base_url.as_deref(),
            key: variable.map(|name| (name, seat.provider.api_key.as_ref())),
        };
        // The agent's own variables win over those of the runner.
        let mut env = seat.variables.env.clone();
        env.extend(seat.env.0.clone());
        let target = ModelTarget::find(&settings, &env)?;
        let model = Model::new(target.clone(), retry_policy).map_err(|error| error.failure(&target))?;
        Ok(Sdk { seat: seat.clone(), model, toolbox: Toolbox::new(seat)? })
    }

    async fn run(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        self.toolbox.report_to(events);
        let transcript = ModelTranscript::begin(&self.seat.state);
        let mut progress =
            TurnProgress { events, line: String::new(), usage: Usage::default(), transcript, worked: false };
        let stop = turn.cancel.child_token();
        let outcome = run_in_time(turn, &stop, self.work(turn, &stop, &mut progress)).await;
        let (verdict, conversation) = match outcome {
            Ok((said, conversation)) => (TurnVerdict::Done { said, worked: progress.worked }, Some(conversation)),
            Err(failure) => (TurnVerdict::Failed(failure), turn.conversation.clone()),
        };
        BackendOutcome { verdict, conversation, usage: progress.usage, transcript: progress.transcript.finish() }
    }

    /// Runs the turn. Returns the last text and the conversation to resume.
    async fn work(
        &self,
        turn: &Turn,
        stop: &CancellationToken,
        progress: &mut TurnProgress<'_>,
    ) -> Result<(Option<String>, String), Failure> {
        let tools = unless(stop, self.toolbox.tools()).await??;
        // An earlier message may be the cause of repeated failures.
        let earlier = turn.conversation.as_deref().filter(|_| turn.attempt < NEW_CONVERSATION_ATTEMPT);
        let (mut conversation, loss) = ModelConversation::open(&self.seat.state, earlier, &turn.id);
        if let Some(loss) = loss {
            progress.note(loss.to_string());
        }
        progress.add(&mut conversation, ModelMessage::User { text: turn.prompt.clone() });
        for _ in 0..MAX_REQUESTS {
            let answer = self.ask(turn, tools, &mut conversation, stop, progress).await?;
            if let StopReason::Withheld(reason) = &answer.stop {
                return Err(Failure { why: Why::Fault, reason: reason.clone(), hint: None });
            }
            let calls = answer.calls.clone();
            let said = answer.text.trim().to_owned();
            progress.add(&mut conversation, ModelMessage::Model { text: answer.text, calls: answer.calls });
            if calls.is_empty() {
                if answer.stop == StopReason::Length {
                    progress.note("the answer was cut at its maximum length; see `max_tokens`".to_owned());
                }
                progress.worked |= !said.is_empty();
                let id = conversation.id().to_owned();
                self.save(conversation, progress);
                return Ok(((!said.is_empty()).then(|| clip(&said, MAX_ANSWER_BYTES)), id));
            }
            let results = self.call_all(&calls, stop, progress).await?;
            progress.add(&mut conversation, ModelMessage::Tools { results });
        }
        let reason = format!("it called its model {MAX_REQUESTS} times in this turn without an end");
        Err(Failure { why: Why::Fault, reason, hint: Some("give it less to do at once".to_owned()) })
    }

    /// Requests the next answer. If the provider rejects the request, retries without the messages of earlier turns.
    async fn ask(
        &self,
        turn: &Turn,
        tools: &[ModelTool],
        conversation: &mut ModelConversation,
        stop: &CancellationToken,
        progress: &mut TurnProgress<'_>,
    ) -> Result<ModelAnswer, Failure> {
        loop {
            conversation.fit();
            let messages = conversation.messages();
            let ask = ModelRequest { system: &turn.system, messages, tools, max_tokens: self.seat.max_tokens };
            let answer = unless(stop, self.model.ask(&ask, progress)).await?;
            progress.flush_line();
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) if error.is_rejected_request() && conversation.forget_earlier() => {
                    progress.note(format!("{error}; asking again without the messages of earlier turns"));
                    continue;
                }
                Err(error) => return Err(error.failure(self.model.target())),
            };
            progress.add_usage(answer.usage);
            return Ok(answer);
        }
    }

    async fn call_all(
        &self,
        calls: &[ModelCall],
        stop: &CancellationToken,
        progress: &mut TurnProgress<'_>,
    ) -> Result<Vec<ModelCallResult>, Failure> {
        let mut results = Vec::new();
        for call in calls {
            progress.events.emit(BackendEvent::Tool { name: call.name.clone(), input: shorten(&call.arguments) });
            let result = match call.input() {
                // `bash` ends its processes before it returns, so it must not be dropped while one runs.
                Ok(input) if call.name == tools::BASH => self.toolbox.call(&call.name, input, stop).await?,
                Ok(input) => unless(stop, self.toolbox.call(&call.name, input, stop)).await??,
                Err(wrong) => Err(wrong),
            };
            if stop.is_cancelled() {
                return Err(cancellation());
            }
            progress.worked |= result.is_ok();
            let failed = result.is_err();
            let (Ok(text) | Err(text)) = result;
            if failed {
                progress.events.emit(BackendEvent::ToolFailed { name: call.name.clone(), reason: shorten(&text) });
            }
            results.push(ModelCallResult { id: call.id.clone(), name: call.name.clone(), text, failed });
        }
        Ok(results)
    }

    /// Saves the conversation. A failure does not fail the turn, which is done.
    fn save(&self, conversation: ModelConversation, progress: &mut TurnProgress<'_>) {
        if let Err(error) = conversation.save(&self.seat.state) {
            progress.note(format!("the conversation could not be kept for the next turn: {error}"));
        }
    }
}

/// Fails if the address of an agent's model is unknown, or its key is missing.
pub(super) fn preflight(
    agent: &Agent,
    provider: &Provider,
    variables: &Variables,
    env: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let model = agent.model.as_ref().map(|model| variables.fill(model)).unwrap_or_default();
    let base_url = provider.base_url.as_ref().map(|url| variables.fill(url));
    let name = provider.api_key.as_ref().map(|name| name.value.as_str());
    let key = name.and_then(|name| variables.env.get(name)).map(|key| Secret(key.clone()));
    let key = name.map(|name| (name, key.as_ref()));
    ModelTarget::find(&ModelSettings { model: &model, base_url: base_url.as_deref(), key }, env).map(drop)
}

impl Backend for Sdk {
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome> {
        Box::pin(self.run(turn, events))
    }

    fn account(&self) -> String {
        self.model.target().account()
    }
}

/// Output, usage and transcript of a running turn.
struct TurnProgress<'a> {
    events: &'a Events,
    /// The current line of the answer, as far as it was received.
    line: String,
    usage: Usage,
    transcript: ModelTranscript,
    worked: bool,
}

impl TurnProgress<'_> {
    fn add(&mut self, conversation: &mut ModelConversation, message: ModelMessage) {
        self.transcript.add(&message);
        conversation.add(message);
    }

    /// Reports the current line, complete or not.
    fn flush_line(&mut self) {
        if !self.line.trim().is_empty() {
            self.events.emit(BackendEvent::Said(self.line.trim_end().to_owned()));
        }
        self.line.clear();
    }

    fn note(&self, text: String) {
        self.events.emit(BackendEvent::Note(text));
    }

    fn add_usage(&mut self, usage: Usage) {
        self.usage.input_tokens += usage.input_tokens;
        self.usage.output_tokens += usage.output_tokens;
        if let Some(cost) = usage.cost_usd {
            *self.usage.cost_usd.get_or_insert(0.0) += cost;
        }
        self.events.emit(BackendEvent::Used(self.usage));
    }
}

impl ModelObserver for TurnProgress<'_> {
    /// Collects pieces of a few letters into lines, which people read.
    fn on_text(&mut self, piece: &str) {
        for part in piece.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') || self.line.len() > MAX_LINE_BYTES {
                self.flush_line();
            }
        }
    }

    fn on_retry(&mut self, error: &ModelError, pause: Duration) {
        self.flush_line();
        self.note(format!("{error}; asking again in {:.1} s", pause.as_secs_f64()));
    }
}

/// Runs `work` until it is done, cancelled or out of time. `work` ends its processes when it is stopped, so it is awaited
/// rather than dropped.
async fn run_in_time<T>(
    turn: &Turn,
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = turn.cancel.cancelled() => return work.await.map_err(|_| cancellation()),
        () = tokio::time::sleep(turn.timeout) => {}
    }
    stop.cancel();
    work.await.map_err(|_| {
        let reason = format!("the turn took longer than {} s", turn.timeout.as_secs_f64());
        Failure { why: Why::TimedOut, reason, hint: None }
    })
}

async fn unless<T>(stop: &CancellationToken, future: impl Future<Output = T>) -> Result<T, Failure> {
    stop.run_until_cancelled(future).await.ok_or_else(cancellation)
}

fn cancellation() -> Failure {
    Failure { why: Why::Cancelled, reason: "it was asked to stop".to_owned(), hint: None }
}

/// A short line of a text, for people.
fn shorten(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(MAX_INPUT_CHARS) {
        Some((at, _)) => format!("{}…", &flat[..at]),
        None => flat,
    }
}
