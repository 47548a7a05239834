//! Every change that a rendering makes to the disk passes here first, so that tests can end it before any of them, or let
//! somebody else come first.

use std::io;
use std::sync::Arc;

/// What is about to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    MakeFolder,
    WriteDraft,
    KeepDraft,
    Place,
    Exchange,
    TakeAway,
    MoveAside,
    Remove,
    Append,
    SaveState,
}

/// Says whether a step is taken.
pub(super) type Gate = dyn Fn(Step) -> io::Result<()> + Send + Sync;

#[derive(Clone, Default)]
pub(super) struct Steps(Option<Arc<Gate>>);

impl Steps {
    #[cfg(test)]
    pub(super) fn through(gate: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) -> Steps {
        Steps(Some(Arc::new(gate)))
    }

    pub(super) fn take(&self, step: Step) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |gate| gate(step))
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Steps")
    }
}
