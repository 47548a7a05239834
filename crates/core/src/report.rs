//! What an agent tells the team without asking for anything: recorded, and changing nothing.

use serde::{Deserialize, Serialize};

use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::FilePath;
use crate::id::{AgentId, TaskId};
use crate::limit;
use crate::refusal::{Code, Refusal};
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

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        view.may_speak_for(caller, &self.agent)?;
        limit::name("agent_id", self.agent.as_str(), limit::AGENT_ID_BYTES)?;
        limit::name("action", &self.action, limit::NAME_BYTES)?;
        for (field, hash) in [("before_hash", &self.before_hash), ("after_hash", &self.after_hash)] {
            limit::text(field, hash.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
        }
        let metadata = serde_json::to_string(&self.metadata).unwrap_or_default();
        if metadata.len() > limit::TEXT_BYTES {
            return Err(Refusal::new(Code::TooLarge, "metadata is too large").into());
        }
        Ok(Decision::new(vec![Fact::ReportAdded(self.clone())], Reply::Recorded))
    }
}
