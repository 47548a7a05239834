//! One turn of an agent: builds its prompt, runs its backend, judges the result, and settles its messages.

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
use super::member::{Member, RetryTurn, TurnTrigger, TurnWork};
use super::report::{Level, Report, ReportedCause, TurnResult};
use crate::backend::{self, BackendEvent, BackendOutcome, Events, Failure, TurnVerdict, Usage, Why};
use crate::turn::{EarlierAttempt, PromptInput, Situation, TurnMessage, WakeCause, prompt};

/// Default timeout of a turn.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Time for a backend to end after it was asked to.
const BACKEND_GRACE: Duration = Duration::from_secs(30);
/// Time to wait for the daemon during shutdown.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// Maximum number of events that wait for the screen.
const EVENT_CAPACITY: usize = 256;
/// Maximum number of interrupted turns whose actions are in a prompt.
const TURNS_BACK: usize = 5;
/// The daemon's code for messages that a turn can no longer be about.
const NOT_OPEN: &str = "INVALID_STATE";
/// The daemon's code for a paused agent.
const PAUSED: &str = "AGENT_PAUSED";
/// Maximum length of the reason for a failure.
const REASON_CHARS: usize = 2_000;

impl Member {
    /// Runs a turn. Returns an error only if it ends the whole team.
    pub(super) async fn turn(&mut self, work: TurnWork, woken: u64) -> Result<(), TeamError> {
        let attempt = self.attempts.next();
        let Some(begun) = self.begin(&work, attempt).await? else { return Ok(()) };
        if work.by == TurnTrigger::Alarm
            && let Some(alarm) = &mut self.alarm
        {
            alarm.reschedule(&self.crew.clock.wall_time());
        }
        let began = self.crew.clock.now();
        self.crew.board.begin_turn(&self.seat.name, woken);
        self.crew.reports.send(Report::TurnBegan {
            agent: self.crew.board.status(&self.seat.name),
            attempt,
            cause: if work.by == TurnTrigger::Alarm { ReportedCause::Wakeup } else { ReportedCause::Messages },
            messages: work.messages.len(),
        });
        let worked = Arc::new(AtomicBool::new(false));
        let ended = match self.backend_turn(&begun, &work, attempt).await {
            Ok(turn) => self.run_backend(&turn, &worked).await,
            Err(error) => failure(Failure { why: Why::Fault, reason: error.to_string(), hint: Some(error.hint()) }),
        };
        let done = FinishedTurn { id: begun.turn, attempt, ended, took: self.crew.clock.now().saturating_sub(began) };
        self.finish_turn(done, work, worked.load(Ordering::Relaxed)).await
    }

    /// Opens the turn in the log. Returns `None` if its work is obsolete or must wait.
    async fn begin(&mut self, work: &TurnWork, attempt: u32) -> Result<Option<wire::Turn>, TeamError> {
        let is_open = work.by != TurnTrigger::Nothing;
        let ids = work.messages.iter().filter(|_| is_open).map(|message| message.entry.id.clone());
        let start = StartTurn {
            agent: self.seat.id.to_string(),
            attempt,
            messages: ids.collect(),
            cause: match work.by {
                TurnTrigger::Messages => wire::TurnStartCause::Messages,
                TurnTrigger::Alarm => wire::TurnStartCause::Wakeup,
                TurnTrigger::Nothing => wire::TurnStartCause::Direct,
            },
            team: self.crew.team.to_string(),
            generation: self.crew.generation,
        };
        match self.stop.run_until_cancelled(self.crew.client.start_turn(&start)).await {
            None => Ok(None),
            Some(Ok(turn)) => Ok(Some(turn)),
            // Its messages were acknowledged meanwhile, or given up before a restart.
            Some(Err(error)) if error.code() == Some(NOT_OPEN) && work.by == TurnTrigger::Messages => {
                self.attempts.reset();
                self.give_up(&work.messages);
                Ok(None)
            }
            // The agent was paused just now, so its work waits.
            Some(Err(error)) if error.code() == Some(PAUSED) => {
                self.again.clone_from(&work.again);
                self.crew.board.mark_maybe_paused(&self.seat.name);
                Ok(None)
            }
            Some(Err(error)) => Err(error.into()),
        }
    }

    fn give_up(&self, messages: &[TurnMessage]) {
        self.crew.ledger.give_up(&self.seat.name, messages.iter().map(|message| message.entry.id.as_str()));
    }

    /// Builds the turn for the backend.
    async fn backend_turn(
        &self,
        begun: &wire::Turn,
        work: &TurnWork,
        attempt: u32,
    ) -> Result<backend::Turn, ClientError> {
        let prompt =
            if self.backend.reads_prompts() { self.prompt(begun, work, attempt).await? } else { String::new() };
        let repeats = work.again.as_ref().map(|again| again.unknown.clone()).unwrap_or_default();
        Ok(backend::Turn {
            id: begun.turn.clone(),
            attempt,
            repeats,
            system: self.system.clone(),
            prompt,
            inbox: work.messages.iter().map(TurnMessage::to_waking_message).collect(),
            conversation: self.conversation.clone(),
            timeout: self.agent.timeout.unwrap_or(DEFAULT_TIMEOUT),
            cancel: self.stop.child_token(),
        })
    }

    async fn prompt(&self, begun: &wire::Turn, work: &TurnWork, attempt: u32) -> Result<String, ClientError> {
        let situation = Situation::load(&self.crew.ready, &self.seat).await?;
        let earlier = match &work.again {
            None => None,
            Some(again) => {
                Some(EarlierAttempt { attempt, why: again.why.clone(), did: self.earlier_actions(again).await? })
            }
        };
        let cause = match work.by {
            TurnTrigger::Alarm => {
                WakeCause::Wakeup(self.agent.wakeup_prompt.as_ref().map(|text| self.seat.variables.fill(text)))
            }
            TurnTrigger::Messages | TurnTrigger::Nothing => WakeCause::Messages,
        };
        Ok(prompt(&PromptInput {
            turn: &begun.turn,
            cause,
            inbox: &work.messages,
            waiting: work.waiting,
            earlier,
            situation: &situation,
        }))
    }

    /// Lists the actions of earlier attempts according to the log, in order: those of the last attempt, or of all attempts with
    /// an unknown end.
    async fn earlier_actions(&self, again: &RetryTurn) -> Result<Vec<String>, ClientError> {
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

    /// Runs the turn on the backend and reports its events. Returns even if the backend never does.
    async fn run_backend(&self, turn: &backend::Turn, worked: &AtomicBool) -> BackendOutcome {
        let (events, mut receiver) = Events::with_capacity(EVENT_CAPACITY);
        let (name, reports) = (self.seat.name.clone(), self.crew.reports.clone());
        let report = |event: BackendEvent| {
            if matches!(&event, BackendEvent::Tool { name, .. } if is_work_tool(name)) {
                worked.store(true, Ordering::Relaxed);
            }
            reports.send(Report::During { agent: name.clone(), event });
        };
        let running = async {
            tokio::select! {
                ended = self.backend.turn(turn, &events) => ended,
                () = overdue(turn.timeout, &turn.cancel) => failure(Failure {
                    why: if turn.cancel.is_cancelled() { Why::Cancelled } else { Why::TimedOut },
                    reason: "the backend did not end in time after it was asked to".to_owned(),
                    hint: None,
                }),
            }
        };
        tokio::pin!(running);
        // Other senders of events, such as the proxy of a sandbox, outlive the turn, so the channel does not close.
        let ended = loop {
            tokio::select! {
                ended = &mut running => break ended,
                Some(event) = receiver.recv() => report(event),
            }
        };
        while let Ok(event) = receiver.try_recv() {
            report(event);
        }
        ended
    }

    /// Judges the turn and closes it in the log.
    async fn finish_turn(&mut self, done: FinishedTurn, work: TurnWork, tools: bool) -> Result<(), TeamError> {
        let usage = done.ended.usage;
        self.active = self.crew.clock.now();
        if done.ended.conversation.is_some() {
            self.conversation.clone_from(&done.ended.conversation);
        }
        self.crew.ledger.add_cost(usage.cost_usd);
        let did = self.actions(&done.id).await?;
        if tools || did.iter().any(|entry| is_work(&entry.kind)) {
            self.crew.ledger.record_work(&self.seat.name);
        }
        let outcome = match judge(&done.ended.verdict, &did, tools, self.stop.is_cancelled()) {
            TurnJudgement::Done { said } => self.end_done(&done, said).await?,
            TurnJudgement::Interrupted => self.end_interrupted(&done, work).await?,
            TurnJudgement::Failed(failure) => self.end_failed(&done, work, failure).await?,
        };
        let failed = match &outcome {
            TurnResult::GivenUp { reason, .. } => Some(reason.clone()),
            TurnResult::Done | TurnResult::Retry { .. } | TurnResult::Interrupted => None,
        };
        self.crew.board.end_turn(&self.seat.name, usage, failed);
        let agent = self.crew.board.status(&self.seat.name);
        self.crew.reports.send(Report::TurnEnded { agent, attempt: done.attempt, outcome, usage, took: done.took });
        Ok(())
    }

    /// Lists the agent's actions in the turn according to the log.
    async fn actions(&self, turn: &str) -> Result<Vec<TurnActivityEntry>, TeamError> {
        match self.until_shutdown(self.crew.client.turn(turn)).await {
            Some(Ok(turn)) => Ok(turn.did),
            Some(Err(error)) => Err(error.into()),
            None => Ok(Vec::new()),
        }
    }

    async fn end_done(&mut self, done: &FinishedTurn, said: Option<String>) -> Result<TurnResult, TeamError> {
        self.attempts.reset();
        let end = EndTurn { said, ..self.end(done, wire::TurnEndOutcome::Done).await };
        self.close(&done.id, end).await?;
        Ok(TurnResult::Done)
    }

    async fn end_interrupted(&mut self, done: &FinishedTurn, work: TurnWork) -> Result<TurnResult, TeamError> {
        self.attempts.count_interrupted();
        self.again = Some(retry(done, work, "it was interrupted".to_owned(), self.crew.clock.now()));
        let end = self.end(done, wire::TurnEndOutcome::Interrupted).await;
        self.close(&done.id, end).await?;
        Ok(TurnResult::Interrupted)
    }

    async fn end_failed(
        &mut self,
        done: &FinishedTurn,
        work: TurnWork,
        failure: Failure,
    ) -> Result<TurnResult, TeamError> {
        let Failure { why, reason, hint } = failure;
        let reason: String = reason.chars().take(REASON_CHARS).collect();
        let next = self.attempts.count_failure(why);
        let error = wire::Error { message: reason.clone(), hint: hint.clone(), kind: kind(why).to_owned() };
        let last = next == Next::GiveUp;
        let end = EndTurn { error: Some(error), last, ..self.end(done, wire::TurnEndOutcome::Failed).await };
        self.close(&done.id, end).await?;
        let now = self.crew.clock.now();
        match next {
            Next::GiveUp => {
                self.attempts.reset();
                self.give_up(&work.messages);
                self.crew.ledger.fail_by_giving_up(&self.seat.name, &reason);
                Ok(TurnResult::GivenUp { reason, hint })
            }
            Next::Retry { after } => {
                let account = self.backend.account();
                if let Why::Limited { .. } = why
                    && self.crew.ledger.pause(&account, now.saturating_add(after), &reason)
                {
                    let text = format!("all agents that use {account} wait {} s: {reason}", after.as_secs());
                    self.crew.reports.note(Some(&self.seat.name), Level::Warning, text);
                }
                self.again = Some(retry(done, work, reason.clone(), now.saturating_add(after)));
                Ok(TurnResult::Retry { reason, hint, after })
            }
        }
    }

    /// Creates the request that ends a turn.
    async fn end(&self, done: &FinishedTurn, outcome: wire::TurnEndOutcome) -> EndTurn {
        let Usage { input_tokens, output_tokens, cost_usd } = done.ended.usage;
        EndTurn {
            outcome,
            error: None,
            last: false,
            usage: wire::ReportedUsage { input_tokens, output_tokens, cost_usd },
            conversation: done.ended.conversation.clone(),
            transcript: self.keep_transcript(done).await,
            said: None,
        }
    }

    /// Uploads the program's output as an artifact. A failure does not affect the turn.
    async fn keep_transcript(&self, done: &FinishedTurn) -> Option<String> {
        let path = done.ended.transcript.as_ref()?;
        match self.until_shutdown(upload(&self.crew.client, path)).await? {
            Ok(hash) => Some(hash),
            Err(error) => {
                let text = format!("could not upload the transcript, which remains in {}: {error}", path.display());
                self.crew.reports.note(Some(&self.seat.name), Level::Warning, text);
                None
            }
        }
    }

    async fn close(&self, turn: &str, end: EndTurn) -> Result<(), TeamError> {
        match self.until_shutdown(self.crew.client.end_turn(turn, &end)).await {
            // The next runner ends turns that have no end.
            None => Ok(()),
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Waits for the daemon as long as it takes, but only [`SHUTDOWN_GRACE`] once the agent is being stopped.
    async fn until_shutdown<T>(&self, call: impl Future<Output = T>) -> Option<T> {
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
struct FinishedTurn {
    id: String,
    attempt: u32,
    ended: BackendOutcome,
    took: Duration,
}

#[derive(Debug, PartialEq)]
enum TurnJudgement {
    Done { said: Option<String> },
    Failed(Failure),
    Interrupted,
}

/// Judges a turn by its backend's verdict and the actions in the log. The last output is posted only if the agent sent no
/// message itself. A turn without output and actions is a failure.
fn judge(verdict: &TurnVerdict, did: &[TurnActivityEntry], tools: bool, stopping: bool) -> TurnJudgement {
    match verdict {
        TurnVerdict::Failed(Failure { why: Why::Cancelled, .. }) => TurnJudgement::Interrupted,
        TurnVerdict::Failed(_) if stopping => TurnJudgement::Interrupted,
        TurnVerdict::Failed(failure) => TurnJudgement::Failed(failure.clone()),
        TurnVerdict::Done { said, worked } => {
            let said = said.clone().filter(|said| !said.trim().is_empty());
            if said.is_none() && !worked && !tools && did.is_empty() {
                return TurnJudgement::Failed(Failure {
                    why: Why::Fault,
                    reason: "it ended its turn without output or action".to_owned(),
                    hint: Some("see the program's output in the transcript of the turn".to_owned()),
                });
            }
            let sent = did.iter().any(|entry| is_sent(&entry.kind));
            TurnJudgement::Done { said: said.filter(|_| !sent) }
        }
    }
}

/// The reason why a transcript could not be uploaded.
#[derive(Debug, thiserror::Error)]
enum UploadError {
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error(transparent)]
    Daemon(#[from] ClientError),
}

async fn upload(client: &Client, path: &Path) -> Result<String, UploadError> {
    Ok(client.upload_artifact(tokio::fs::read(path).await?).await?)
}

fn retry(done: &FinishedTurn, work: TurnWork, why: String, due: Duration) -> RetryTurn {
    RetryTurn {
        turn: done.id.clone(),
        unknown: Vec::new(),
        why,
        ids: work.messages.iter().map(|message| message.entry.id.clone()).collect(),
        messages: Some(work.messages),
        was_alarm: work.by == TurnTrigger::Alarm,
        due,
    }
}

fn failure(failure: Failure) -> BackendOutcome {
    BackendOutcome {
        verdict: TurnVerdict::Failed(failure),
        conversation: None,
        usage: Usage::default(),
        transcript: None,
    }
}

/// The kind of a failure in the log.
fn kind(why: Why) -> &'static str {
    match why {
        Why::Fault => "fault",
        Why::Hopeless => "hopeless",
        Why::Limited { .. } => LIMITED,
        Why::TimedOut => "timed_out",
        Why::Cancelled => "cancelled",
    }
}

/// The kind of a failure because of an account's rate limit.
pub(super) const LIMITED: &str = "limited";

/// Returns when a turn should have ended by itself but did not.
async fn overdue(timeout: Duration, cancel: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(timeout) => {}
    }
    tokio::time::sleep(BACKEND_GRACE).await;
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

    fn said(text: Option<&str>) -> TurnJudgement {
        TurnJudgement::Done { said: text.map(str::to_owned) }
    }

    #[test]
    fn last_output_is_posted_unless_the_agent_sent_a_message() {
        assert_eq!(judge(&done(Some("hi"), false), &[], false, false), said(Some("hi")));
        assert_eq!(judge(&done(Some("hi"), true), &[entry("message.sent")], true, false), said(None));
        assert_eq!(judge(&done(Some("hi"), true), &[entry("task.claimed")], true, false), said(Some("hi")));
        assert_eq!(judge(&done(Some(" \n"), true), &[], false, false), said(None));
    }

    #[test]
    fn turn_without_output_and_action_fails() {
        let nothing = judge(&done(None, false), &[], false, false);
        assert!(matches!(nothing, TurnJudgement::Failed(Failure { why: Why::Fault, .. })), "{nothing:?}");
        assert_eq!(judge(&done(None, true), &[], false, false), said(None));
        assert_eq!(judge(&done(None, false), &[], true, false), said(None), "it called a tool");
        assert_eq!(judge(&done(None, false), &[entry("message.acked")], false, false), said(None));
    }

    #[test]
    fn failure_of_stopped_turn_is_an_interruption() {
        let failure = |why| TurnVerdict::Failed(Failure { why, reason: "r".to_owned(), hint: None });
        assert_eq!(judge(&failure(Why::Cancelled), &[], false, false), TurnJudgement::Interrupted);
        assert_eq!(judge(&failure(Why::Fault), &[], false, true), TurnJudgement::Interrupted);
        assert!(matches!(judge(&failure(Why::Fault), &[], false, false), TurnJudgement::Failed(_)));
        assert_eq!(judge(&done(Some("hi"), true), &[], false, true), said(Some("hi")), "it was done all the same");
    }
}
