//! The outcome of a choice: the agent and the reason, the other eligible agents, and why the rest were rejected.

use crate::model::routing::RejectionFilter;

/// A rejection before it is put into words; numbers are places in the demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reject {
    Unknown,
    Offline,
    Paused,
    Tried,
    NotSandboxed,
    NotTrusted,
    Barred,
    NoTool(usize),
    NotAllowed(usize),
    Busy,
    Network,
    Lacks(usize),
    Version(usize),
    Untrusted(usize),
}

impl Reject {
    pub(super) fn filter(self) -> RejectionFilter {
        match self {
            Reject::Unknown => RejectionFilter::Unknown,
            Reject::Offline => RejectionFilter::Offline,
            Reject::Paused => RejectionFilter::Paused,
            Reject::Tried => RejectionFilter::Tried,
            Reject::NotSandboxed | Reject::NotTrusted => RejectionFilter::Security,
            Reject::Barred | Reject::NoTool(_) | Reject::NotAllowed(_) => RejectionFilter::Tools,
            Reject::Busy => RejectionFilter::Concurrency,
            Reject::Network => RejectionFilter::Network,
            Reject::Lacks(_) | Reject::Version(_) | Reject::Untrusted(_) => RejectionFilter::Requires,
        }
    }
}
