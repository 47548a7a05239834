//! Calls about teams. A team is a workflow instance (`@pr-123`) or one standalone agent (`helper`), run by one runner.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::ClientError;
use crate::turns::Turn;
use crate::wire;

/// The largest page that the daemon returns.
const MAX_TEAMS: u32 = 1000;

/// The mode in which a team is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Until no agent has work left.
    Run,
    /// Until it is stopped.
    Start,
    /// One agent without a file, until it is stopped.
    Standalone,
}

/// The outcome of a team.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamEndOutcome {
    Completed,
    Failed,
    Stopped,
    Interrupted,
}

/// An agent of a team to start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Recruit {
    /// Its bare name in the instance.
    pub name: String,
    pub backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The process that runs a team. The pid is unambiguous only together with the other fields.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Runner {
    pub host: String,
    pub boot_id: String,
    pub pid: u32,
    /// The start time of the process, in ticks of the machine.
    pub started_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

/// The request to start a team.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StartTeam {
    pub workflow: String,
    /// The workflow file, as shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub mode: Mode,
    pub agents: Vec<Recruit>,
    pub runner: Runner,
    /// Whether the caller knows that the runner in the log is dead.
    pub takeover: bool,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Started {
    pub generation: u64,
    /// Whether it resumes instead of beginning.
    pub resumed: bool,
    pub kicked_off: bool,
    /// Turns that were open when it was resumed.
    #[serde(default)]
    pub interrupted: Vec<Turn>,
}

/// The state of a team. Unknown fields are ignored.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Team {
    pub id: String,
    #[serde(default)]
    pub instance: String,
    #[serde(default)]
    pub workflow: String,
    pub file: Option<String>,
    pub mode: Option<Mode>,
    pub generation: u64,
    #[serde(default)]
    pub live: bool,
    #[serde(default)]
    pub kicked_off: bool,
    /// Whether it was asked to stop.
    #[serde(default)]
    pub stop_requested: bool,
    pub stop_reason: Option<String>,
    /// The sequence number of the event that started this generation.
    pub started_seq: Option<u64>,
    pub runner: Option<Runner>,
    pub outcome: Option<TeamEndOutcome>,
    pub reason: Option<String>,
    #[serde(default)]
    pub agents: Vec<Member>,
    pub turns: Option<u64>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Member {
    /// Its bare name in the instance.
    pub name: String,
    /// Its id in the project, such as `reviewer@pr-123`.
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub backend: String,
    pub model: Option<String>,
    /// idle, working, waiting, stopped or failed
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub turns: u64,
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
    pub open_turn: Option<String>,
    #[serde(default)]
    pub stop_requested: bool,
}

impl Client {
    pub async fn start_team(&self, id: &str, start: &StartTeam) -> Result<Started, ClientError> {
        wire::read(&self.post(&["teams", id, "start"], start).await?)
    }

    /// Sends the kickoff. Repeated calls in a generation have no effect. The text wakes exactly the given agents, regardless of
    /// its mentions.
    pub async fn kick_off_team(
        &self,
        id: &str,
        generation: u64,
        kickoff: Option<(&str, &[String])>,
    ) -> Result<(), ClientError> {
        let mut body = json!({"generation": generation});
        if let Some((text, mentions)) = kickoff {
            body["text"] = text.into();
            body["mentions"] = json!(mentions);
        }
        self.post(&["teams", id, "kickoff"], &body).await.map(drop)
    }

    /// Posts a message of `system` to the team's channel.
    pub async fn say_to_team(&self, id: &str, text: &str) -> Result<(), ClientError> {
        self.post(&["teams", id, "announcements"], &json!({"text": text})).await.map(drop)
    }

    /// Asks the team, or one of its agents, to stop. Its runner carries it out.
    pub async fn stop_team(&self, id: &str, agent: Option<&str>, reason: Option<&str>) -> Result<Value, ClientError> {
        let mut body = json!({});
        for (name, value) in [("agent", agent), ("reason", reason)] {
            if let Some(value) = value {
                body[name] = value.into();
            }
        }
        self.post(&["teams", id, "stop"], &body).await
    }

    pub async fn end_team(
        &self,
        id: &str,
        generation: u64,
        outcome: TeamEndOutcome,
        reason: Option<&str>,
    ) -> Result<(), ClientError> {
        let mut body = json!({"generation": generation, "outcome": outcome});
        if let Some(reason) = reason {
            body["reason"] = reason.into();
        }
        self.post(&["teams", id, "end"], &body).await.map(drop)
    }

    pub async fn team(&self, id: &str) -> Result<Team, ClientError> {
        wire::read(&self.get(&["teams", id], &[]).await?)
    }

    /// Lists the teams that have a runner according to the log.
    pub async fn live_teams(&self) -> Result<Vec<Team>, ClientError> {
        let answer = self.get(&["teams"], &[("live", "true".to_owned()), ("limit", MAX_TEAMS.to_string())]).await?;
        wire::read(&answer["teams"])
    }
}
