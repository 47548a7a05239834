//! The routing of a task: the decision about it, the agents that declined, and the agents that failed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::kernel::id::{AgentId, MessageId};

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

/// What the router knows of a task from one look to the next.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Routing {
    /// What was told to have rejected anybody since the task began to wait. Who is busy now and idle then is rejected for
    /// this reason and that in turn, which is no news.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_by: Vec<RejectionFilter>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whom it was given to in vain, in this attempt and since they were last asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declined_by: Vec<AgentId>,
    /// Whose attempts failed: anybody else goes before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_for: Vec<AgentId>,
    /// How often everybody was asked in vain, one time after the other.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reroutes: u32,
    /// The attempts before somebody last asked for it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier_attempts: u32,
    /// The request as it was passed on to whoever has the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_in: Option<MessageId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// How many agents are remembered as asked in vain. Where there are more, the first is asked anew when its turn comes.
const MAX_DECLINED_AGENTS: usize = 100;

/// Those who were asked in vain are asked anew at least this often.
pub(crate) const MAX_REROUTE_BACKOFF_MILLIS: u64 = 60 * 60 * 1_000;

impl Routing {
    pub(crate) fn is_none(&self) -> bool {
        *self == Routing::default()
    }

    pub(crate) fn tried(&mut self, agent: &AgentId) {
        remember(&mut self.declined_by, agent);
    }

    /// Nobody fits, for these reasons beside those that were told before.
    pub(crate) fn told(&mut self, choice: &RoutingDecision) {
        self.failed = true;
        let news = choice.counts.keys().filter(|filter| !self.failed_by.contains(filter));
        self.failed_by = self.failed_by.iter().chain(news).copied().collect();
        self.failed_by.sort_unstable();
    }

    /// Somebody has it: whoever was asked before may be asked again if it comes back.
    pub(crate) fn taken_up(&mut self) {
        (self.failed, self.failed_by, self.reroutes) = (false, vec![], 0);
        self.declined_by.clear();
    }

    /// The attempt of this agent failed, and another one follows.
    pub(crate) fn failed_with(&mut self, agent: Option<AgentId>) {
        self.taken_up();
        if let Some(agent) = agent {
            remember(&mut self.failed_for, &agent);
        }
    }

    /// Somebody wants another attempt: what came of those before it counts no more.
    pub(crate) fn asked_again(&mut self, attempt: u32) {
        *self = Routing { earlier_attempts: attempt.saturating_sub(1), ..Routing::default() };
    }
}

fn remember(agents: &mut Vec<AgentId>, agent: &AgentId) {
    agents.retain(|known| known != agent);
    if agents.len() == MAX_DECLINED_AGENTS {
        agents.remove(0);
    }
    agents.push(agent.clone());
}
