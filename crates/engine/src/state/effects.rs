//! The effects that this node carries out right now.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::IntentId;

/// The effects that this node carries out now, so that rounds that overlap do none twice.
#[derive(Debug, Default)]
pub(crate) struct EffectsInProgress(Mutex<BTreeSet<IntentId>>);

impl EffectsInProgress {
    /// Begins an effect; `None` if it is in progress already.
    pub(crate) fn begin(&self, intent: &IntentId) -> Option<EffectInProgress<'_>> {
        let taken = self.lock().insert(intent.clone());
        taken.then(|| EffectInProgress { all: self, intent: intent.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<IntentId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An effect that this node carries out until this is dropped.
pub(crate) struct EffectInProgress<'a> {
    all: &'a EffectsInProgress,
    intent: IntentId,
}

impl Drop for EffectInProgress<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.intent);
    }
}
