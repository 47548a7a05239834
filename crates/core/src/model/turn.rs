//! The turn row. An agent has at most one turn at a time.

use serde::{Deserialize, Serialize};

use super::team::TeamRef;
use super::{Column, ColumnValue, Entity, Key, Row, Undecided, View};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, Seq, Timestamp, TurnId};
use crate::kernel::rejection::Rejection;

/// Why an agent was woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeReason {
    Messages,
    Wakeup,
    Direct,
}

impl WakeReason {
    pub const ALL: [WakeReason; 3] = [WakeReason::Messages, WakeReason::Wakeup, WakeReason::Direct];

    pub fn as_str(self) -> &'static str {
        match self {
            WakeReason::Messages => "messages",
            WakeReason::Wakeup => "wakeup",
            WakeReason::Direct => "direct",
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnConclusion {
    Done,
    Failed,
    /// Nobody knows what came of it: its runner went away, or was told to stop.
    Interrupted,
}

impl TurnConclusion {
    pub const ALL: [TurnConclusion; 3] = [TurnConclusion::Done, TurnConclusion::Failed, TurnConclusion::Interrupted];

    pub fn as_str(self) -> &'static str {
        match self {
            TurnConclusion::Done => "done",
            TurnConclusion::Failed => "failed",
            TurnConclusion::Interrupted => "interrupted",
        }
    }
}

/// What a turn cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// In millionths of a dollar, so that sums are exact; nothing if nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

impl Usage {
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        let cost_micros = match (self.cost_micros, other.cost_micros) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros,
        }
    }
}

/// Why a turn failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// A word for programs.
    pub kind: String,
    pub reason: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    #[serde(flatten)]
    pub of: TeamRef,
    pub agent: AgentId,
    pub attempt: u32,
    pub woken: WakeReason,
    /// What the agent was shown by it.
    pub messages: Vec<MessageId>,
    pub started: Seq,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<TurnEnd>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TurnEnd {
    pub how: TurnConclusion,
    /// No further attempt follows.
    pub gave_up: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    pub usage: Usage,
    /// Where the agent's program goes on with its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The hash of the artifact that tells all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// What was posted by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaid: Option<Unsaid>,
    pub ended: Seq,
    pub at: Timestamp,
}

impl Entity for Turn {
    type Id = TurnId;

    const TABLE: &'static str = "turns";
    const COLUMNS: &'static [Column] = &[Column::integer("started"), Column::text("agent"), Column::text("team")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.started.0.into(), self.agent.as_str().into(), self.of.team.as_str().into()]
    }
}

impl View {
    pub(crate) fn turn(&self, id: &TurnId) -> Result<Option<&Turn>, Undecided> {
        Ok(match self.get(&Key::Turn(id.clone()))? {
            Some(Row::Turn(turn)) => Some(turn),
            _ => None,
        })
    }
}

pub fn not_found(id: &TurnId) -> Rejection {
    Rejection::new(Code::TurnNotFound, format!("there is no turn '{id}'")).hint("GET /turns lists them")
}

/// What an agent said, and nobody could be told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unsaid {
    pub text: String,
    pub reason: String,
}
