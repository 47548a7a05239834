//! The team row: its runner, its members and its end. An agent is in at most one live team.

use serde::{Deserialize, Serialize};

use super::turn::{TurnConclusion, Usage};
use super::{Column, ColumnValue, Entity, Key, Row, Undecided, View};
use crate::kernel::caller::{Authority, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, RunId, Seq, SiteId, TeamId, ThreadId, Timestamp, TurnId};
use crate::kernel::instance::{Instance, bare, check_name};
use crate::kernel::rejection::Rejection;
use crate::kernel::session_key::Session;

impl Session {
    /// Rejects the key if its team has ended, was started again or no longer has the agent.
    pub(crate) fn check_team(&self, view: &View) -> Result<(), Undecided> {
        let Some(bound) = &self.team else { return Ok(()) };
        let team = view.team(&bound.team)?;
        let live = team.is_some_and(|team| {
            team.is_live() && team.of.generation == bound.generation && team.member(&self.agent).is_some()
        });
        if live { Ok(()) } else { Err(Rejection::session_ended(bound).into()) }
    }
}

/// What makes the id of a team that of an instance.
const OF_INSTANCE: char = '@';

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Until nobody has anything left to do.
    Run,
    /// Until it is stopped.
    Start,
    /// One agent, until it is stopped.
    Standalone,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Run, Mode::Start, Mode::Standalone];

    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Run => "run",
            Mode::Start => "start",
            Mode::Standalone => "standalone",
        }
    }
}

/// The process that runs a team: enough to tell it from every other, also after a reboot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Runner {
    pub host: String,
    pub boot_id: String,
    pub pid: u32,
    /// When the process began, as its machine tells it.
    pub started_at: StartTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StartTime {
    Ticks(u64),
    Text(String),
}

impl Runner {
    /// For a person who wants to find it.
    pub(crate) fn described(&self) -> String {
        format!("process {} on {}", self.pid, self.host)
    }
}

/// Which generation of which team a fact is about, and where that is shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamRef {
    pub team: TeamId,
    pub generation: u64,
    pub run: RunId,
    pub thread: ThreadId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Team {
    #[serde(flatten)]
    pub of: TeamRef,
    pub workflow: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub mode: Mode,
    pub members: Vec<Member>,
    /// Who runs it, or ran it last.
    pub runner: Runner,
    pub started: Seq,
    pub started_at: Timestamp,
    /// Where in the log, and when, its runner took over from one that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
    /// The turns that were under way then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kickoff: Option<Kickoff>,
    /// Somebody wants all of it to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<TeamEnd>,
}

/// An agent of a team, and what it did in this generation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    pub agent: AgentId,
    pub backend: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Turns that have ended.
    pub turns: u64,
    /// Those of them that failed.
    pub failed: u64,
    pub usage: Usage,
    /// The turn that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// How the last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastTurn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LastTurn {
    pub how: TurnConclusion,
    /// No further attempt follows.
    pub gave_up: bool,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kickoff {
    /// What was posted by it, in order.
    pub messages: Vec<MessageId>,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stop {
    pub asked_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamEnd {
    pub how: Conclusion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// What an agent of a team is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    Idle,
    Working,
    /// Its last turn came to nothing, and is tried again.
    Waiting,
    Stopped,
    /// Its last turn failed for good.
    Failed,
}

impl MemberState {
    pub fn as_str(self) -> &'static str {
        match self {
            MemberState::Idle => "idle",
            MemberState::Working => "working",
            MemberState::Waiting => "waiting",
            MemberState::Stopped => "stopped",
            MemberState::Failed => "failed",
        }
    }
}

impl TeamId {
    /// The instance that the team is in.
    pub fn instance(&self) -> Instance {
        match self.as_str().strip_prefix(OF_INSTANCE) {
            Some(name) => Instance::new(name),
            None => Instance::of(&AgentId::from(self.as_str())),
        }
    }

    /// The agent, if it is the team of one.
    pub fn alone(&self) -> Option<AgentId> {
        (!self.as_str().starts_with(OF_INSTANCE)).then(|| AgentId::from(self.as_str()))
    }

    /// The id of the agent with a name in the team.
    pub fn member(&self, name: &str) -> AgentId {
        match self.alone() {
            Some(only) if bare(&only) == name => only,
            _ => self.instance().member(name),
        }
    }

    pub fn parse(text: &str) -> Result<TeamId, Rejection> {
        let hint = "a team is called '@instance', or like the agent that runs alone";
        match text.strip_prefix(OF_INSTANCE) {
            // An instance can be called what an agent in it could have behind its '@'.
            Some(instance) => check_name("team", &format!("x@{instance}"))
                .map(|()| TeamId::from(text))
                .map_err(|refusal| Rejection { hint: Some(hint.to_owned()), ..refusal }),
            None => {
                check_name("team", text)?;
                Ok(TeamId::from(text))
            }
        }
    }
}

impl TeamRef {
    pub(crate) fn new(team: &TeamId, generation: u64) -> TeamRef {
        let instance = team.instance();
        TeamRef { team: team.clone(), generation, run: instance.run(), thread: instance.thread() }
    }

    pub(crate) fn key(&self) -> Key {
        Key::Team(self.team.clone())
    }
}

impl Entity for Team {
    type Id = TeamId;

    const TABLE: &'static str = "teams";
    const COLUMNS: &'static [Column] = &[Column::integer("live"), Column::integer("started")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.is_live().into(), self.started.0.into()]
    }
}

impl Team {
    pub fn id(&self) -> &TeamId {
        &self.of.team
    }

    pub fn instance(&self) -> Instance {
        self.of.team.instance()
    }

    /// Whether a runner began with it, or went on with it, after this place in the log.
    pub fn began_after(&self, seq: Seq) -> bool {
        self.resumed.unwrap_or(self.started).max(self.started) > seq
    }

    pub fn is_live(&self) -> bool {
        self.ended.is_none()
    }

    pub fn member(&self, agent: &AgentId) -> Option<&Member> {
        self.members.iter().find(|member| member.agent == *agent)
    }

    pub fn state_of(&self, member: &Member) -> MemberState {
        match member.last {
            _ if member.turn.is_some() => MemberState::Working,
            Some(last) if last.gave_up => MemberState::Failed,
            _ if !self.is_live() || member.stop.is_some() => MemberState::Stopped,
            Some(LastTurn { how: TurnConclusion::Failed | TurnConclusion::Interrupted, .. }) => MemberState::Waiting,
            _ => MemberState::Idle,
        }
    }

    /// What all of its agents used together.
    pub fn usage(&self) -> Usage {
        self.members.iter().fold(Usage::default(), |sum, member| sum.plus(&member.usage))
    }

    pub fn turns(&self) -> u64 {
        self.members.iter().map(|member| member.turns).fold(0, u64::saturating_add)
    }

    /// The turns that are under way, each with its agent.
    pub(crate) fn open_turns(&self) -> impl Iterator<Item = (&AgentId, &TurnId)> {
        self.members.iter().filter_map(|member| Some((&member.agent, member.turn.as_ref()?)))
    }

    pub(crate) fn begin_turn(&mut self, agent: &AgentId, turn: &TurnId) {
        if let Some(member) = self.member_mut(agent) {
            member.turn = Some(turn.clone());
        }
    }

    pub(crate) fn member_mut(&mut self, agent: &AgentId) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.agent == *agent)
    }

    pub(crate) fn change(mut self, agent: &AgentId, change: impl FnOnce(&mut Member)) -> Team {
        if let Some(member) = self.members.iter_mut().find(|member| member.agent == *agent) {
            change(member);
        }
        self
    }
}

impl View {
    pub fn team(&self, id: &TeamId) -> Result<Option<&Team>, Undecided> {
        Ok(match self.get(&Key::Team(id.clone()))? {
            Some(Row::Team(team)) => Some(team),
            _ => None,
        })
    }

    pub(crate) fn team_known(&self, id: &TeamId) -> Result<&Team, Undecided> {
        self.team(id)?.ok_or_else(|| not_found(id).into())
    }

    /// The team, if this generation of it is the one that runs.
    pub(crate) fn team_live(&self, id: &TeamId, generation: u64) -> Result<&Team, Undecided> {
        let team = self.team_known(id)?;
        team.runs(generation)?;
        Ok(team)
    }
}

impl Team {
    pub(crate) fn runs(&self, generation: u64) -> Result<(), Rejection> {
        if self.of.generation != generation {
            let message = format!(
                "generation {generation} of {} is not the one of now, which is {}",
                self.id(),
                self.of.generation
            );
            return Err(Rejection::new(Code::Stale, message).hint("somebody started it anew: this runner has to end"));
        }
        match &self.ended {
            Some(ended) => {
                let message = format!("{} has ended: {}", self.id(), ended.how.as_str());
                Err(Rejection::new(Code::InvalidState, message).hint("start it again first"))
            }
            None => Ok(()),
        }
    }
}

pub fn not_found(id: &TeamId) -> Rejection {
    Rejection::new(Code::TeamNotFound, format!("there is no team '{id}'"))
        .hint("a team is called '@instance', or like the agent that runs alone; GET /teams lists them")
}

/// Agents are run by people: whoever has the project's key, or a person's token.
pub(crate) fn needs_person(caller: &Caller, what: &str) -> Result<(), Rejection> {
    if caller.power == Authority::Person {
        return Ok(());
    }
    Err(Rejection::new(Code::Forbidden, format!("only a person may {what}"))
        .hint("use the command line, which acts as a person, or send a person's token"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_is_called_like_its_instance_or_its_only_agent() {
        for (text, id, instance, alone) in [
            ("@pr-123", "@pr-123", "pr-123", None),
            ("@default", "@default", "default", None),
            ("helper", "helper", "default", Some("helper")),
            ("helper@default", "helper@default", "default", Some("helper@default")),
            ("helper@pr-1", "helper@pr-1", "pr-1", Some("helper@pr-1")),
        ] {
            let team = TeamId::parse(text).unwrap();
            assert_eq!((team.as_str(), team.instance().name()), (id, instance), "{text}");
            assert_eq!(team.alone(), alone.map(AgentId::from), "{text}");
        }
        for (team, name, id) in [
            ("@default", "coder", "coder@default"),
            ("@pr-1", "coder", "coder@pr-1"),
            ("helper", "helper", "helper"),
            ("helper@pr-1", "helper", "helper@pr-1"),
            ("helper@pr-1", "helper@pr-1", "helper@pr-1"),
        ] {
            assert_eq!(TeamId::from(team).member(name), id.into(), "{team} {name}");
        }
        for bad in ["", "@", "@@x", "@a@b", "a@b@c", "a b", "@a b", "x@"] {
            assert_eq!(TeamId::parse(bad).unwrap_err().code, Code::Invalid, "{bad:?}");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Nobody had anything left to do.
    Completed,
    Failed,
    Stopped,
    Interrupted,
}

impl Conclusion {
    pub const ALL: [Conclusion; 4] =
        [Conclusion::Completed, Conclusion::Failed, Conclusion::Stopped, Conclusion::Interrupted];

    pub fn as_str(self) -> &'static str {
        match self {
            Conclusion::Completed => "completed",
            Conclusion::Failed => "failed",
            Conclusion::Stopped => "stopped",
            Conclusion::Interrupted => "interrupted",
        }
    }
}

/// What a runner is started with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamStartSpec {
    /// Relative to the project.
    pub file: String,
    /// Values for the parameters of the file, as on a command line: `--name value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<String>,
}
