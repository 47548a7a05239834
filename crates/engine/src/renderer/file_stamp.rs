//! Identities and states of files, as the operating system reports them.

use std::path::Path;

use rustix::fs;

/// The identity of a file, whatever its path and content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    /// The identity of the file at a path, if there is one.
    pub(super) fn at(path: &Path) -> Option<FileId> {
        fs::stat(path).ok().map(|stat| FileStamp::of(&stat).id())
    }
}

/// Tells one state of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileStamp {
    pub(super) fn id(&self) -> FileId {
        FileId { device: self.device, inode: self.inode }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The time of the last change, in epoch milliseconds.
    pub(super) fn changed_millis(&self) -> i64 {
        let millis = i64::try_from(self.changed.1 / 1_000_000).unwrap_or_default();
        self.changed.0.saturating_mul(1_000).saturating_add(millis)
    }

    pub(super) fn of(stat: &fs::Stat) -> FileStamp {
        FileStamp {
            device: to_u64(stat.st_dev),
            inode: to_u64(stat.st_ino),
            bytes: to_u64(stat.st_size),
            modified: (to_i64(stat.st_mtime), to_u64(stat.st_mtime_nsec)),
            changed: (to_i64(stat.st_ctime), to_u64(stat.st_ctime_nsec)),
        }
    }
}

/// The fields of a file's status have other types on other systems.
fn to_u64(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or_default()
}

fn to_i64(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or_default()
}
