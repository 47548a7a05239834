//! The terms of a request for a task, and the origin of a task.

use serde::{Deserialize, Serialize};

use crate::kernel::id::{AgentId, MessageId, TaskId, ThreadId, Timestamp};
use crate::model::addressee::Address;
use crate::model::contract::ContractBinding;
use crate::model::policy::Policy;
use crate::model::requirement::Requirement;
use crate::model::trace::Trace;

/// What a request says of who shall do the task, how and until when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestTerms {
    /// The message that asked for it.
    pub request: MessageId,
    /// Whom it was sent to: the router, agents by name, or groups.
    pub to: Vec<Address>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefers: Vec<Requirement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    pub policy: Policy,
    /// Who was in the groups with a list that it was sent to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<AgentId>,
    /// What the messages that answer it are held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<ContractBinding>,
    /// When it is of use to nobody any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime_sec: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The trace that it belongs to: the one that it names, else that of the task that it is part of.
    #[serde(default, skip_serializing_if = "Trace::is_none")]
    pub trace: Trace,
}

impl RequestTerms {
    /// Whether it is for agents to do: a request to people waits for them.
    pub fn is_for_agents(&self) -> bool {
        self.to.iter().any(|address| matches!(address, Address::Orchestrator | Address::Agent(_) | Address::Group(_)))
    }
}

/// Where a task belongs, and on what terms it is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskOrigin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The task that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// How many tasks it is part of, one within the other.
    #[serde(default, skip_serializing_if = "is_top")]
    pub level: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Box<RequestTerms>>,
}

impl TaskOrigin {
    pub(crate) fn is_none(&self) -> bool {
        *self == TaskOrigin::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_top(level: &u32) -> bool {
    *level == 0
}
