//! Every change that the renderer makes to the disk passes a fault point first, so that tests can stop the renderer before
//! any of them, or let another program act first.

use std::io;
use std::sync::Arc;

/// A change that is about to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FaultPoint {
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

/// Decides whether a change happens; tests provide it.
pub(super) type FaultHook = dyn Fn(FaultPoint) -> io::Result<()> + Send + Sync;

/// The hook that every change passes; none outside of tests.
#[derive(Clone, Default)]
pub(super) struct FaultPoints(Option<Arc<FaultHook>>);

impl FaultPoints {
    #[cfg(test)]
    pub(super) fn with_hook(hook: impl Fn(FaultPoint) -> io::Result<()> + Send + Sync + 'static) -> FaultPoints {
        FaultPoints(Some(Arc::new(hook)))
    }

    pub(super) fn pass(&self, point: FaultPoint) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |hook| hook(point))
    }
}

impl std::fmt::Debug for FaultPoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FaultPoints")
    }
}
