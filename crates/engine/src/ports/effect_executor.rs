//! Carries effects out: the machine, or something that stands in for it.

use rookery_core::model::intent::Effect;
use rookery_core::teams::TeamStartOutcome;
use rookery_core::workspaces::Outcome;
use rookery_core::{Seq, WorkspaceId};
use rookery_store::Pending;

/// How an effect went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Performed {
    Done,
    /// It is over for good, and this is what it came to.
    Settled(WorkspaceId, Outcome),
    /// So is starting a runner.
    TeamStarted(TeamStartOutcome),
    /// It stays open, to be tried again.
    Failed(String),
}

/// Carries effects out.
pub trait EffectExecutor: Send + Sync {
    /// Does one effect, which was decided at this place in the log, unless it happened already.
    fn perform(&self, effect: Effect, decided: Seq) -> Pending<'_, Performed>;
}
