//! Calls about turns. A turn is one wake-up of an agent, from its prompt to its end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::Client;
use crate::error::ClientError;
use crate::wire;

/// The reason for a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStartCause {
    Messages,
    Wakeup,
    Direct,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StartTurn {
    /// The agent's id in the project.
    pub agent: String,
    /// Counted from 1.
    pub attempt: u32,
    /// The ids of its messages.
    pub messages: Vec<String>,
    pub cause: TurnStartCause,
    pub team: String,
    pub generation: u64,
}

/// The outcome of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEndOutcome {
    Done,
    Failed,
    Interrupted,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Error {
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub kind: String,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ReportedUsage {
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct EndTurn {
    pub outcome: TurnEndOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// Whether there is no further attempt, so that a failure gives up its messages.
    pub last: bool,
    pub usage: ReportedUsage,
    /// The program's id of the conversation, for resuming it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The artifact with its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// Its last output, if it sent no message itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// The state of a turn. Unknown fields are ignored.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Turn {
    #[serde(alias = "id")]
    pub turn: String,
    #[serde(default)]
    pub agent: String,
    #[serde(default)]
    pub attempt: u32,
    pub cause: Option<TurnStartCause>,
    #[serde(default)]
    pub messages: Vec<String>,
    #[serde(default)]
    pub team: String,
    #[serde(default)]
    pub generation: u64,
    /// `None` while it is open.
    pub outcome: Option<TurnEndOutcome>,
    /// Whether its messages were given up.
    #[serde(default)]
    pub gave_up: bool,
    pub error: Option<Error>,
    #[serde(default)]
    pub usage: ReportedUsage,
    pub conversation: Option<String>,
    pub transcript: Option<String>,
    /// The agent's actions in the turn according to the log; only in the answer about a single turn.
    #[serde(default)]
    pub did: Vec<TurnActivityEntry>,
}

impl Turn {
    /// Whether it was unsuccessful and its messages are still open.
    pub fn is_retried(&self) -> bool {
        match self.outcome {
            Some(TurnEndOutcome::Failed) => !self.gave_up,
            Some(TurnEndOutcome::Interrupted) => true,
            Some(TurnEndOutcome::Done) | None => false,
        }
    }
}

/// An action of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct TurnActivityEntry {
    #[serde(default)]
    pub seq: u64,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub summary: String,
}

impl Client {
    pub async fn start_turn(&self, start: &StartTurn) -> Result<Turn, ClientError> {
        wire::read(&self.post(&["turns"], start).await?)
    }

    pub async fn end_turn(&self, turn: &str, end: &EndTurn) -> Result<Value, ClientError> {
        self.post(&["turns", turn, "end"], end).await
    }

    pub async fn turn(&self, turn: &str) -> Result<Turn, ClientError> {
        wire::read(&self.get(&["turns", turn], &[]).await?)
    }

    /// Lists an agent's turns in a team, newest first.
    pub async fn turns(&self, team: &str, agent: &str, limit: u32) -> Result<Vec<Turn>, ClientError> {
        let query = [("team", team.to_owned()), ("agent", agent.to_owned()), ("limit", limit.to_string())];
        wire::read(&self.get(&["turns"], &query).await?["turns"])
    }
}
