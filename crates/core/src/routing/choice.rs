//! What came of a choice: whom it fell on and why, who else would have done, and why others would not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::id::AgentId;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RoutingDecision {
    /// Nobody if no agent fits.
    pub selected: Option<AgentId>,
    /// Whoever fits, the best first. A choice that is kept names the first few.
    pub candidates: Vec<Scored>,
    /// How many fit.
    pub eligible: u32,
    pub reason: String,
    /// Why others do not fit, by id. A choice that is kept names the first few.
    pub rejected: Vec<Rejected>,
    /// How many each filter rejected.
    pub counts: BTreeMap<RejectionFilter, u32>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scored {
    pub agent: AgentId,
    /// How much of what is preferred it meets, from 0 to 1.
    pub score: f64,
    /// How many tasks it has.
    pub load: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rejected {
    pub agent: AgentId,
    pub filter: RejectionFilter,
    /// To be read after its name: `lacks skill:research`.
    pub reason: String,
}

/// What rejects, in the order in which it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectionFilter {
    /// It was named, and nobody knows it.
    Unknown,
    Offline,
    /// It gets nothing new to do until somebody lets it go on.
    Paused,
    Tried,
    Security,
    Tools,
    Concurrency,
    Network,
    Requires,
}

impl RejectionFilter {
    pub const ALL: [RejectionFilter; 9] = [
        RejectionFilter::Unknown,
        RejectionFilter::Offline,
        RejectionFilter::Paused,
        RejectionFilter::Tried,
        RejectionFilter::Security,
        RejectionFilter::Tools,
        RejectionFilter::Concurrency,
        RejectionFilter::Network,
        RejectionFilter::Requires,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RejectionFilter::Unknown => "unknown",
            RejectionFilter::Offline => "offline",
            RejectionFilter::Paused => "paused",
            RejectionFilter::Tried => "tried",
            RejectionFilter::Security => "security",
            RejectionFilter::Tools => "tools",
            RejectionFilter::Concurrency => "concurrency",
            RejectionFilter::Network => "network",
            RejectionFilter::Requires => "requires",
        }
    }
}

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
            Reject::Barred | Reject::NoTool(_) => RejectionFilter::Tools,
            Reject::Busy => RejectionFilter::Concurrency,
            Reject::Network => RejectionFilter::Network,
            Reject::Lacks(_) | Reject::Version(_) | Reject::Untrusted(_) => RejectionFilter::Requires,
        }
    }
}

impl RoutingDecision {
    /// The payload of `routing.decision`, or of `routing.failure` if it fell on nobody.
    pub fn payload(&self) -> Value {
        let address = |agent: &AgentId| format!("agent:{agent}");
        let scores: Map<String, Value> =
            self.candidates.iter().map(|scored| (address(&scored.agent), json!(scored.score))).collect();
        let rejected: Map<String, Value> =
            self.rejected.iter().map(|rejected| (address(&rejected.agent), json!(rejected.reason))).collect();
        let mut payload = json!({
            "selected": self.selected.as_ref().map(address),
            "candidates": self.candidates.iter().map(|scored| address(&scored.agent)).collect::<Vec<_>>(),
            "eligible": self.eligible,
            "reason": self.reason,
            "scores": scores,
            "rejected": rejected,
            "rejected_counts": self.counts,
        });
        if self.selected.is_none()
            && let Some(fields) = payload.as_object_mut()
        {
            fields.remove("selected");
        }
        payload
    }
}
