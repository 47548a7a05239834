//! The agent row and the position of lead, with the changes that events make to them.

mod track_record;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use track_record::TrackRecord;

use super::capabilities::Card;
use super::file_path::FilePath;
use super::{Column, ColumnValue, Entity, LeadId, LifeSource};
use crate::kernel::id::{AgentId, Seq, TaskId, Timestamp};
use crate::kernel::limit;
use crate::kernel::outbound::AllowedHost;
use crate::kernel::rejection::Rejection;

/// Who holds the position, and whether it asked for it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lead {
    pub holder: Option<AgentId>,
    pub asked: bool,
}

impl Entity for Lead {
    type Id = LeadId;

    const TABLE: &'static str = "leadership";
    const COLUMNS: &'static [Column] = &[];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![]
    }
}

/// Why we believe that an agent is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Evidence {
    pub last_seen: Timestamp,
    /// Where its last sign of life came from; `None` if it said itself that it goes offline.
    pub source: Option<LifeSource>,
    /// How long without a sign of life was allowed, in milliseconds.
    pub limit_millis: u64,
}

/// What an agent held when it went offline.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClaimsWhenOffline {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<LostFile>,
}

impl ClaimsWhenOffline {
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.files.is_empty()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostFile {
    pub path: FilePath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// That an agent is paused, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Paused {
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub since: Timestamp,
}

/// What an agent says about itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Profile {
    pub tool: String,
    pub role: AgentRole,
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
    /// What it said by a card, in step with the fields above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Arc<Card>>,
    /// The role as the agent called it, where that is not the name of a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_name: Option<String>,
    /// The session of its program, as its heartbeats name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// A role as an agent gives it: any text. One that is the name of a role counts as that, every other one as a worker's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatedRole {
    pub role: AgentRole,
    pub name: Option<String>,
}

impl StatedRole {
    /// Reads a role. `own` is the name that the caller's surface has for the role, which is kept as that role alone.
    pub fn read(text: &str, own: impl Fn(AgentRole) -> &'static str) -> StatedRole {
        let role = AgentRole::from_name(text).unwrap_or(AgentRole::Worker);
        StatedRole { role, name: (own(role) != text).then(|| text.to_owned()) }
    }
}

impl Profile {
    /// The role as it is shown: as the agent called it, or by its name.
    pub fn shown_role(&self) -> &str {
        self.role_name.as_deref().unwrap_or(self.role.as_str())
    }

    /// What the team knows of an agent after it said this: a card that it sent before stays, with what was said now.
    pub(crate) fn beside(self, known: Option<&Agent>) -> Result<Profile, Rejection> {
        let mut profile = self;
        if let Some(here) = known.filter(|agent| !agent.has_left() && profile.session_id.is_none()) {
            profile.session_id.clone_from(&here.profile.session_id);
        }
        let known = known.filter(|_| profile.card.is_none());
        if let Some((agent, card)) = known.and_then(|agent| Some((agent, agent.profile.card.as_ref()?))) {
            if !agent.has_left() {
                let card = card.restated(&profile);
                profile.name = card.display.name.clone();
                profile.card = Some(Arc::new(card));
            } else if !card.security.keys.is_empty() {
                // It begins anew, and is still the one that has these keys.
                let mut begun = Card::made(&agent.id, &profile);
                begun.security.keys = card.security.keys.clone();
                profile.card = Some(Arc::new(begun));
            }
        }
        limit::json("card", &profile.card, limit::CARD_BYTES)?;
        Ok(profile)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    Lead,
    Specialist,
    Worker,
}

impl AgentRole {
    /// The role of that name. `coordinator` is another name for `lead`.
    pub fn from_name(text: &str) -> Option<AgentRole> {
        match text {
            "lead" | "coordinator" => Some(AgentRole::Lead),
            "specialist" => Some(AgentRole::Specialist),
            "worker" => Some(AgentRole::Worker),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            AgentRole::Lead => "lead",
            AgentRole::Specialist => "specialist",
            AgentRole::Worker => "worker",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Idle,
    Working,
    Blocked,
    WaitingReview,
    Offline,
}

impl AgentStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            AgentStatus::Idle => "idle",
            AgentStatus::Working => "working",
            AgentStatus::Blocked => "blocked",
            AgentStatus::WaitingReview => "waiting_review",
            AgentStatus::Offline => "offline",
        }
    }
}

/// Whether the agent takes part. One that left stays readable by id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "since")]
pub enum Membership {
    Here,
    Offline(Timestamp),
    Left(Timestamp),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    #[serde(flatten)]
    pub profile: Profile,
    pub status: AgentStatus,
    pub membership: Membership,
    pub current_task: Option<TaskId>,
    /// When it joined, or joined again after having left.
    pub joined_at: Timestamp,
    pub joined: Seq,
    /// The newest sign of life that a fact records. Presence may know a newer one.
    pub seen_at: Timestamp,
    /// Bound to a token or session: nobody may merely assert this id.
    pub has_credential: bool,
    /// The credential is a session of a runner's team, and is required no longer than the agent is in that team.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub credential_ends_with_team: bool,
    /// The host and port that a person allowed messages for it to be posted to, wherever they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_endpoint: Option<AllowedHost>,
    /// How many tasks it has claimed.
    pub holding: u32,
    /// What it held when it was declared offline, to be given back if nobody took it.
    pub claims_when_offline: ClaimsWhenOffline,
    /// It is offline by its own word, not for being silent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub said_goodbye: bool,
    /// How its latest tasks ended.
    #[serde(default, skip_serializing_if = "TrackRecord::is_empty")]
    pub recent: TrackRecord,
    /// When it was last given a task without having asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_assigned: Option<Seq>,
    /// It gets nothing new to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

impl Entity for Agent {
    type Id = AgentId;

    const TABLE: &'static str = "agents";
    const COLUMNS: &'static [Column] = &[Column::integer("live"), Column::integer("joined")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.is_online().into(), self.joined.0.into()]
    }

    fn tallies(&self) -> Vec<&'static str> {
        match self.membership {
            Membership::Here => vec![tally::AGENTS, tally::AGENTS_ACTIVE],
            Membership::Offline(_) => vec![tally::AGENTS],
            Membership::Left(_) => vec![],
        }
    }
}

impl Agent {
    pub fn is_online(&self) -> bool {
        self.membership == Membership::Here
    }

    /// Marks it as here again after it was offline. Events of their own give back its claims.
    pub(crate) fn come_back(&mut self, at: Timestamp) {
        self.membership = Membership::Here;
        self.status = AgentStatus::Idle;
        self.seen_at = at;
        self.claims_when_offline = ClaimsWhenOffline::default();
        self.said_goodbye = false;
    }

    /// Marks it as gone for good.
    pub(crate) fn leave(&mut self, at: Timestamp) {
        self.membership = Membership::Left(at);
        self.status = AgentStatus::Offline;
        self.current_task = None;
        self.claims_when_offline = ClaimsWhenOffline::default();
        self.paused = None;
        if std::mem::take(&mut self.credential_ends_with_team) {
            self.has_credential = false;
        }
    }

    /// Marks it as offline and remembers the claims that it loses by that.
    pub(crate) fn go_offline(&mut self, evidence: &Evidence, lost: &ClaimsWhenOffline, at: Timestamp) {
        self.membership = Membership::Offline(at);
        self.status = AgentStatus::Offline;
        self.current_task = None;
        self.seen_at = evidence.last_seen;
        self.claims_when_offline = lost.clone();
        self.said_goodbye = evidence.source.is_none();
    }

    pub fn has_left(&self) -> bool {
        matches!(self.membership, Membership::Left(_))
    }

    /// Remembers that it was given a task without having asked for it.
    pub(crate) fn note_assigned(&mut self, seq: Seq) {
        self.last_assigned = Some(seq);
    }

    pub(crate) fn complete_task(&mut self, task: &TaskId) {
        self.gave_up(task);
        self.recent.succeeded();
    }

    pub(crate) fn fail_task(&mut self, task: &TaskId) {
        self.gave_up(task);
        self.recent.failed();
    }

    pub(crate) fn await_review(&mut self) {
        if self.is_online() {
            self.status = AgentStatus::WaitingReview;
        }
    }

    /// Holds a task. One that waits for others does not make it work before it is started.
    pub(crate) fn took(&mut self, task: &TaskId, is_blocked: bool) {
        self.holding = self.holding.saturating_add(1);
        if !is_blocked {
            self.works_on(task);
        }
    }

    pub(crate) fn works_on(&mut self, task: &TaskId) {
        self.current_task = Some(task.clone());
        if self.is_online() {
            self.status = AgentStatus::Working;
        }
    }

    pub(crate) fn gave_up(&mut self, task: &TaskId) {
        self.holding = self.holding.saturating_sub(1);
        if self.current_task.as_ref() == Some(task) {
            self.current_task = None;
        }
        if self.holding == 0 && self.is_online() {
            self.status = AgentStatus::Idle;
        }
    }
}

/// Names of the counts that agents are part of.
pub mod tally {
    pub const AGENTS: &str = "agents";
    pub const AGENTS_ACTIVE: &str = "agents.active";
}

/// Free-form facts that an agent tells about itself.
pub type Metadata = serde_json::Map<String, Value>;
