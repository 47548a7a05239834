//! The file row: its claim, its lock and its conflicts.

use serde::{Deserialize, Serialize};

use super::file_path::FilePath;
use super::{Column, ColumnValue, Entity, EventStamp, RowWriter};
use crate::kernel::id::{AgentId, Seq, SiteId, TaskId, Timestamp};

/// Whether a claim was granted. Being told no is an ordinary answer, not an error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileClaimOutcome {
    Granted,
    /// Granted, but for no task: the task that was named is not known, so the claim stays until it is released.
    GrantedWithoutTask {
        task: TaskId,
    },
    Refused {
        owner: Option<AgentId>,
        reason: String,
    },
}

/// Whether a claim was released.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileReleaseOutcome {
    Released,
    NotReleased { reason: String },
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileState {
    Free,
    Claimed,
    Locked,
    Conflicted,
}

impl FileState {
    pub fn as_str(self) -> &'static str {
        match self {
            FileState::Free => "free",
            FileState::Claimed => "claimed",
            FileState::Locked => "locked",
            FileState::Conflicted => "conflicted",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileClaim {
    pub holder: AgentId,
    pub fence: Seq,
    pub since: Timestamp,
    pub task: Option<TaskId>,
}

/// Somebody else changed what an agent holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Conflict {
    pub holder: AgentId,
    pub intruder: AgentId,
    pub since: Timestamp,
}

/// A path that was claimed, locked or changed at some time. It stays tracked when it is free again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct File {
    pub path: FilePath,
    pub claim: Option<FileClaim>,
    pub locked_by: Option<String>,
    pub conflict: Option<Conflict>,
    pub last_modified_by: Option<AgentId>,
    /// SHA-256 of the content as last known; empty for a missing file or a folder.
    pub content_hash: String,
    /// Where that content was seen, if the project has more than one folder and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// What it was before changes that nobody was credited with: whoever reports them explains them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_since: Option<String>,
}

impl Entity for File {
    type Id = String;

    const TABLE: &'static str = "files";
    const COLUMNS: &'static [Column] =
        &[Column::text("holder"), Column::text("held_key"), Column::text("task"), Column::text("state")];

    fn columns(&self) -> Vec<ColumnValue> {
        let held = self.claim.is_some() || self.locked_by.is_some() || self.conflict.is_some();
        vec![
            self.holder().map(ToString::to_string).into(),
            held.then(|| self.path.key().to_owned()).into(),
            self.claim.as_ref().and_then(|claim| claim.task.as_ref()).map(ToString::to_string).into(),
            self.state().as_str().into(),
        ]
    }

    fn tallies(&self) -> Vec<&'static str> {
        let mut tallies = vec![tally::FILES];
        if self.claim.is_some() {
            tallies.push(tally::FILES_CLAIMED);
        }
        if self.conflict.is_some() {
            tallies.push(tally::FILES_CONFLICTED);
        }
        tallies
    }
}

impl File {
    fn tracked(path: &FilePath) -> File {
        File {
            path: path.clone(),
            claim: None,
            locked_by: None,
            conflict: None,
            last_modified_by: None,
            content_hash: String::new(),
            site: None,
            unexplained_since: None,
        }
    }

    /// Changes the row of a path, which is tracked from now on if it was not before.
    pub(crate) fn change(rows: &mut RowWriter<'_>, path: &FilePath, change: impl FnOnce(&mut File)) {
        rows.replace(path.key().to_owned(), |old: Option<File>| {
            let mut file = old.unwrap_or_else(|| File::tracked(path));
            change(&mut file);
            Some(file)
        });
    }

    /// Gives the claim to an agent, and ends that of the previous holder.
    pub(crate) fn claim_for(&mut self, agent: &AgentId, task: Option<&TaskId>, stamp: EventStamp) {
        let task = task.cloned();
        self.claim = Some(FileClaim { holder: agent.clone(), fence: stamp.seq, since: stamp.at, task });
    }

    /// Records the content as it was seen last.
    pub(crate) fn set_content(&mut self, hash: &str, site: Option<&SiteId>) {
        self.content_hash = hash.to_owned();
        self.site = site.cloned();
    }

    /// Credits an agent with the changes, or remembers the content from before them until somebody explains them.
    pub(crate) fn credit(&mut self, by: Option<&AgentId>, before: &str) {
        if by.is_some() {
            self.last_modified_by = by.cloned();
            self.unexplained_since = None;
        } else {
            self.unexplained_since.get_or_insert_with(|| before.to_owned());
        }
    }

    /// Ends the conflict. The claim passes to the winner, if there are both and it is not the holder already.
    pub(crate) fn resolve_conflict(&mut self, winner: Option<&AgentId>, stamp: EventStamp) {
        self.conflict = None;
        if let Some(winner) = winner
            && self.holder().is_some_and(|holder| holder != winner)
        {
            self.claim_for(winner, None, stamp);
        }
    }

    pub fn holder(&self) -> Option<&AgentId> {
        self.claim.as_ref().map(|claim| &claim.holder)
    }

    pub fn state(&self) -> FileState {
        if self.conflict.is_some() {
            FileState::Conflicted
        } else if self.locked_by.is_some() {
            FileState::Locked
        } else if self.claim.is_some() {
            FileState::Claimed
        } else {
            FileState::Free
        }
    }
}

pub mod tally {
    pub const FILES: &str = "files";
    pub const FILES_CLAIMED: &str = "files.claimed";
    pub const FILES_CONFLICTED: &str = "files.conflicted";
}
