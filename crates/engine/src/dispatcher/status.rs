//! What a person is told of adapters that messages are passed on to, and can do about what did not get through.

use std::collections::BTreeSet;

use rookery_core::messages::{DroppedLetter, LettersDropped, NoteDropped};
use rookery_core::{Caller, Seq};
use rookery_store::{DeadLetter, EndpointCursor, Submission};

use super::outbox::MAX_DEAD_LETTERS;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::state::delivery_attempts::AttemptLog;
use crate::state::wake_hub::WakeHub;

/// The state of deliveries to endpoints and of wake-ups of agents.
#[derive(Clone, Copy, Debug)]
pub struct DispatcherHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`DispatcherHandle`].
    pub fn dispatcher(&self) -> DispatcherHandle<'_> {
        DispatcherHandle { engine: self }
    }
}

/// How one adapter does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutletStatus {
    pub adapter: String,
    /// Nothing, if it was never served yet.
    pub outbox: Option<EndpointCursor>,
    pub head: Seq,
}

impl OutletStatus {
    /// `failing` if the last try was in vain, `full` if nothing more is tried, else `ok`.
    pub fn state(&self) -> &'static str {
        match &self.outbox {
            Some(outbox) if outbox.dead.len() >= MAX_DEAD_LETTERS => "full",
            Some(outbox) if outbox.failing.is_some() => "failing",
            _ => "ok",
        }
    }

    /// What somebody should see to.
    fn warnings(&self, tolerated: u32) -> Vec<String> {
        let (name, Some(outbox)) = (&self.adapter, &self.outbox) else { return vec![] };
        let mut warnings = vec![];
        if let Some(failing) = outbox.failing.as_ref().filter(|failing| failing.failures >= tolerated) {
            warnings.push(format!(
                "{name} did not get through {} times in a row: {}; mend its receiver, then `rookery endpoints retry \
                 {name}` tries at once",
                failing.failures, failing.error
            ));
        }
        let dead = outbox.dead.len();
        if dead > 0 {
            let halt = if dead >= MAX_DEAD_LETTERS { ", and nothing more is sent until they are seen to" } else { "" };
            warnings.push(format!(
                "{name} has put aside messages that it could not pass on: {dead}{halt}; `rookery endpoints` shows why, \
                 `rookery endpoints retry {name}` tries them again, `rookery endpoints discard {name}` lets them go"
            ));
        }
        warnings
    }
}

impl<'a> DispatcherHandle<'a> {
    /// Wake-ups for the agents that are connected to this node.
    pub fn wakes(&self) -> &'a WakeHub {
        self.engine.wake_hub()
    }

    /// How deliveries go, as far as this node knows.
    pub fn attempts(&self) -> &'a AttemptLog {
        self.engine.attempt_log()
    }
}

impl DispatcherHandle<'_> {
    /// How those adapters do that messages are passed on to, in the order of the settings.
    pub async fn endpoints(&self) -> Result<Vec<OutletStatus>, EngineError> {
        let known = self.engine.store().outboxes().await?;
        let head = self.engine.query().tallies().await?.head.head;
        let status = |adapter: String| {
            let outbox = known.iter().find(|outbox| outbox.adapter == adapter).cloned();
            OutletStatus { adapter, outbox, head }
        };
        Ok(self.engine.config().outlets.iter().map(|outlet| status(outlet.adapter.name())).collect())
    }

    pub async fn warnings(&self) -> Result<Vec<String>, EngineError> {
        if self.engine.config().outlets.is_empty() {
            return Ok(vec![]);
        }
        let tolerated = self.engine.config().delivery.circuit_failures;
        Ok(self.endpoints().await?.iter().flat_map(|status| status.warnings(tolerated)).collect())
    }

    /// Has everything tried again that was put aside, and what waits tried at once. Nothing if there is no such adapter.
    pub async fn retry(&self, adapter: &str) -> Result<Option<EndpointCursor>, EngineError> {
        self.change_dead_letters(adapter, |dead| dead.iter_mut().for_each(|letter| letter.again = true)).await
    }

    /// Lets go of everything that was put aside, by a person's word. Nothing if there is no such adapter.
    pub async fn discard_dead_letters(
        &self,
        caller: &Caller,
        adapter: &str,
    ) -> Result<Option<EndpointCursor>, EngineError> {
        let Some(outbox) = self.endpoint_cursor(adapter).await? else { return Ok(None) };
        if outbox.dead.is_empty() {
            return Ok(Some(outbox));
        }
        let dropped: BTreeSet<Seq> = outbox.dead.iter().map(|letter| letter.seq).collect();
        let letters = outbox.dead.into_iter().map(|DeadLetter { seq, attempts, error, .. }| DroppedLetter {
            seq,
            attempts,
            error,
        });
        let dropped_letters = LettersDropped { adapter: adapter.to_owned(), letters: letters.collect() };
        // Noted first: if it ends in between, they are still listed and can be let go of once more.
        self.engine.commit(Submission::new(caller.clone(), NoteDropped { dropped: dropped_letters })).await?;
        self.change_dead_letters(adapter, |dead| dead.retain(|letter| !dropped.contains(&letter.seq))).await
    }
}
