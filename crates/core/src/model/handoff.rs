//! The handoff row.

use serde::{Deserialize, Serialize};

use super::{Column, ColumnValue, Entity};
use crate::kernel::event_id;
use crate::kernel::id::{AgentId, HandoffId, MessageId, Seq, TaskId, Timestamp};

/// What the next agent needs to know.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandoffNote {
    pub summary: String,
    #[serde(default)]
    pub files_modified: Vec<String>,
    #[serde(default)]
    pub files_created: Vec<String>,
    #[serde(default)]
    pub context: String,
    #[serde(default)]
    pub blockers: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffStatus {
    Pending,
    Accepted,
    Rejected,
}

impl HandoffStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            HandoffStatus::Pending => "pending",
            HandoffStatus::Accepted => "accepted",
            HandoffStatus::Rejected => "rejected",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Handoff {
    pub id: HandoffId,
    pub from: AgentId,
    pub to: Option<AgentId>,
    pub task: TaskId,
    pub status: HandoffStatus,
    #[serde(flatten)]
    pub note: HandoffNote,
    pub answered_by: Option<AgentId>,
    pub reason: Option<String>,
    pub created_at: Timestamp,
    pub created: Seq,
}

impl Entity for Handoff {
    type Id = HandoffId;

    const TABLE: &'static str = "handoffs";
    const COLUMNS: &'static [Column] =
        &[Column::integer("created"), Column::text("status"), Column::text("recipient"), Column::text("task")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![
            self.created.0.into(),
            self.status.as_str().into(),
            self.to.as_ref().map(ToString::to_string).into(),
            self.task.as_str().into(),
        ]
    }

    fn tallies(&self) -> Vec<&'static str> {
        match self.status {
            HandoffStatus::Pending => vec!["handoffs", "handoffs.pending"],
            HandoffStatus::Accepted | HandoffStatus::Rejected => vec!["handoffs"],
        }
    }
}

impl Handoff {
    /// The message that notifies the agent that it is offered to, if that has an inbox.
    pub(crate) fn notification(&self) -> MessageId {
        event_id::notification_of(self.created, self.created_at)
    }

    /// Records the answer and its author.
    pub(crate) fn answer(&mut self, status: HandoffStatus, by: &AgentId) {
        self.status = status;
        self.answered_by = Some(by.clone());
    }
}
