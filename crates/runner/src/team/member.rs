//! One agent's loop: look at the inbox, decide, have a turn or rest, until it is stopped.
//!
//! What wakes it only makes it look sooner. It looks by itself now and then, so that a lost wake-up costs time and nothing else.

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
use super::ledger::{Admission, Wakes};
use super::report::State;
use super::seats;
use crate::backend::{Backend, Seat};
use crate::file::Agent;
use crate::turn::{InboxDepth, Message, shown_in_one_turn};

/// How often an agent that nobody woke looks at its inbox.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// An agent at its place.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) crew: Arc<Crew>,
    pub(super) agent: Agent,
    pub(super) seat: Seat,
    pub(super) backend: Box<dyn Backend>,
    pub(super) system: String,
    pub(super) attempts: Attempts,
    /// What is tried again.
    pub(super) again: Option<Again>,
    pub(super) alarm: Option<RunnerAlarm>,
    /// When it last did something.
    pub(super) active: Duration,
    pub(super) conversation: Option<String>,
    pub(super) wake: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

/// A turn that came to nothing and is made again.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Again {
    /// The turn before.
    pub(super) turn: String,
    /// Those of which nobody knows how far they came, because their runner died, the newest first.
    pub(super) unknown: Vec<String>,
    pub(super) why: String,
    /// What it was about; not known after a restart.
    pub(super) messages: Option<Vec<Message>>,
    /// The ids of that.
    pub(super) ids: Vec<String>,
    pub(super) was_alarm: bool,
    pub(super) due: Duration,
}

/// What a turn is about.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) by: By,
    pub(super) messages: Vec<Message>,
    /// How many other messages wait for the next one.
    pub(super) waiting: usize,
    pub(super) again: Option<Again>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    Messages,
    Alarm,
    /// It acknowledged its messages in an attempt that failed then, so that they are in no inbox any more.
    Nothing,
}

/// What to do next.
enum Step {
    Turn(Asked),
    Rest(Phase, Duration),
}

impl Member {
    pub(super) async fn run(mut self) -> Result<(), TeamError> {
        let name = self.seat.name.clone();
        // What ends the whole team is told as that, and not as if somebody had stopped the agent.
        self.work().await?;
        self.crew.board.stopped(&name);
        // When all of them stop, that is told once.
        if !self.crew.stop.is_cancelled() {
            self.crew.tell_standing(&name);
            let leaving = seats::leave(&self.crew.client, &self.seat.id);
            // If not by this, it leaves with its team.
            let _left = self.crew.stop.run_until_cancelled(leaving).await;
        }
        Ok(())
    }

    async fn work(&mut self) -> Result<(), TeamError> {
        while !self.stop.is_cancelled() {
            let woken = self.crew.board.woken(&self.seat.name);
            // What is tried again has been told before.
            let reach = if self.again.is_some() { InboxDepth::Everything } else { InboxDepth::OneTurn };
            let looking = self.crew.unread(&self.seat.name, &self.seat.tools, reach);
            let looked = self.stop.run_until_cancelled(looking).await;
            let Some(unread) = looked else { break };
            match self.decide(unread?).await? {
                Step::Turn(asked) => self.turn(asked, woken).await?,
                Step::Rest(phase, time) => self.rest(woken, phase, time).await,
            }
        }
        Ok(())
    }

    async fn rest(&mut self, woken: u64, phase: Phase, time: Duration) {
        if self.crew.board.rests(&self.seat.name, woken, phase) {
            self.crew.tell_standing(&self.seat.name);
        }
        tokio::select! {
            () = self.wake.notified() => {}
            () = tokio::time::sleep(time.min(POLL_INTERVAL)) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn decide(&mut self, unread: Vec<Message>) -> Result<Step, TeamError> {
        let now = self.crew.clock.now();
        let ringing = self.alarm.as_ref().map(|alarm| {
            let idle = now.saturating_sub(self.active);
            alarm.rings_in(idle, &self.crew.clock.zoned())
        });
        let rings = ringing.is_some_and(|time| time.is_zero()) && self.crew.may_ring(&self.seat.name);
        let ringing = ringing.filter(|time| !time.is_zero());
        if self.again.is_none() && unread.is_empty() && !rings {
            return Ok(Step::Rest(Phase::Idle, ringing.unwrap_or(Duration::MAX)));
        }
        if let Some(most) = self.agent.max_turns.filter(|most| self.crew.board.turns(&self.seat.name) >= *most) {
            return Ok(self.hold(format!("{} has had its {most} turns (max_turns)", self.seat.name)).await);
        }
        if let Some(again) = self.again.as_ref().filter(|again| again.due > now) {
            let (why, time) = (format!("attempt {} follows", self.attempts.next()), again.due.saturating_sub(now));
            return Ok(Step::Rest(Phase::Waiting(State::Waiting { why, time }), time));
        }
        if let Some((time, why)) = self.crew.ledger.paused(&self.backend.account(), now) {
            return Ok(Step::Rest(Phase::Waiting(State::Waiting { why, time }), time));
        }
        let asking = self.crew.paused(&self.seat.name, &self.seat.id);
        let Some(paused) = self.stop.run_until_cancelled(asking).await else {
            return Ok(Step::Rest(Phase::Idle, Duration::ZERO));
        };
        if let Some(why) = paused? {
            return Ok(Step::Rest(Phase::Paused { why }, Duration::MAX));
        }
        let asked = self.about(unread, rings);
        Ok(self.admit(asked, now).await)
    }

    /// What the next turn is about.
    fn about(&mut self, unread: Vec<Message>, rings: bool) -> Asked {
        if let Some(again) = self.again.take() {
            return once_more(again, unread);
        }
        let by = if unread.is_empty() && rings { By::Alarm } else { By::Messages };
        let shown = shown_in_one_turn(&unread);
        let waiting = unread.len() - shown;
        Asked { by, messages: unread.into_iter().take(shown).collect(), waiting, again: None }
    }

    async fn admit(&mut self, asked: Asked, now: Duration) -> Step {
        let senders: Vec<_> = asked.messages.iter().map(|message| self.crew.sender(&message.entry.from)).collect();
        let wakes = if asked.again.is_some() { Wakes::Again } else { Wakes::By(&senders) };
        match self.crew.ledger.admit(&self.seat.name, wakes, now) {
            Admission::Granted => Step::Turn(asked),
            Admission::Limit { reached, news } => {
                self.again = asked.again;
                if news {
                    self.crew.fails_by(None, &format!("no further turn begins: {reached}")).await;
                }
                Step::Rest(Phase::Held { why: reached.to_string() }, Duration::MAX)
            }
            Admission::Loop { with, news } => {
                let others: Vec<&str> = with.iter().map(String::as_str).collect();
                let with = others.join(", ");
                let why = format!("a loop with {with}");
                if news {
                    let name = &self.seat.name;
                    let reason = format!(
                        "{name} is held: it goes round in circles with {with}, and nobody of them does anything but talk. \
                         A message from somebody else lets it go on."
                    );
                    self.crew.fails_by(Some(name), &reason).await;
                }
                Step::Rest(Phase::Held { why }, Duration::MAX)
            }
        }
    }

    async fn hold(&self, why: String) -> Step {
        let held = Phase::Held { why: why.clone() };
        if self.crew.board.standing(&self.seat.name).state != (State::Held { why: why.clone() }) {
            self.crew.fails_by(Some(&self.seat.name), &format!("{why}, and there is more for it to do")).await;
        }
        Step::Rest(held, Duration::MAX)
    }
}

/// Another attempt is about what the one before was about, and nothing that came meanwhile.
fn once_more(again: Again, unread: Vec<Message>) -> Asked {
    let open = match &again.messages {
        Some(before) => still_open(before, &unread),
        None => unread.iter().filter(|message| again.ids.contains(&message.entry.id)).cloned().collect(),
    };
    let waiting = unread.len().saturating_sub(open.len());
    let by = match (&again.messages, open.is_empty()) {
        (_, _) if again.was_alarm => By::Alarm,
        (_, false) => By::Messages,
        (_, true) => By::Nothing,
    };
    let messages = if open.is_empty() { again.messages.clone().unwrap_or_default() } else { open };
    Asked { by, messages, waiting, again: Some(again) }
}
