//! Passes the log on to adapters: each gets what it can handle, in the order of the log, one after the other and again until
//! it arrives.
//!
//! Done by the node with the duty `courier`. What is settled is written down after a while, so that whoever comes after a crash
//! sends the last few again, and loses none. What fails too often, or will never be taken, is put aside where a person finds it.

use std::convert::Infallible;
use std::time::Duration;

use rookery_core::traits::LogRow;
use rookery_core::{MessageId, Position, Seq};
use rookery_store::node::{LeaderEpoch, LeaderRole};
use rookery_store::{DeadLetter, Failing, LogQuery};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::outbox::{Kept, OutboxError};
use crate::adapters::{Heading, OutboundError, Outlet, Passing};
use crate::durations::RETRY_DELAY;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::message_view::Envelopes;
use crate::subscribe::{SubscribeError, Subscription};

/// How often it is written down how far an adapter has come, and looked whether somebody wants something of it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// After so many messages it is written down too: so many are sent again at most.
const SAVE_AFTER: u32 = 32;
const ERROR_CHARS: usize = 300;

/// Passes on whenever that is for this node to do.
pub(crate) async fn run(engine: Engine) {
    if engine.config().outlets.is_empty() {
        return;
    }
    let mut duties = engine.cluster().changes();
    loop {
        let held = |tenures: &Vec<LeaderEpoch>| tenures.iter().any(|tenure| tenure.duty == LeaderRole::Courier);
        if duties.wait_for(held).await.is_err() {
            return;
        }
        let Some(tenure) = engine.cluster().leader_epoch(LeaderRole::Courier) else {
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        };
        let mut feeds = JoinSet::new();
        for outlet in &engine.config().outlets {
            feeds.spawn(keep_feeding(engine.clone(), outlet.clone()));
        }
        // All of them end when they are dropped, and begin anew if one of them broke.
        while engine.cluster().leader_epoch(LeaderRole::Courier) == Some(tenure) {
            tokio::select! {
                changed = duties.changed() => if changed.is_err() { return },
                Some(broke) = feeds.join_next() => {
                    tracing::error!(?broke, "passing messages on broke, and begins anew");
                    tokio::time::sleep(RETRY_DELAY).await;
                    break;
                }
            }
        }
    }
}

/// Notes where those adapters begin that were never here, before anything more can be said.
pub(crate) async fn prepare(engine: &Engine) -> Result<(), EngineError> {
    for outlet in &engine.config().outlets {
        Kept::load(engine, &outlet.adapter.name(), outlet.begins).await?;
    }
    Ok(())
}

async fn keep_feeding(engine: Engine, outlet: Outlet) {
    loop {
        let Err(error) = feed(&engine, &outlet).await;
        tracing::warn!(%error, adapter = outlet.adapter.name(), "passing messages on is interrupted");
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn feed(engine: &Engine, outlet: &Outlet) -> Result<Infallible, OutboxError> {
    let mut feed = Feed::begin(engine, outlet).await?;
    let mut subscription = feed.follow().await?;
    // However busy the log is, there is a look now and then.
    let mut looks = tokio::time::interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            chunk = subscription.next() => feed.take(chunk.map_err(EngineError::from)?.rows()).await?,
            _ = looks.tick(), if feed.has_something_open() => feed.look().await?,
        }
    }
}

struct Feed {
    engine: Engine,
    outlet: Outlet,
    name: String,
    kept: Kept,
    /// How many messages got through since it was written down.
    unsaved: u32,
    /// Nothing is tried before this time.
    due: u64,
}

impl Feed {
    async fn begin(engine: &Engine, outlet: &Outlet) -> Result<Feed, OutboxError> {
        let name = outlet.adapter.name();
        let kept = Kept::load(engine, &name, outlet.begins).await?;
        Ok(Feed { engine: engine.clone(), outlet: outlet.clone(), name, kept, unsaved: 0, due: 0 })
    }

    /// The log from where the adapter stands, or from what is left of it.
    async fn follow(&mut self) -> Result<Subscription, OutboxError> {
        let at = |seq: Seq| Some(Position { log: None, seq });
        let place = self.kept.now.place;
        match self.engine.subscribe(at(place)).await {
            Err(SubscribeError::Gone { head, .. }) => {
                let nearest = place.max(Seq(head.floor.0.saturating_sub(1))).min(head.head);
                tracing::warn!(adapter = self.name, %place, %nearest, "the log has not got this place any more");
                self.kept.now.place = nearest;
                Ok(self.engine.subscribe(at(nearest)).await.map_err(EngineError::from)?)
            }
            followed => Ok(followed.map_err(EngineError::from)?),
        }
    }

    fn has_something_open(&self) -> bool {
        !self.kept.is_saved() || !self.kept.now.dead.is_empty()
    }

    async fn take(&mut self, rows: &[LogRow]) -> Result<(), OutboxError> {
        let envelopes = self.engine.history().source_envelopes(rows).await?;
        for row in rows {
            if self.outlet.adapter.can_handle(&Heading::new(row, &envelopes)) {
                self.pass_on(row, &envelopes).await?;
            }
            self.kept.now.place = row.seq;
            if self.unsaved >= SAVE_AFTER {
                self.save().await?;
            }
        }
        Ok(())
    }

    /// Tries until the message is settled.
    async fn pass_on(&mut self, row: &LogRow, envelopes: &Envelopes) -> Result<(), OutboxError> {
        loop {
            self.wait().await?;
            let attempt = self.kept.now.attempts.saturating_add(1);
            match self.attempt(row, envelopes, attempt).await? {
                Ok(()) => {
                    self.answered();
                    self.kept.now.attempts = 0;
                    self.unsaved += 1;
                    return Ok(());
                }
                Err(OutboundError::Never(error)) => {
                    self.answered();
                    return self.put_aside(row.seq, attempt, error).await;
                }
                Err(OutboundError::NotNow { error, asked }) => {
                    self.failed(row.seq, &error, asked);
                    if attempt >= self.outlet.attempts {
                        return self.put_aside(row.seq, attempt, error).await;
                    }
                    self.kept.now.attempts = attempt;
                    self.save().await?;
                }
            }
        }
    }

    /// Waits for the end of a pause and for room among what was put aside; meanwhile somebody may ask for that.
    async fn wait(&mut self) -> Result<(), OutboxError> {
        loop {
            let left = Duration::from_millis(self.due.saturating_sub(self.engine.clock().monotonic()));
            if left.is_zero() && !self.kept.is_full() {
                return Ok(());
            }
            tokio::time::sleep(if left.is_zero() { POLL_INTERVAL } else { left.min(POLL_INTERVAL) }).await;
            self.look().await?;
        }
    }

    /// Writes down how far it is, and tries what somebody wants tried once more. Whoever asks does not want to wait either.
    async fn look(&mut self) -> Result<(), OutboxError> {
        if self.kept.look(&self.engine).await? {
            self.due = 0;
        }
        self.save().await?;
        while let Some(letter) = self.kept.now.dead.iter().find(|letter| letter.again).cloned() {
            self.try_again(letter).await?;
            self.save().await?;
        }
        Ok(())
    }

    /// One attempt. If nothing gets through, the others need not try.
    async fn try_again(&mut self, letter: DeadLetter) -> Result<(), OutboxError> {
        let rows = self.engine.query().log(LogQuery::at(vec![letter.seq])).await?.value;
        let envelopes = self.engine.history().source_envelopes(&rows).await?;
        let attempt = letter.attempts.saturating_add(1);
        let outcome = match rows.first() {
            Some(row) => self.attempt(row, &envelopes, attempt).await?,
            // The log goes back no longer as far as that.
            None => Ok(()),
        };
        let at = self.engine.clock().now();
        let again = matches!(outcome, Err(OutboundError::Never(_)));
        match outcome {
            Ok(()) => {
                self.answered();
                self.kept.now.dead.retain(|known| known.seq != letter.seq);
            }
            Err(OutboundError::Never(error) | OutboundError::NotNow { error, .. }) => {
                for known in &mut self.kept.now.dead {
                    if known.seq == letter.seq {
                        let error = cut(&error);
                        *known = DeadLetter { seq: letter.seq, attempts: attempt, error, at, again: false };
                    }
                    known.again &= again;
                }
            }
        }
        Ok(())
    }

    async fn attempt(
        &self,
        row: &LogRow,
        envelopes: &Envelopes,
        attempt: u32,
    ) -> Result<Result<(), OutboundError>, EngineError> {
        let shown = match self.engine.history().show_full(row, envelopes).await {
            // A matter of this message: the next one can be read.
            Err(EngineError::Artifact(error)) => {
                let error = format!("its words cannot be read: {error}");
                return Ok(Err(OutboundError::NotNow { error, asked: None }));
            }
            shown => shown?,
        };
        let at = self.engine.clock().now();
        let passing = Passing { seq: row.seq, message: shown.message, attempt, at };
        Ok(self.outlet.adapter.outbound(passing).await)
    }

    fn answered(&mut self) {
        if let Some(failing) = self.kept.now.failing.take() {
            // Whoever looks shall see it.
            self.unsaved = SAVE_AFTER;
            tracing::info!(adapter = self.name, failures = failing.failures, "messages get through again");
        }
        self.due = 0;
    }

    /// The pauses grow as long as nothing gets through, whichever message it is.
    fn failed(&mut self, seq: Seq, error: &str, asked: Option<Duration>) {
        let now = self.engine.clock().now();
        let before = self.kept.now.failing.take();
        let failures = before.as_ref().map_or(0, |failing| failing.failures).saturating_add(1);
        let spread = MessageId::new(format!("{}{seq}", self.name));
        let pause = self.engine.config().delivery.pause(&spread, failures, asked);
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.due = self.engine.clock().monotonic().saturating_add(millis);
        self.kept.now.failing = Some(Failing {
            since: before.map_or(now, |failing| failing.since),
            failures,
            error: cut(error),
            next_at: now.plus_millis(millis),
        });
        if failures == self.engine.config().delivery.circuit_failures {
            tracing::warn!(adapter = self.name, error, "messages do not get through, and are tried ever less often");
        }
    }

    async fn put_aside(&mut self, seq: Seq, attempts: u32, error: String) -> Result<(), OutboxError> {
        tracing::warn!(adapter = self.name, %seq, error, "a message could not be passed on, and is put aside");
        let (error, at) = (cut(&error), self.engine.clock().now());
        self.kept.now.dead.push(DeadLetter { seq, attempts, error, at, again: false });
        (self.kept.now.place, self.kept.now.attempts) = (seq, 0);
        self.save().await
    }

    async fn save(&mut self) -> Result<(), OutboxError> {
        self.kept.save(&self.engine).await?;
        self.unsaved = 0;
        Ok(())
    }
}

/// An error may hold anything; so much of it is kept.
fn cut(error: &str) -> String {
    error.chars().take(ERROR_CHARS).collect()
}
