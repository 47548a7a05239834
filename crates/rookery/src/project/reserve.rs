//! `reserve`: room on the project's disk that a start on a full disk gives up.
//!
//! A start needs a few new blocks: the shared memory of SQLite, which a clean stop removes, and `daemon.json`. Without the
//! reserve, a daemon that stopped cleanly could not even be started to read. The rest of the room is taken back as soon as
//! the daemon serves, so that commands do not use it up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{Project, ProjectLock};

/// Enough for the shared memory over a write-ahead log of its largest usual size.
const RESERVE_BYTES: u64 = 512 << 10;
const BLOCK_BYTES: usize = 4096;

/// The room that a project has set aside.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Gives the reserve up if the disk has no other room. Only the holder of the project may do so.
    pub fn open(project: &Project, _held: &ProjectLock) -> Reserve {
        let reserve = Reserve { path: project.folder().join("reserve") };
        let probe = project.folder().join("reserve.probe");
        let has_room = fill(&probe).is_ok();
        drop(fs::remove_file(&probe));
        if !has_room {
            tracing::warn!("the disk is full; the daemon starts in the room of its reserve");
            drop(fs::remove_file(&reserve.path));
        }
        reserve
    }

    /// Sets aside what is missing, as far as there is room.
    pub fn refill(&self) {
        if let Err(error) = fill(&self.path) {
            tracing::debug!(%error, "the reserve is smaller than it should be");
        }
    }
}

/// Writes a file up to the size of the reserve. One that cannot have all of it keeps the rest.
fn fill(path: &Path) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mut bytes = file.seek(SeekFrom::End(0))?;
    while bytes < RESERVE_BYTES {
        file.write_all(&[0; BLOCK_BYTES])?;
        bytes += BLOCK_BYTES as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_on_a_disk_with_room_is_kept_and_refilled() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        project.prepare().unwrap();
        let lock = ProjectLock::acquire(&project).unwrap();
        let size = || fs::metadata(project.folder().join("reserve")).map(|file| file.len()).ok();
        Reserve::open(&project, &lock).refill();
        assert_eq!(size(), Some(RESERVE_BYTES));
        OpenOptions::new().write(true).open(project.folder().join("reserve")).unwrap().set_len(5_000).unwrap();
        let reserve = Reserve::open(&project, &lock);
        assert_eq!(size(), Some(5_000));
        reserve.refill();
        assert!(size().is_some_and(|size| size >= RESERVE_BYTES));
        assert!(!project.folder().join("reserve.probe").exists());
    }
}
