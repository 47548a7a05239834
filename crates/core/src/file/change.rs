//! What changed in the project's files, and by whom as far as anybody can tell.
//!
//! A change to what one agent holds that comes from another is a conflict. A change that nobody can be credited with is
//! recorded with a warning and blamed on nobody.

use serde::{Deserialize, Serialize};

use super::{FilePath, overlapping};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Now, Reply};
use crate::fact::Fact;
use crate::id::{AgentId, Seq, TaskId, TimerId, Timestamp};
use crate::key::{Ask, Key, Lookup};
use crate::refusal::{Code, Refusal};
use crate::report::Report;
use crate::timer::conflict_timer;
use crate::view::View;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeSource {
    /// The watcher saw the content change.
    Watcher,
    /// An agent said that it changed the file.
    Report,
}

/// Evidence that a file's content changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NoteChange {
    pub path: FilePath,
    pub by: Option<AgentId>,
    pub before: Option<String>,
    pub after: Option<String>,
    pub source: ChangeSource,
    pub task: Option<TaskId>,
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// How long a conflict may stand before a person is asked.
    pub escalate_after_millis: u64,
}

/// A count of changes to files that nobody claimed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NoteOthers {
    pub changed: u64,
    pub sample: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileModified {
    pub path: FilePath,
    pub by: Option<AgentId>,
    pub before: String,
    pub after: String,
    pub source: ChangeSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FilesChanged {
    pub changed: u64,
    pub sample: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConflictDetected {
    pub path: FilePath,
    pub holder: AgentId,
    pub intruder: AgentId,
    pub before: String,
    pub after: String,
    pub timer: TimerId,
    pub escalate_at: Timestamp,
}

/// Nobody resolved a conflict in time: a person should look.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConflictEscalated {
    pub path: FilePath,
    pub holder: AgentId,
    pub intruder: AgentId,
    pub timer: TimerId,
    pub timer_version: Seq,
}

impl NoteChange {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        let mut asks: Vec<Ask> = vec![Key::file(&self.path).into(), Lookup::HeldUnder(self.path.below()).into()];
        asks.extend(self.path.covers().into_iter().map(|key| Key::File(key).into()));
        asks
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller, now: &Now) -> Result<Decision, Halt> {
        if let Some(by) = &self.by {
            view.may_speak_for(caller, by)?;
        }
        let known = view.file(self.path.key())?;
        let known_hash = known.map_or("", |file| file.content_hash.as_str());
        let before = self.before.clone().unwrap_or_else(|| known_hash.to_owned());
        let after = self.after.clone().unwrap_or_else(|| known_hash.to_owned());
        if self.source == ChangeSource::Watcher && known.is_some() && after == known_hash {
            return Ok(Decision::nothing(Reply::Done));
        }
        let mut facts = vec![Fact::FileModified(FileModified {
            path: self.path.clone(),
            by: self.by.clone(),
            before: before.clone(),
            after: after.clone(),
            source: self.source,
            task: self.task.clone(),
            warning: self.by.is_none().then(|| "nobody can be credited with this change".to_owned()),
            metadata: self.metadata.clone(),
        })];
        if let Some((holder, intruder)) = self.collision(view)?
            && known.and_then(|file| file.conflict.as_ref()).is_none()
        {
            facts.push(Fact::ConflictDetected(ConflictDetected {
                timer: conflict_timer(&self.path),
                escalate_at: now.at.plus_millis(self.escalate_after_millis),
                path: self.path.clone(),
                holder,
                intruder,
                before,
                after,
            }));
        }
        Ok(Decision::new(facts, Reply::Recorded))
    }

    /// The holder and the one who changed what it holds. Without an author, two holders of overlapping paths collide.
    fn collision(&self, view: &View) -> Result<Option<(AgentId, AgentId)>, Halt> {
        let nobody = AgentId::from("");
        let held = overlapping(view, &self.path, self.by.as_ref().unwrap_or(&nobody))?;
        let mut holders = held.into_iter().filter_map(|file| file.holder().cloned());
        let Some(first) = holders.next() else { return Ok(None) };
        Ok(match &self.by {
            Some(by) => Some((first, by.clone())),
            None => holders.find(|other| *other != first).map(|other| (first, other)),
        })
    }
}

impl NoteOthers {
    pub(crate) fn decide(&self) -> Result<Decision, Halt> {
        if self.changed == 0 {
            return Err(Refusal::new(Code::Invalid, "nothing changed").into());
        }
        let sample = self.sample.iter().take(Report::SAMPLE).cloned().collect();
        let fact = Fact::FilesChanged(FilesChanged { changed: self.changed, sample });
        Ok(Decision::new(vec![fact], Reply::Recorded))
    }
}
