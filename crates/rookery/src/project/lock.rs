//! The lock that lets one daemon, or one offline command, have the project to itself.
//!
//! The lock is the proof that a daemon lives: the system drops it with its process, however that ends. The file holds
//! the holder's process id, so that `down` never signals a stranger that got a recycled id.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::Duration;

use super::{Project, ProjectError};

/// Another command looks at the lock for an instant to see whether it is held; that must not fail a start.
const ATTEMPTS: u32 = 20;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Who has the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    Nobody,
    Process(u32),
    /// Somebody, who has not written an id yet.
    Unnamed,
}

/// The project, held exclusively until this is dropped.
#[derive(Debug)]
pub struct ProjectLock {
    file: File,
}

impl Drop for ProjectLock {
    fn drop(&mut self) {
        // Closing is not enough while a child that is just being started still has a copy of the file.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "cannot unlock the project");
        }
    }
}

impl ProjectLock {
    /// Takes the project, or says which process has it. The project must be prepared.
    pub fn acquire(project: &Project) -> Result<Self, ProjectError> {
        let written = |source| ProjectError::Write { path: project.lock_file(), source };
        let mut file = open(project)?;
        for attempt in 1..=ATTEMPTS {
            match file.try_lock() {
                Ok(()) => {
                    file.set_len(0).map_err(written)?;
                    file.write_all(std::process::id().to_string().as_bytes()).map_err(written)?;
                    return Ok(Self { file });
                }
                Err(TryLockError::Error(source)) => return Err(written(source)),
                Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => thread::sleep(POLL_INTERVAL),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        Err(ProjectError::Served { root: project.root().to_path_buf(), pid: written_pid(&mut file) })
    }

    /// Who has the project now.
    pub fn holder(project: &Project) -> Result<Holder, ProjectError> {
        if !project.lock_file().exists() {
            return Ok(Holder::Nobody);
        }
        let mut file = open(project)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Holder::Nobody),
            Err(TryLockError::WouldBlock) => Ok(written_pid(&mut file).map_or(Holder::Unnamed, Holder::Process)),
            Err(TryLockError::Error(source)) => Err(ProjectError::Read { path: project.lock_file(), source }),
        }
    }
}

fn open(project: &Project) -> Result<File, ProjectError> {
    let path = project.lock_file();
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    opened.map_err(|source| ProjectError::Write { path, source })
}

fn written_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_who_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        assert_eq!(ProjectLock::holder(&project).unwrap(), Holder::Nobody);
        project.prepare().unwrap();
        let lock = ProjectLock::acquire(&project).unwrap();
        let own = std::process::id();
        assert_eq!(ProjectLock::holder(&project).unwrap(), Holder::Process(own));
        let refused = ProjectLock::acquire(&project).unwrap_err();
        assert!(matches!(refused, ProjectError::Served { pid: Some(pid), .. } if pid == own), "{refused}");
        drop(lock);
        assert_eq!(ProjectLock::holder(&project).unwrap(), Holder::Nobody);
        ProjectLock::acquire(&project).unwrap();
    }
}
