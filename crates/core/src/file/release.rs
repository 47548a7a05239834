//! Giving a path back.

use serde::{Deserialize, Serialize};

use super::{ConflictResolved, File, FilePath, conflicts_about};
use crate::actor::Caller;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::AgentId;
use crate::key::{Ask, Key};
use crate::task::check_fence;
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReleaseFile {
    pub path: FilePath,
    pub agent: AgentId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseReason {
    Released,
    TaskEnded,
    Reassigned,
    HolderLeft,
    HolderOffline,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileReleased {
    pub path: FilePath,
    pub holder: AgentId,
    pub because: ReleaseReason,
}

impl ReleaseFile {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::file(&self.path).into(), Key::Lead.into(), Key::Agent(self.agent.clone()).into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        let not = |reason: String| Ok(Decision::nothing(Reply::NotReleased { reason }));
        let Some(file) = view.file(self.path.key())? else {
            return not(format!("{} is not tracked", self.path));
        };
        let Some(claim) = &file.claim else { return not(format!("{} is not claimed", self.path)) };
        check_fence(caller, caller.fence.and(Some(claim.fence)))?;
        if claim.holder != self.agent && !view.has_authority(caller)? {
            return not(format!("{} is claimed by {}", self.path, claim.holder));
        }
        view.may_speak_for(caller, &self.agent)?;
        Ok(Decision::new(freed(view, &[file], ReleaseReason::Released)?, Reply::Released))
    }
}

/// Frees these paths; the conflicts about them are settled by that.
pub(crate) fn freed(view: &View, files: &[&File], because: ReleaseReason) -> Result<Vec<Fact>, Halt> {
    let mut facts: Vec<Fact> =
        conflicts_about(view, files)?.into_iter().filter_map(ConflictResolved::without_winner).collect();
    facts.extend(files.iter().filter_map(|file| {
        let holder = file.holder()?.clone();
        Some(Fact::FileReleased(FileReleased { path: file.path.clone(), holder, because }))
    }));
    Ok(facts)
}
