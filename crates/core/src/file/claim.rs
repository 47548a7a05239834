//! Claiming a path before changing it. A trailing slash claims the whole subtree.

use serde::{Deserialize, Serialize};

use super::{File, FilePath};
use crate::actor::Caller;
use crate::agent::wakes;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::file::FileReleased;
use crate::id::{AgentId, TaskId};
use crate::key::{Ask, Key, Lookup};
use crate::refusal::{Code, Refusal};
use crate::view::View;

/// What to do about claims of others that stand in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Insist {
    #[default]
    Ask,
    /// Take them over; only for the lead and people.
    Force,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClaimFile {
    pub path: FilePath,
    pub agent: AgentId,
    pub task: Option<TaskId>,
    /// The content's hash when it was asked for.
    pub hash: String,
    pub insist: Insist,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileClaimed {
    pub path: FilePath,
    pub agent: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub hash: String,
    /// The holder it was handed over by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
}

/// A claim was taken from its holder by authority.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClaimForced {
    pub path: FilePath,
    pub loser: AgentId,
    pub winner: AgentId,
}

/// Whether a claim was granted. Being told no is an ordinary answer, not an error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimReply {
    Granted,
    Refused { owner: Option<AgentId>, reason: String },
}

impl ClaimFile {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let mut asks = overlap_asks(&self.path);
        asks.push(Key::Agent(self.agent.clone()).into());
        asks.push(Key::Lead.into());
        asks.extend(self.task.iter().map(|task| Key::Task(task.clone()).into()));
        asks
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let refused = |owner: Option<&AgentId>, reason: String| {
            Ok(Decision::nothing(Reply::Claim(ClaimReply::Refused { owner: owner.cloned(), reason })))
        };
        match view.agent(&self.agent)? {
            Some(agent) if !agent.has_left() => {}
            _ => return refused(None, format!("Agent {} is not registered", self.agent)),
        }
        view.may_speak_for(caller, &self.agent)?;
        if let Some(task) = &self.task
            && view.task(task)?.is_none()
        {
            return Err(
                Refusal::new(Code::UnknownReference, format!("task_id: {task} is not a task known here")).into()
            );
        }
        let own = view.file(self.path.key())?;
        if own.and_then(File::holder) == Some(&self.agent) {
            return Ok(Decision::nothing(Reply::Claim(ClaimReply::Granted)));
        }
        if let Some(file) = standing(view, &self.path)?.into_iter().find(|file| file.locked_by.is_some()) {
            let by = file.locked_by.as_deref().unwrap_or_default();
            return refused(file.holder(), format!("Resource locked by {by}"));
        }
        let others = overlapping(view, &self.path, &self.agent)?;
        let mut forced = Vec::new();
        if let Some(other) = others.first() {
            let owner = other.holder();
            if self.insist == Insist::Ask {
                let name = owner.map_or("another agent", AgentId::as_str);
                let how = if other.path == self.path { "".to_owned() } else { format!(" through {}", other.path) };
                return refused(owner, format!("Resource claimed by {name}{how}"));
            }
            view.needs_authority(caller, "force a claim")?;
            forced = others;
        }
        let mut facts = wakes(view, &self.agent)?;
        facts.extend(forced.into_iter().flat_map(|file| ClaimForced::facts(file, &self.agent)));
        // It may be among what the agent gets back.
        let returned = |fact: &Fact| matches!(fact, Fact::FileClaimed(claimed) if claimed.path == self.path);
        if !facts.iter().any(returned) {
            facts.push(Fact::FileClaimed(FileClaimed {
                path: self.path.clone(),
                agent: self.agent.clone(),
                task: self.task.clone(),
                hash: self.hash.clone(),
                from: None,
            }));
        }
        Ok(Decision::new(facts, Reply::Claim(ClaimReply::Granted)))
    }
}

impl ClaimForced {
    /// Takes a claim from its holder, and with it the conflict about it.
    pub(crate) fn facts(file: &File, winner: &AgentId) -> Vec<Fact> {
        let Some(loser) = file.holder() else { return vec![] };
        let forced = ClaimForced { path: file.path.clone(), loser: loser.clone(), winner: winner.clone() };
        let mut facts: Vec<Fact> = FileReleased::settles(file).into_iter().collect();
        facts.push(Fact::ClaimForced(forced));
        facts
    }
}

fn overlap_asks(path: &FilePath) -> Vec<Ask> {
    let mut asks: Vec<Ask> = vec![Key::file(path).into(), Lookup::HeldUnder(path.below()).into()];
    asks.extend(path.covers().into_iter().map(|key| Key::File(key).into()));
    asks
}

/// Every claimed or locked path that is this one, above it or below it.
fn standing<'v>(view: &'v View, path: &FilePath) -> Result<Vec<&'v File>, Halt> {
    let missing: Vec<Ask> = overlap_asks(path).into_iter().filter(|ask| !view.knows(ask)).collect();
    if !missing.is_empty() {
        return Err(Halt::Missing(missing));
    }
    let mut files: Vec<&File> = view.file(path.key())?.into_iter().collect();
    for key in path.covers() {
        files.extend(view.file(&key)?);
    }
    for file in view.files_held_under(&path.below())? {
        if !files.iter().any(|known| known.path.key() == file.path.key()) {
            files.push(file);
        }
    }
    Ok(files)
}

/// The claims of agents other than `agent` that overlap with the path, the path's own first.
pub fn overlapping<'v>(view: &'v View, path: &FilePath, agent: &AgentId) -> Result<Vec<&'v File>, Halt> {
    let files = standing(view, path)?;
    Ok(files.into_iter().filter(|file| file.holder().is_some_and(|holder| holder != agent)).collect())
}
