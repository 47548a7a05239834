//! The effects that this node carries out right now.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::IntentId;

/// The effects that this node is at work on, so that rounds which overlap do none twice.
#[derive(Debug, Default)]
pub(crate) struct InHand(Mutex<BTreeSet<IntentId>>);

impl InHand {
    pub(crate) fn take(&self, intent: &IntentId) -> Option<Taken<'_>> {
        let taken = self.lock().insert(intent.clone());
        taken.then(|| Taken { all: self, intent: intent.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<IntentId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Out of hand again when it goes, however it ended.
pub(crate) struct Taken<'a> {
    all: &'a InHand,
    intent: IntentId,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.intent);
    }
}
