//! What came of a choice: whom it fell on and why, who else would have done, and why others would not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::id::AgentId;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Choice {
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
    pub counts: BTreeMap<Filter, u32>,
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
    pub filter: Filter,
    /// To be read after its name: `lacks skill:research`.
    pub reason: String,
}

/// What rejects, in the order in which it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
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

impl Filter {
    pub const ALL: [Filter; 9] = [
        Filter::Unknown,
        Filter::Offline,
        Filter::Paused,
        Filter::Tried,
        Filter::Security,
        Filter::Tools,
        Filter::Concurrency,
        Filter::Network,
        Filter::Requires,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Filter::Unknown => "unknown",
            Filter::Offline => "offline",
            Filter::Paused => "paused",
            Filter::Tried => "tried",
            Filter::Security => "security",
            Filter::Tools => "tools",
            Filter::Concurrency => "concurrency",
            Filter::Network => "network",
            Filter::Requires => "requires",
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
    pub(super) fn filter(self) -> Filter {
        match self {
            Reject::Unknown => Filter::Unknown,
            Reject::Offline => Filter::Offline,
            Reject::Paused => Filter::Paused,
            Reject::Tried => Filter::Tried,
            Reject::NotSandboxed | Reject::NotTrusted => Filter::Security,
            Reject::Barred | Reject::NoTool(_) => Filter::Tools,
            Reject::Busy => Filter::Concurrency,
            Reject::Network => Filter::Network,
            Reject::Lacks(_) | Reject::Version(_) | Reject::Untrusted(_) => Filter::Requires,
        }
    }
}

impl Choice {
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
