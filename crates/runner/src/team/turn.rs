//! One turn of an agent: what it is told, what runs it, what came of it, and what becomes of its messages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rookery_client::turns::{self as wire, EndTurn, StartTurn, TurnActivityEntry};
use rookery_client::{Client, ClientError};
use tokio_util::sync::CancellationToken;

use super::TeamError;
use super::decide::activity::{is_sent, is_work, is_work_tool};
use super::decide::attempts::Next;
use super::member::{Again, Asked, By, Member};
use super::report::{Cause, Level, Report, TurnOutcome};
use crate::backend::{self, BackendEvent, BackendOutcome, Events, Failure, TurnVerdict, Usage, Why};
use crate::turn::{Cause as Woken, Earlier, Message, Situation, Telling, prompt};

/// How long a turn may take if the file does not say.
pub(super) const USUAL_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How long a backend may take to end after it was told to.
const ENDING: Duration = Duration::from_secs(30);
/// How long the daemon is waited for when everything ends.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// Events that wait for the screen.
const EVENTS: usize = 256;
/// How many turns that were cut off are told of.
const TURNS_BACK: usize = 5;
/// What the daemon says of messages that no turn can be about.
const NOT_OPEN: &str = "INVALID_STATE";
/// What it says of an agent that somebody paused.
const PAUSED: &str = "AGENT_PAUSED";
/// How much of a reason is told.
const REASON_LETTERS: usize = 2_000;

impl Member {
    /// Has a turn. Only what ends the whole team is an error.
    pub(super) async fn turn(&mut self, asked: Asked, woken: u64) -> Result<(), TeamError> {
        let attempt = self.attempts.next();
        let Some(begun) = self.begin(&asked, attempt).await? else { return Ok(()) };
        if asked.by == By::Alarm
            && let Some(alarm) = &mut self.alarm
        {
            alarm.rang(&self.crew.clock.zoned());
        }
        let began = self.crew.clock.now();
        self.crew.board.works(&self.seat.name, woken);
        self.crew.reports.tell(Report::TurnBegan {
            agent: self.crew.board.standing(&self.seat.name),
            attempt,
            cause: if asked.by == By::Alarm { Cause::Wakeup } else { Cause::Messages },
            messages: asked.messages.len(),
        });
        let worked = Arc::new(AtomicBool::new(false));
        let ended = match self.told(&begun, &asked, attempt).await {
            Ok(turn) => self.runs(&turn, &worked).await,
            Err(error) => failed(Failure { why: Why::Fault, reason: error.to_string(), hint: Some(error.hint()) }),
        };
        let done = Turned { id: begun.turn, attempt, ended, took: self.crew.clock.now().saturating_sub(began) };
        self.ends(done, asked, worked.load(Ordering::Relaxed)).await
    }

    /// Opens the turn in the log. None if there is nothing to do any more.
    async fn begin(&mut self, asked: &Asked, attempt: u32) -> Result<Option<wire::Turn>, TeamError> {
        let is_open = asked.by != By::Nothing;
        let ids = asked.messages.iter().filter(|_| is_open).map(|message| message.entry.id.clone());
        let start = StartTurn {
            agent: self.seat.id.to_string(),
            attempt,
            messages: ids.collect(),
            cause: match asked.by {
                By::Messages => wire::Cause::Messages,
                By::Alarm => wire::Cause::Wakeup,
                By::Nothing => wire::Cause::Direct,
            },
            team: self.crew.team.to_string(),
            generation: self.crew.generation,
        };
        match self.stop.run_until_cancelled(self.crew.client.start_turn(&start)).await {
            None => Ok(None),
            Some(Ok(turn)) => Ok(Some(turn)),
            // Somebody acknowledged them meanwhile, or they were given up before a restart.
            Some(Err(error)) if error.code() == Some(NOT_OPEN) && asked.by == By::Messages => {
                self.attempts.over();
                self.give_up(&asked.messages);
                Ok(None)
            }
            // It was paused just now: what it was about waits.
            Some(Err(error)) if error.code() == Some(PAUSED) => {
                self.again.clone_from(&asked.again);
                self.crew.board.may_pause(&self.seat.name);
                Ok(None)
            }
            Some(Err(error)) => Err(error.into()),
        }
    }

    fn give_up(&self, messages: &[Message]) {
        self.crew.ledger.give_up(&self.seat.name, messages.iter().map(|message| message.entry.id.as_str()));
    }

    /// Gathers what the agent is told.
    async fn told(&self, begun: &wire::Turn, asked: &Asked, attempt: u32) -> Result<backend::Turn, ClientError> {
        let prompt =
            if self.backend.reads_prompts() { self.prompt(begun, asked, attempt).await? } else { String::new() };
        let repeats = asked.again.as_ref().map(|again| again.unknown.clone()).unwrap_or_default();
        Ok(backend::Turn {
            id: begun.turn.clone(),
            attempt,
            repeats,
            system: self.system.clone(),
            prompt,
            inbox: asked.messages.iter().map(Message::letter).collect(),
            conversation: self.conversation.clone(),
            timeout: self.agent.timeout.unwrap_or(USUAL_TIMEOUT),
            cancel: self.stop.child_token(),
        })
    }

    async fn prompt(&self, begun: &wire::Turn, asked: &Asked, attempt: u32) -> Result<String, ClientError> {
        let situation = Situation::look(&self.crew.ready, &self.seat).await?;
        let earlier = match &asked.again {
            None => None,
            Some(again) => Some(Earlier { attempt, why: again.why.clone(), did: self.did_before(again).await? }),
        };
        let cause = match asked.by {
            By::Alarm => Woken::Wakeup(self.agent.wakeup_prompt.as_ref().map(|text| self.seat.variables.fill(text))),
            By::Messages | By::Nothing => Woken::Messages,
        };
        Ok(prompt(&Telling {
            turn: &begun.turn,
            cause,
            inbox: &asked.messages,
            waiting: asked.waiting,
            earlier,
            situation: &situation,
        }))
    }

    /// What the log says that the attempts before this one did, in order: the last, and all that nobody knows the end of.
    async fn did_before(&self, again: &Again) -> Result<Vec<String>, ClientError> {
        let mut turns: Vec<&String> = again.unknown.iter().take(TURNS_BACK).collect();
        if turns.is_empty() {
            turns.push(&again.turn);
        }
        let mut did = Vec::new();
        for turn in turns.into_iter().rev() {
            did.extend(self.crew.client.turn(turn).await?.did.into_iter().map(|entry| entry.summary));
        }
        Ok(did)
    }

    /// Lets the backend have the turn, and tells what happens meanwhile. Ends in any case, whatever a backend promises.
    async fn runs(&self, turn: &backend::Turn, worked: &AtomicBool) -> BackendOutcome {
        let (events, mut told) = Events::with_capacity(EVENTS);
        let (name, reports) = (self.seat.name.clone(), self.crew.reports.clone());
        let tell = |event: BackendEvent| {
            if matches!(&event, BackendEvent::Tool { name, .. } if is_work_tool(name)) {
                worked.store(true, Ordering::Relaxed);
            }
            reports.tell(Report::During { agent: name.clone(), event });
        };
        let running = async {
            tokio::select! {
                ended = self.backend.turn(turn, &events) => ended,
                () = overdue(turn.timeout, &turn.cancel) => failed(Failure {
                    why: if turn.cancel.is_cancelled() { Why::Cancelled } else { Why::TimedOut },
                    reason: "it does not end although it was told to".to_owned(),
                    hint: None,
                }),
            }
        };
        tokio::pin!(running);
        // Whoever else can tell something, such as the way out of a sandbox, outlasts the turn: it is over all the same.
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                Some(event) = told.recv() => tell(event),
            }
        };
        while let Ok(event) = told.try_recv() {
            tell(event);
        }
        ended
    }

    /// Judges the turn and closes it in the log.
    async fn ends(&mut self, done: Turned, asked: Asked, tools: bool) -> Result<(), TeamError> {
        let usage = done.ended.usage;
        self.active = self.crew.clock.now();
        if done.ended.conversation.is_some() {
            self.conversation.clone_from(&done.ended.conversation);
        }
        self.crew.ledger.cost(usage.cost_usd);
        let did = self.did(&done.id).await?;
        if tools || did.iter().any(|entry| is_work(&entry.kind)) {
            self.crew.ledger.worked(&self.seat.name);
        }
        let outcome = match judge(&done.ended.verdict, &did, tools, self.stop.is_cancelled()) {
            Judged::Done { said } => self.succeeds(&done, said).await?,
            Judged::Interrupted => self.is_interrupted(&done, asked).await?,
            Judged::Failed(failure) => self.fails(&done, asked, failure).await?,
        };
        let failed = match &outcome {
            TurnOutcome::GivenUp { reason, .. } => Some(reason.clone()),
            TurnOutcome::Done | TurnOutcome::Again { .. } | TurnOutcome::Interrupted => None,
        };
        self.crew.board.worked(&self.seat.name, usage, failed);
        let agent = self.crew.board.standing(&self.seat.name);
        self.crew.reports.tell(Report::TurnEnded { agent, attempt: done.attempt, outcome, usage, took: done.took });
        Ok(())
    }

    /// What the log says that the agent did in the turn.
    async fn did(&self, turn: &str) -> Result<Vec<TurnActivityEntry>, TeamError> {
        match self.at_last(self.crew.client.turn(turn)).await {
            Some(Ok(turn)) => Ok(turn.did),
            Some(Err(error)) => Err(error.into()),
            None => Ok(Vec::new()),
        }
    }

    async fn succeeds(&mut self, done: &Turned, said: Option<String>) -> Result<TurnOutcome, TeamError> {
        self.attempts.over();
        let end = EndTurn { said, ..self.end(done, wire::Outcome::Done).await };
        self.close(&done.id, end).await?;
        Ok(TurnOutcome::Done)
    }

    async fn is_interrupted(&mut self, done: &Turned, asked: Asked) -> Result<TurnOutcome, TeamError> {
        self.attempts.interrupted();
        self.again = Some(again(done, asked, "it was interrupted".to_owned(), self.crew.clock.now()));
        let end = self.end(done, wire::Outcome::Interrupted).await;
        self.close(&done.id, end).await?;
        Ok(TurnOutcome::Interrupted)
    }

    async fn fails(&mut self, done: &Turned, asked: Asked, failure: Failure) -> Result<TurnOutcome, TeamError> {
        let Failure { why, reason, hint } = failure;
        let reason: String = reason.chars().take(REASON_LETTERS).collect();
        let next = self.attempts.failed(why);
        let error = wire::Error { message: reason.clone(), hint: hint.clone(), kind: kind(why).to_owned() };
        let last = next == Next::GiveUp;
        let end = EndTurn { error: Some(error), last, ..self.end(done, wire::Outcome::Failed).await };
        self.close(&done.id, end).await?;
        let now = self.crew.clock.now();
        match next {
            Next::GiveUp => {
                self.attempts.over();
                self.give_up(&asked.messages);
                self.crew.ledger.gave_up(&self.seat.name, &reason);
                Ok(TurnOutcome::GivenUp { reason, hint })
            }
            Next::Again { after } => {
                let account = self.backend.account();
                if let Why::Limited { .. } = why
                    && self.crew.ledger.pause(&account, now.saturating_add(after), &reason)
                {
                    let text = format!("everybody who uses {account} waits {} s: {reason}", after.as_secs());
                    self.crew.reports.note(Some(&self.seat.name), Level::Warning, text);
                }
                self.again = Some(again(done, asked, reason.clone(), now.saturating_add(after)));
                Ok(TurnOutcome::Again { reason, hint, after })
            }
        }
    }

    /// What every end of a turn says.
    async fn end(&self, done: &Turned, outcome: wire::Outcome) -> EndTurn {
        let Usage { input_tokens, output_tokens, cost_usd } = done.ended.usage;
        EndTurn {
            outcome,
            error: None,
            last: false,
            usage: wire::Usage { input_tokens, output_tokens, cost_usd },
            conversation: done.ended.conversation.clone(),
            transcript: self.keep_transcript(done).await,
            said: None,
        }
    }

    /// Keeps what the program wrote as an artifact. Without it the turn is what it is.
    async fn keep_transcript(&self, done: &Turned) -> Option<String> {
        let path = done.ended.transcript.as_ref()?;
        match self.at_last(kept(&self.crew.client, path)).await? {
            Ok(hash) => Some(hash),
            Err(error) => {
                let text = format!("what its program wrote is in {} only: {error}", path.display());
                self.crew.reports.note(Some(&self.seat.name), Level::Warning, text);
                None
            }
        }
    }

    async fn close(&self, turn: &str, end: EndTurn) -> Result<(), TeamError> {
        match self.at_last(self.crew.client.end_turn(turn, &end)).await {
            // Whoever comes next ends what has no end.
            None => Ok(()),
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Waits for the daemon as long as it takes; when all is about to end, not for long.
    async fn at_last<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let ending = async {
            self.stop.cancelled().await;
            tokio::time::sleep(SHUTDOWN_GRACE).await;
        };
        tokio::select! {
            biased;
            answer = call => Some(answer),
            () = ending => None,
        }
    }
}

/// A turn whose program has ended.
struct Turned {
    id: String,
    attempt: u32,
    ended: BackendOutcome,
    took: Duration,
}

#[derive(Debug, PartialEq)]
enum Judged {
    Done { said: Option<String> },
    Failed(Failure),
    Interrupted,
}

/// What came of a turn, by what its backend reported and what the log shows. What was said is posted only if the agent sent
/// nothing itself; and a turn of nothing at all is a failure.
fn judge(verdict: &TurnVerdict, did: &[TurnActivityEntry], tools: bool, stopping: bool) -> Judged {
    match verdict {
        TurnVerdict::Failed(Failure { why: Why::Cancelled, .. }) => Judged::Interrupted,
        TurnVerdict::Failed(_) if stopping => Judged::Interrupted,
        TurnVerdict::Failed(failure) => Judged::Failed(failure.clone()),
        TurnVerdict::Done { said, worked } => {
            let said = said.clone().filter(|said| !said.trim().is_empty());
            if said.is_none() && !worked && !tools && did.is_empty() {
                return Judged::Failed(Failure {
                    why: Why::Fault,
                    reason: "it ended its turn without saying or doing anything".to_owned(),
                    hint: Some("see what its program printed, in the transcript of the turn".to_owned()),
                });
            }
            let sent = did.iter().any(|entry| is_sent(&entry.kind));
            Judged::Done { said: said.filter(|_| !sent) }
        }
    }
}

/// Why a transcript is no artifact.
#[derive(Debug, thiserror::Error)]
enum NotKept {
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error(transparent)]
    Daemon(#[from] ClientError),
}

async fn kept(client: &Client, path: &Path) -> Result<String, NotKept> {
    Ok(client.keep(tokio::fs::read(path).await?).await?)
}

fn again(done: &Turned, asked: Asked, why: String, due: Duration) -> Again {
    Again {
        turn: done.id.clone(),
        unknown: Vec::new(),
        why,
        ids: asked.messages.iter().map(|message| message.entry.id.clone()).collect(),
        messages: Some(asked.messages),
        was_alarm: asked.by == By::Alarm,
        due,
    }
}

fn failed(failure: Failure) -> BackendOutcome {
    BackendOutcome {
        verdict: TurnVerdict::Failed(failure),
        conversation: None,
        usage: Usage::default(),
        transcript: None,
    }
}

/// A word for programs.
fn kind(why: Why) -> &'static str {
    match why {
        Why::Fault => "fault",
        Why::Hopeless => "hopeless",
        Why::Limited { .. } => LIMITED,
        Why::TimedOut => "timed_out",
        Why::Cancelled => "cancelled",
    }
}

/// How a turn is marked in the log that failed because an account was out of requests.
pub(super) const LIMITED: &str = "limited";

/// Returns when a turn should have ended by itself, and did not.
async fn overdue(timeout: Duration, cancel: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(timeout) => {}
    }
    tokio::time::sleep(ENDING).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(said: Option<&str>, worked: bool) -> TurnVerdict {
        TurnVerdict::Done { said: said.map(str::to_owned), worked }
    }

    fn entry(kind: &str) -> TurnActivityEntry {
        TurnActivityEntry { seq: 1, kind: kind.to_owned(), summary: String::new() }
    }

    fn said(text: Option<&str>) -> Judged {
        Judged::Done { said: text.map(str::to_owned) }
    }

    #[test]
    fn what_an_agent_says_last_is_posted_unless_it_sent_something() {
        assert_eq!(judge(&done(Some("hi"), false), &[], false, false), said(Some("hi")));
        assert_eq!(judge(&done(Some("hi"), true), &[entry("message.sent")], true, false), said(None));
        assert_eq!(judge(&done(Some("hi"), true), &[entry("task.claimed")], true, false), said(Some("hi")));
        assert_eq!(judge(&done(Some(" \n"), true), &[], false, false), said(None));
    }

    #[test]
    fn a_turn_of_nothing_at_all_is_a_failure() {
        let nothing = judge(&done(None, false), &[], false, false);
        assert!(matches!(nothing, Judged::Failed(Failure { why: Why::Fault, .. })), "{nothing:?}");
        assert_eq!(judge(&done(None, true), &[], false, false), said(None));
        assert_eq!(judge(&done(None, false), &[], true, false), said(None), "it called a tool");
        assert_eq!(judge(&done(None, false), &[entry("message.acked")], false, false), said(None));
    }

    #[test]
    fn whoever_is_stopped_did_not_fail() {
        let failure = |why| TurnVerdict::Failed(Failure { why, reason: "r".to_owned(), hint: None });
        assert_eq!(judge(&failure(Why::Cancelled), &[], false, false), Judged::Interrupted);
        assert_eq!(judge(&failure(Why::Fault), &[], false, true), Judged::Interrupted);
        assert!(matches!(judge(&failure(Why::Fault), &[], false, false), Judged::Failed(_)));
        assert_eq!(judge(&done(Some("hi"), true), &[], false, true), said(Some("hi")), "it was done all the same");
    }
}
