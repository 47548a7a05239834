//! What an agent tells the team without asking for anything: recorded, and changing nothing.

use serde::{Deserialize, Serialize};

use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::FilePath;
use crate::id::{AgentId, TaskId};
use crate::key::{Ask, Key};
use crate::limit;
use crate::refusal::Refusal;
use crate::view::View;

/// An event as its reporter tells it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    pub agent: AgentId,
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<FilePath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_hash: Option<String>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl Report {
    /// How many paths a summary of changes names.
    pub const SAMPLE: usize = 10;

    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::Agent(self.agent.clone()).into(), Key::Lead.into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        limit::name("agent_id", self.agent.as_str(), limit::AGENT_ID_BYTES)?;
        limit::name("action", &self.action, limit::NAME_BYTES)?;
        check_evidence(&self.before_hash, &self.after_hash, &self.metadata)?;
        view.may_sign_as(caller, &self.agent)?;
        Ok(Decision::new(vec![Fact::ReportAdded(self.clone())], Reply::Recorded))
    }
}

/// What a report may carry along, whether it has an effect or not.
pub(crate) fn check_evidence(
    before: &Option<String>,
    after: &Option<String>,
    metadata: &serde_json::Map<String, serde_json::Value>,
) -> Result<(), Refusal> {
    for (field, hash) in [("before_hash", before), ("after_hash", after)] {
        limit::text(field, hash.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
    }
    let metadata = serde_json::to_string(metadata).unwrap_or_default();
    limit::text("metadata", &metadata, limit::TEXT_BYTES)
}
