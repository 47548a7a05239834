//! The loop of one agent: checks the inbox, decides, and runs a turn or waits, until it is stopped.
//!
//! Wake-ups only reduce delays: the inbox is also polled, so that a lost wake-up costs time and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::TeamError;
use super::board::Phase;
use super::crew::Crew;
use super::decide::alarm::RunnerAlarm;
use super::decide::attempts::Attempts;
use super::decide::inbox::still_open;
use super::ledger::{Admission, TurnRequest};
use super::report::AgentState;
use super::seats;
use crate::backend::{Backend, Seat};
use crate::file::Agent;
use crate::turn::{InboxDepth, TurnMessage, count_fitting};

/// Interval for checking the inbox without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// An agent that is ready to work.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) crew: Arc<Crew>,
    pub(super) agent: Agent,
    pub(super) seat: Seat,
    pub(super) backend: Box<dyn Backend>,
    pub(super) system: String,
    pub(super) attempts: Attempts,
    /// The turn to retry.
    pub(super) again: Option<RetryTurn>,
    pub(super) alarm: Option<RunnerAlarm>,
    /// The time of its last activity.
    pub(super) active: Duration,
    pub(super) conversation: Option<String>,
    pub(super) wake: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

/// An unsuccessful turn that is retried.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RetryTurn {
    /// The previous turn.
    pub(super) turn: String,
    /// Turns with unknown progress because their runner died, newest first.
    pub(super) unknown: Vec<String>,
    pub(super) why: String,
    /// The messages of the turn; `None` after a restart.
    pub(super) messages: Option<Vec<TurnMessage>>,
    /// The ids of its messages.
    pub(super) ids: Vec<String>,
    pub(super) was_alarm: bool,
    pub(super) due: Duration,
}

/// The work of a turn.
#[derive(Debug)]
pub(super) struct TurnWork {
    pub(super) by: TurnTrigger,
    pub(super) messages: Vec<TurnMessage>,
    /// Number of messages that wait for the next turn.
    pub(super) waiting: usize,
    pub(super) again: Option<RetryTurn>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TurnTrigger {
    Messages,
    Alarm,
    /// A retry without open messages: the agent acknowledged them itself before its attempt failed.
    Nothing,
}

/// The next step of the loop.
enum NextStep {
    Turn(TurnWork),
    Rest(Phase, Duration),
}

impl Member {
    pub(super) async fn run(mut self) -> Result<(), TeamError> {
        let name = self.seat.name.clone();
        // An error ends the whole team, so the agent is not reported as stopped.
        self.work().await?;
        self.crew.board.set_stopped(&name);
        // The end of the whole team is reported once, not for each agent.
        if !self.crew.stop.is_cancelled() {
            self.crew.report_status(&name);
            let leaving = seats::leave(&self.crew.client, &self.seat.id);
            // If this fails, the end of the team unregisters the agent.
            drop(self.crew.stop.run_until_cancelled(leaving).await);
        }
        Ok(())
    }

    async fn work(&mut self) -> Result<(), TeamError> {
        while !self.stop.is_cancelled() {
            let woken = self.crew.board.woken(&self.seat.name);
            // Messages of a retry were shown before, and so may be far behind.
            let depth = if self.again.is_some() { InboxDepth::Everything } else { InboxDepth::OneTurn };
            let looking = self.crew.unread(&self.seat.name, &self.seat.tools, depth);
            let looked = self.stop.run_until_cancelled(looking).await;
            let Some(unread) = looked else { break };
            match self.decide(unread?).await? {
                NextStep::Turn(work) => self.turn(work, woken).await?,
                NextStep::Rest(phase, time) => self.rest(woken, phase, time).await,
            }
        }
        Ok(())
    }

    async fn rest(&mut self, woken: u64, phase: Phase, time: Duration) {
        if self.crew.board.set_phase(&self.seat.name, woken, phase) {
            self.crew.report_status(&self.seat.name);
        }
        tokio::select! {
            () = self.wake.notified() => {}
            () = tokio::time::sleep(time.min(POLL_INTERVAL)) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn decide(&mut self, unread: Vec<TurnMessage>) -> Result<NextStep, TeamError> {
        let now = self.crew.clock.now();
        let due_in = self.alarm.as_ref().map(|alarm| {
            let idle = now.saturating_sub(self.active);
            alarm.due_in(idle, &self.crew.clock.wall_time())
        });
        let is_due = due_in.is_some_and(|time| time.is_zero()) && self.crew.may_wake_on_schedule(&self.seat.name);
        let due_in = due_in.filter(|time| !time.is_zero());
        if self.again.is_none() && unread.is_empty() && !is_due {
            return Ok(NextStep::Rest(Phase::Idle, due_in.unwrap_or(Duration::MAX)));
        }
        if let Some(most) = self.agent.max_turns.filter(|most| self.crew.board.turns(&self.seat.name) >= *most) {
            return Ok(self.hold(format!("{} has had its {most} turns (max_turns)", self.seat.name)).await);
        }
        if let Some(again) = self.again.as_ref().filter(|again| again.due > now) {
            let (why, time) = (format!("attempt {} follows", self.attempts.next()), again.due.saturating_sub(now));
            return Ok(NextStep::Rest(Phase::Waiting(AgentState::Waiting { why, time }), time));
        }
        if let Some((time, why)) = self.crew.ledger.pause_of(&self.backend.account(), now) {
            return Ok(NextStep::Rest(Phase::Waiting(AgentState::Waiting { why, time }), time));
        }
        let asking = self.crew.pause_reason(&self.seat.name, &self.seat.id);
        let Some(paused) = self.stop.run_until_cancelled(asking).await else {
            return Ok(NextStep::Rest(Phase::Idle, Duration::ZERO));
        };
        if let Some(why) = paused? {
            return Ok(NextStep::Rest(Phase::Paused { why }, Duration::MAX));
        }
        let work = self.next_work(unread, is_due);
        Ok(self.admit(work, now).await)
    }

    /// Chooses the work of the next turn.
    fn next_work(&mut self, unread: Vec<TurnMessage>, is_due: bool) -> TurnWork {
        if let Some(again) = self.again.take() {
            return retry_work(again, unread);
        }
        let by = if unread.is_empty() && is_due { TurnTrigger::Alarm } else { TurnTrigger::Messages };
        let shown = count_fitting(&unread);
        let waiting = unread.len() - shown;
        TurnWork { by, messages: unread.into_iter().take(shown).collect(), waiting, again: None }
    }

    async fn admit(&mut self, work: TurnWork, now: Duration) -> NextStep {
        let senders: Vec<_> = work.messages.iter().map(|message| self.crew.sender(&message.entry.from)).collect();
        let wakes = if work.again.is_some() { TurnRequest::Retry } else { TurnRequest::WokenBy(&senders) };
        match self.crew.ledger.admit(&self.seat.name, wakes, now) {
            Admission::Granted => NextStep::Turn(work),
            Admission::Limit { reached, news } => {
                self.again = work.again;
                if news {
                    self.crew.fail_with_note(None, &format!("no further turn begins: {reached}")).await;
                }
                NextStep::Rest(Phase::Held { why: reached.to_string() }, Duration::MAX)
            }
            Admission::Loop { with, news } => {
                let others: Vec<&str> = with.iter().map(String::as_str).collect();
                let with = others.join(", ");
                let why = format!("a loop with {with}");
                if news {
                    let name = &self.seat.name;
                    let reason = format!(
                        "{name} is held: it is in a loop with {with}, and all of them only talk. \
                         A message from outside the loop releases it."
                    );
                    self.crew.fail_with_note(Some(name), &reason).await;
                }
                NextStep::Rest(Phase::Held { why }, Duration::MAX)
            }
        }
    }

    async fn hold(&self, why: String) -> NextStep {
        let held = Phase::Held { why: why.clone() };
        if self.crew.board.status(&self.seat.name).state != (AgentState::Held { why: why.clone() }) {
            self.crew.fail_with_note(Some(&self.seat.name), &format!("{why}, and has unfinished work")).await;
        }
        NextStep::Rest(held, Duration::MAX)
    }
}

/// Returns the work of a retry: that of the previous attempt, without messages that arrived since.
fn retry_work(again: RetryTurn, unread: Vec<TurnMessage>) -> TurnWork {
    let open = match &again.messages {
        Some(before) => still_open(before, &unread),
        None => unread.iter().filter(|message| again.ids.contains(&message.entry.id)).cloned().collect(),
    };
    let waiting = unread.len().saturating_sub(open.len());
    let by = match (&again.messages, open.is_empty()) {
        (_, _) if again.was_alarm => TurnTrigger::Alarm,
        (_, false) => TurnTrigger::Messages,
        (_, true) => TurnTrigger::Nothing,
    };
    let messages = if open.is_empty() { again.messages.clone().unwrap_or_default() } else { open };
    TurnWork { by, messages, waiting, again: Some(again) }
}
