//! Locks: the lead or a person keeps everybody from claiming a path.

use serde::{Deserialize, Serialize};

use crate::model::file::File;
use crate::model::file_path::FilePath;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

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

impl Event for FileLocked {
    const KIND: &'static str = "file.locked";

    fn subject(&self) -> Subject<'_> {
        Subject { path: Some(&self.path), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path)]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        File::change(rows, &self.path, |file| file.locked_by = Some(self.by.clone()));
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileUnlocked {
    pub path: FilePath,
    pub by: String,
}

impl Event for FileUnlocked {
    const KIND: &'static str = "file.unlocked";

    fn subject(&self) -> Subject<'_> {
        Subject { path: Some(&self.path), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path)]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        File::change(rows, &self.path, |file| file.locked_by = None);
    }
}

impl Command for LockFile {
    const NAME: &'static str = "LockFile";

    type Reply = File;

    fn read_set(&self) -> ReadSet {
        vec![Key::file(&self.path).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<File>, Undecided> {
        cx.view.ensure_authority(cx.caller, "lock a path")?;
        if cx.view.find_file(self.path.key())?.is_some_and(|file| file.locked_by.is_some()) {
            return Ok(Decision::unchanged(ReplySource::row(self.path.key().to_owned())));
        }
        let fact = AnyEvent::new(FileLocked { path: self.path.clone(), by: cx.caller.actor.to_string() });
        Ok(Decision::new(vec![fact], ReplySource::row(self.path.key().to_owned())))
    }
}

impl Command for UnlockFile {
    const NAME: &'static str = "UnlockFile";

    type Reply = File;

    fn read_set(&self) -> ReadSet {
        vec![Key::file(&self.path).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<File>, Undecided> {
        cx.view.ensure_authority(cx.caller, "unlock a path")?;
        let file = cx.view.file(&self.path)?;
        if file.locked_by.is_none() {
            return Ok(Decision::unchanged(ReplySource::row(self.path.key().to_owned())));
        }
        let fact = AnyEvent::new(FileUnlocked { path: self.path.clone(), by: cx.caller.actor.to_string() });
        Ok(Decision::new(vec![fact], ReplySource::row(self.path.key().to_owned())))
    }
}
