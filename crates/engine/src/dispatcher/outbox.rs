//! How far an adapter has come, as the store keeps it: what was settled is not sent again after a restart, and what was put
//! aside is not forgotten.
//!
//! Whoever feeds the adapter writes it, and whoever asks for what was put aside; neither must undo what the other did.

use std::collections::BTreeMap;

use rookery_core::Seq;
use rookery_store::{DeadLetter, EndpointCursor, Operation};

use crate::adapters::Begins;
use crate::dispatcher::DispatcherHandle;
use crate::engine::Engine;
use crate::error::EngineError;

/// So many messages are put aside; then nothing is passed on until somebody sees to them.
pub(super) const MAX_DEAD_LETTERS: usize = 200;
/// How often a change is tried over what others changed meanwhile.
const TRIES: u32 = 20;

/// What the one who feeds an adapter knows of its outbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    /// As it was last read or written.
    stored: EndpointCursor,
    pub(super) now: EndpointCursor,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum OutboxError {
    #[error("another node passes messages on")]
    Overtaken,
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Kept {
    /// The outbox of an adapter; a new one if it was never here.
    pub(super) async fn load(engine: &Engine, adapter: &str, begins: Begins) -> Result<Kept, EngineError> {
        let stored = match engine.dispatcher().endpoint_cursor(adapter).await? {
            Some(stored) => stored,
            None => {
                let head = engine.query().tallies().await?.head;
                let place = match begins {
                    Begins::Now => head.head,
                    Begins::Start => Seq(head.floor.0.saturating_sub(1)),
                };
                let new = empty(adapter, place);
                engine.store().operate(Operation::PutOutbox(new.clone())).await?;
                engine.dispatcher().endpoint_cursor(adapter).await?.unwrap_or(new)
            }
        };
        Ok(Kept { now: stored.clone(), stored })
    }

    pub(super) fn is_saved(&self) -> bool {
        self.now == self.stored
    }

    pub(super) fn is_full(&self) -> bool {
        self.now.dead.len() >= MAX_DEAD_LETTERS
    }

    /// Takes over what others changed. Whether they did.
    pub(super) async fn look(&mut self, engine: &Engine) -> Result<bool, OutboxError> {
        let stored = engine.dispatcher().endpoint_cursor(&self.now.adapter).await?;
        match stored.filter(|stored| stored.version != self.stored.version) {
            None => Ok(false),
            Some(stored) => self.take_over(stored).map(|()| true),
        }
    }

    /// Writes it down, over whatever others changed.
    pub(super) async fn save(&mut self, engine: &Engine) -> Result<(), OutboxError> {
        for _ in 0..TRIES {
            if self.is_saved() {
                return Ok(());
            }
            let next = EndpointCursor { version: self.stored.version + 1, ..self.now.clone() };
            let put = engine.store().operate(Operation::PutOutbox(next.clone())).await.map_err(EngineError::from)?;
            let stored = match put {
                0 => {
                    engine.dispatcher().endpoint_cursor(&self.now.adapter).await?.unwrap_or_else(|| self.stored.clone())
                }
                _ => next.clone(),
            };
            // Also if only its answer was lost.
            if stored == next {
                (self.stored, self.now) = (next.clone(), next);
            } else {
                self.take_over(stored)?;
            }
        }
        Err(OutboxError::Overtaken)
    }

    fn take_over(&mut self, stored: EndpointCursor) -> Result<(), OutboxError> {
        if stored.place != self.stored.place {
            return Err(OutboxError::Overtaken);
        }
        self.now.dead = merged(&self.stored.dead, &self.now.dead, &stored.dead);
        self.now.version = stored.version;
        self.stored = stored;
        Ok(())
    }
}

fn empty(adapter: &str, place: Seq) -> EndpointCursor {
    EndpointCursor { adapter: adapter.to_owned(), version: 1, place, attempts: 0, failing: None, dead: vec![] }
}

/// Letters as both sides have changed them since `base`: what either took away is gone, what was tried here is as it came
/// out, and what others want stands.
fn merged(base: &[DeadLetter], ours: &[DeadLetter], theirs: &[DeadLetter]) -> Vec<DeadLetter> {
    let by_place = |letters: &[DeadLetter]| -> BTreeMap<Seq, DeadLetter> {
        letters.iter().map(|letter| (letter.seq, letter.clone())).collect()
    };
    let (base, mut ours, theirs) = (by_place(base), by_place(ours), by_place(theirs));
    ours.retain(|seq, _| theirs.contains_key(seq) || !base.contains_key(seq));
    for (seq, letter) in theirs {
        if ours.get(&seq) == base.get(&seq) {
            ours.insert(seq, letter);
        }
    }
    ours.into_values().collect()
}

impl DispatcherHandle<'_> {
    pub(super) async fn endpoint_cursor(&self, adapter: &str) -> Result<Option<EndpointCursor>, EngineError> {
        Ok(self.engine.store().outboxes().await?.into_iter().find(|outbox| outbox.adapter == adapter))
    }

    /// Changes what was put aside for an adapter, whoever feeds it. Nothing if it has no outbox.
    pub(super) async fn change_dead_letters(
        &self,
        adapter: &str,
        change: impl Fn(&mut Vec<DeadLetter>),
    ) -> Result<Option<EndpointCursor>, EngineError> {
        for _ in 0..TRIES {
            let Some(mut outbox) = self.endpoint_cursor(adapter).await? else { return Ok(None) };
            outbox.version += 1;
            change(&mut outbox.dead);
            if self.engine.store().operate(Operation::PutOutbox(outbox.clone())).await? > 0 {
                return Ok(Some(outbox));
            }
        }
        Err(EngineError::Submit(rookery_store::SubmitError::Busy))
    }
}

#[cfg(test)]
mod tests {
    use rookery_core::Timestamp;

    use super::*;

    fn letter(seq: u64, attempts: u32, again: bool) -> DeadLetter {
        DeadLetter { seq: Seq(seq), attempts, error: "no".to_owned(), at: Timestamp(1), again }
    }

    #[test]
    fn neither_side_undoes_what_the_other_did() {
        let base = [letter(1, 3, false), letter(2, 3, false), letter(3, 3, false), letter(4, 3, true)];
        // The first got through and the last was tried in vain; the fifth is new.
        let ours = [letter(2, 3, false), letter(3, 3, false), letter(4, 4, false), letter(5, 3, false)];
        // Somebody wants the second once more, and let go of the third.
        let theirs = [letter(1, 3, true), letter(2, 3, true), letter(4, 3, true)];
        let both = [letter(2, 3, true), letter(4, 4, false), letter(5, 3, false)];
        assert_eq!(merged(&base, &ours, &theirs), both);
        assert_eq!(merged(&base, &base, &theirs), theirs);
        assert_eq!(merged(&base, &ours, &base), ours);
    }
}
