//! Declaring an agent offline: only with evidence, checked again where the decision is made.

use serde::{Deserialize, Serialize};

use super::{Agent, successor};
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::{FilePath, FileReleased, ReleaseReason};
use crate::id::{AgentId, TaskId, Timestamp};
use crate::key::{Ask, Key, Lookup};
use crate::refusal::{Code, Refusal};
use crate::task;
use crate::view::{LifeSource, View};

/// Why we believe that an agent is gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Evidence {
    pub last_seen: Timestamp,
    /// Where its last sign of life came from; `None` if it said itself that it goes offline.
    pub source: Option<LifeSource>,
    /// How long without a sign of life was allowed, in milliseconds.
    pub limit_millis: u64,
}

/// Refused if a newer sign of life than the evidence's is known where the decision is made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeclareOffline {
    pub agent: AgentId,
    pub evidence: Evidence,
}

/// What an agent held when it went offline.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<LostFile>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostFile {
    pub path: FilePath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentWentOffline {
    pub agent: AgentId,
    pub evidence: Evidence,
    pub lost: Lost,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgentReturned {
    pub agent: AgentId,
}

impl DeclareOffline {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let mut asks = freeing_asks(&self.agent);
        asks.push(Ask::Presence(self.agent.clone()));
        asks
    }

    pub(crate) fn decide(&self, view: &View) -> Result<Decision, Halt> {
        let agent = view.agent_known(&self.agent)?;
        let seen = view.presence(&self.agent)?.map(|presence| presence.last_seen);
        if !agent.is_live() || seen.is_some_and(|seen| seen > self.evidence.last_seen) {
            return Err(Refusal::new(Code::Stale, format!("agent '{}' is not silent any more", self.agent)).into());
        }
        Ok(Decision::new(goes_offline(view, agent, &self.evidence)?, Reply::Done))
    }
}

/// Everything that follows when an agent is no longer there to hold it.
pub(super) fn goes_offline(view: &View, agent: &Agent, evidence: &Evidence) -> Result<Vec<Fact>, Halt> {
    let (freed, lost) = frees(view, &agent.id, ReleaseReason::HolderOffline)?;
    let gone = AgentWentOffline { agent: agent.id.clone(), evidence: evidence.clone(), lost };
    let mut facts = vec![Fact::AgentWentOffline(gone)];
    facts.extend(freed);
    facts.extend(successor(view, &agent.id)?);
    Ok(facts)
}

pub(super) fn freeing_asks(agent: &AgentId) -> Vec<Ask> {
    vec![
        Key::Agent(agent.clone()).into(),
        Key::Lead.into(),
        Lookup::LiveAgents.into(),
        Lookup::TasksHeldBy(agent.clone()).into(),
        Lookup::FilesHeldBy(agent.clone()).into(),
    ]
}

/// Returns its tasks to the queue, each with a recovery checkpoint, and frees its files.
pub(super) fn frees(view: &View, agent: &AgentId, reason: ReleaseReason) -> Result<(Vec<Fact>, Lost), Halt> {
    let (mut facts, mut lost) = (Vec::new(), Lost::default());
    for held in view.tasks_held_by(agent)? {
        if held.claim.is_some() {
            lost.tasks.push(held.id.clone());
            facts.push(task::recovery(held, reason));
        }
        facts.push(task::released(held, task::Because::Holder(reason)));
    }
    for file in view.files_held_by(agent)? {
        let task = file.claim.as_ref().and_then(|claim| claim.task.clone());
        lost.files.push(LostFile { path: file.path.clone(), task });
        facts.extend(FileReleased::facts(file, reason));
    }
    Ok((facts, lost))
}
