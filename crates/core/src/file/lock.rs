//! Locks: the lead or a person keeps everybody from claiming a path.

use serde::{Deserialize, Serialize};

use super::FilePath;
use crate::actor::Caller;
use crate::command::{Decision, Reply, Undecided};
use crate::fact::AnyEvent;
use crate::key::{Ask, Key};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LockFile {
    pub path: FilePath,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnlockFile {
    pub path: FilePath,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileLocked {
    pub path: FilePath,
    pub by: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileUnlocked {
    pub path: FilePath,
    pub by: String,
}

impl LockFile {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::file(&self.path).into(), Key::Lead.into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Undecided> {
        view.ensure_authority(caller, "lock a path")?;
        if view.find_file(self.path.key())?.is_some_and(|file| file.locked_by.is_some()) {
            return Ok(Decision::nothing(Reply::Row(Key::file(&self.path))));
        }
        let fact = AnyEvent::FileLocked(FileLocked { path: self.path.clone(), by: caller.actor.to_string() });
        Ok(Decision::new(vec![fact], Reply::Row(Key::file(&self.path))))
    }
}

impl UnlockFile {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::file(&self.path).into(), Key::Lead.into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Undecided> {
        view.ensure_authority(caller, "unlock a path")?;
        let file = view.file(&self.path)?;
        if file.locked_by.is_none() {
            return Ok(Decision::nothing(Reply::Row(Key::file(&self.path))));
        }
        let fact = AnyEvent::FileUnlocked(FileUnlocked { path: self.path.clone(), by: caller.actor.to_string() });
        Ok(Decision::new(vec![fact], Reply::Row(Key::file(&self.path))))
    }
}
