//! Our own loop against the interface of a model: it is asked, calls tools, is told what they brought, and so on until it has
//! nothing more to call. What it says then is its answer.
//!
//! [`model`] asks, [`tools`] does what the model wants, [`conversation`] is what was said. Here is when to stop.

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

use self::conversation::Conversation;
use self::model::{
    Answer, Ask, Call, CallResult, Message, Model, ModelObserver, ModelRetryPolicy, Said, Stop, Target, Tool, Trouble,
};
use self::tools::{Toolbox, clipped};
use self::transcript::Transcript;
use super::{Backend, BackendEvent, BackendOutcome, Events, Failure, Seat, Secret, Turn, TurnVerdict, Usage, Why};
use crate::file::{Agent, Provider, Variables};

/// How often a model is asked in one turn.
const STEPS: usize = 60;
/// How much of an answer is posted: it has to fit into a message.
const SAID_BYTES: usize = limit::TEXT_BYTES / 2;
/// The attempt from which on a turn begins a new conversation.
const ANEW: u32 = 3;
/// How much of a line is waited for before it is told.
const LINE_BYTES: usize = 400;
/// How much of the arguments of a call is shown.
const INPUT_CHARS: usize = 120;

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
        let said = Said {
            model: seat.model.as_deref().unwrap_or_default(),
            base_url: seat.provider.base_url.as_deref(),
            key: variable.map(|name| (name, seat.provider.api_key.as_ref())),
        };
        // The agent's own variables before those that everybody has.
        let mut env = seat.variables.env.clone();
        env.extend(seat.env.0.clone());
        let target = Target::find(&said, &env)?;
        let model = Model::new(target.clone(), retry_policy).map_err(|trouble| trouble.failure(&target))?;
        Ok(Sdk { seat: seat.clone(), model, toolbox: Toolbox::new(seat)? })
    }

    async fn run(&self, turn: &Turn, events: &Events) -> BackendOutcome {
        self.toolbox.tell(events);
        let transcript = Transcript::begin(&self.seat.state);
        let mut talk = Talk { events, line: String::new(), usage: Usage::default(), transcript, worked: false };
        let stop = turn.cancel.child_token();
        let ended = in_time(turn, &stop, self.work(turn, &stop, &mut talk)).await;
        let (verdict, conversation) = match ended {
            Ok((said, conversation)) => (TurnVerdict::Done { said, worked: talk.worked }, Some(conversation)),
            Err(failure) => (TurnVerdict::Failed(failure), turn.conversation.clone()),
        };
        BackendOutcome { verdict, conversation, usage: talk.usage, transcript: talk.transcript.finish() }
    }

    /// The turn: what it said last, and the conversation to go on with.
    async fn work(
        &self,
        turn: &Turn,
        stop: &CancellationToken,
        talk: &mut Talk<'_>,
    ) -> Result<(Option<String>, String), Failure> {
        let tools = unless(stop, self.toolbox.tools()).await??;
        // What keeps failing may be the fault of what was said before.
        let earlier = turn.conversation.as_deref().filter(|_| turn.attempt < ANEW);
        let (mut conversation, forgotten) = Conversation::open(&self.seat.state, earlier, &turn.id);
        if let Some(forgotten) = forgotten {
            talk.note(forgotten.to_string());
        }
        talk.add(&mut conversation, Message::User { text: turn.prompt.clone() });
        for _ in 0..STEPS {
            let answer = self.ask(turn, tools, &mut conversation, stop, talk).await?;
            if let Stop::Withheld(reason) = &answer.stop {
                return Err(Failure { why: Why::Fault, reason: reason.clone(), hint: None });
            }
            let calls = answer.calls.clone();
            let said = answer.text.trim().to_owned();
            talk.add(&mut conversation, Message::Model { text: answer.text, calls: answer.calls });
            if calls.is_empty() {
                if answer.stop == Stop::Length {
                    talk.note("the answer was as long as it may be, and ends there; see `max_tokens`".to_owned());
                }
                talk.worked |= !said.is_empty();
                let id = conversation.id().to_owned();
                self.keep(conversation, talk);
                return Ok(((!said.is_empty()).then(|| clipped(&said, SAID_BYTES)), id));
            }
            let results = self.call_all(&calls, stop, talk).await?;
            talk.add(&mut conversation, Message::Tools { results });
        }
        let reason = format!("it was asked {STEPS} times in this turn and came to no end");
        Err(Failure { why: Why::Fault, reason, hint: Some("give it less to do at once".to_owned()) })
    }

    /// The next answer. If the provider does not take the question, what was said in earlier turns may be why.
    async fn ask(
        &self,
        turn: &Turn,
        tools: &[Tool],
        conversation: &mut Conversation,
        stop: &CancellationToken,
        talk: &mut Talk<'_>,
    ) -> Result<Answer, Failure> {
        loop {
            conversation.fit();
            let messages = conversation.messages();
            let ask = Ask { system: &turn.system, messages, tools, max_tokens: self.seat.max_tokens };
            let answered = unless(stop, self.model.ask(&ask, talk)).await?;
            talk.tell_rest();
            let answer = match answered {
                Ok(answer) => answer,
                Err(trouble) if trouble.is_about_the_question() && conversation.forget_earlier() => {
                    talk.note(format!("{trouble}; asked again without what was said in earlier turns"));
                    continue;
                }
                Err(trouble) => return Err(trouble.failure(self.model.target())),
            };
            talk.used(answer.usage);
            return Ok(answer);
        }
    }

    async fn call_all(
        &self,
        calls: &[Call],
        stop: &CancellationToken,
        talk: &mut Talk<'_>,
    ) -> Result<Vec<CallResult>, Failure> {
        let mut results = Vec::new();
        for call in calls {
            talk.events.tell(BackendEvent::Tool { name: call.name.clone(), input: shortened(&call.arguments) });
            let brought = match call.input() {
                // It ends its own programs before it returns, so it is not left while one runs.
                Ok(input) if call.name == tools::BASH => self.toolbox.call(&call.name, input, stop).await?,
                Ok(input) => unless(stop, self.toolbox.call(&call.name, input, stop)).await??,
                Err(wrong) => Err(wrong),
            };
            if stop.is_cancelled() {
                return Err(stopped());
            }
            talk.worked |= brought.is_ok();
            let failed = brought.is_err();
            let (Ok(text) | Err(text)) = brought;
            if failed {
                talk.events.tell(BackendEvent::ToolFailed { name: call.name.clone(), reason: shortened(&text) });
            }
            results.push(CallResult { id: call.id.clone(), name: call.name.clone(), text, failed });
        }
        Ok(results)
    }

    /// A turn that is done is done, also if nobody will remember it.
    fn keep(&self, conversation: Conversation, talk: &mut Talk<'_>) {
        if let Err(error) = conversation.keep(&self.seat.state) {
            talk.note(format!("the conversation could not be kept for the next turn: {error}"));
        }
    }
}

/// Fails if it is not known where the model of an agent is, or its key is not there.
pub(super) fn foresee(
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
    Target::find(&Said { model: &model, base_url: base_url.as_deref(), key }, env).map(drop)
}

impl Backend for Sdk {
    fn turn<'a>(&'a self, turn: &'a Turn, events: &'a Events) -> BoxFuture<'a, BackendOutcome> {
        Box::pin(self.run(turn, events))
    }

    fn account(&self) -> String {
        self.model.target().account()
    }
}

/// What is told and counted while a turn goes on.
struct Talk<'a> {
    events: &'a Events,
    /// A line of which some was said.
    line: String,
    usage: Usage,
    transcript: Transcript,
    worked: bool,
}

impl Talk<'_> {
    fn add(&mut self, conversation: &mut Conversation, message: Message) {
        self.transcript.add(&message);
        conversation.add(message);
    }

    /// Tells what was said of a line, which is all of it that comes.
    fn tell_rest(&mut self) {
        if !self.line.trim().is_empty() {
            self.events.tell(BackendEvent::Said(self.line.trim_end().to_owned()));
        }
        self.line.clear();
    }

    fn note(&self, text: String) {
        self.events.tell(BackendEvent::Note(text));
    }

    fn used(&mut self, usage: Usage) {
        self.usage.input_tokens += usage.input_tokens;
        self.usage.output_tokens += usage.output_tokens;
        if let Some(cost) = usage.cost_usd {
            *self.usage.cost_usd.get_or_insert(0.0) += cost;
        }
        self.events.tell(BackendEvent::Used(self.usage));
    }
}

impl ModelObserver for Talk<'_> {
    /// Pieces are a few letters each, and people read lines.
    fn said(&mut self, piece: &str) {
        for part in piece.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') || self.line.len() > LINE_BYTES {
                self.tell_rest();
            }
        }
    }

    fn waits(&mut self, trouble: &Trouble, pause: Duration) {
        self.tell_rest();
        self.note(format!("{trouble}; asking again in {:.1} s", pause.as_secs_f64()));
    }
}

/// Lets it work until it is done, is asked to stop or took too long. What it started is ended before this returns, so it is
/// never just left.
async fn in_time<T>(
    turn: &Turn,
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = turn.cancel.cancelled() => return work.await.map_err(|_| stopped()),
        () = tokio::time::sleep(turn.timeout) => {}
    }
    stop.cancel();
    work.await.map_err(|_| {
        let reason = format!("the turn took longer than {} s", turn.timeout.as_secs_f64());
        Failure { why: Why::TimedOut, reason, hint: None }
    })
}

async fn unless<T>(stop: &CancellationToken, future: impl Future<Output = T>) -> Result<T, Failure> {
    stop.run_until_cancelled(future).await.ok_or_else(stopped)
}

fn stopped() -> Failure {
    Failure { why: Why::Cancelled, reason: "it was asked to stop".to_owned(), hint: None }
}

/// One line of a text, for people.
fn shortened(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(INPUT_CHARS) {
        Some((at, _)) => format!("{}…", &flat[..at]),
        None => flat,
    }
}
