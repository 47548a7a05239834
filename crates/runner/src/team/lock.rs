//! The lock that allows one runner per team on a machine. It ends with the process, also after a crash.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rookery_core::TeamId;
use rustix::fs::{FlockOperation, flock};

/// The lock file. No agent's folder, named after the agent, can have this name.
const LOCK: &str = ".lock";

/// The team's folder below `.rookery/run/`, locked by this process.
#[derive(Debug)]
pub(super) struct TeamLock {
    pub(super) folder: PathBuf,
    _lock: File,
}

impl TeamLock {
    /// The folder for records of running programs.
    pub(super) fn records(&self) -> PathBuf {
        self.folder.join(".processes")
    }
}

/// The reason why a team's folder could not be locked.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another runner on this machine holds the lock.
    HeldBy {
        pid: String,
    },
    Io(io::Error),
}

/// The folder of a team's state. Characters that are unsafe in a folder name are escaped, so that no two teams share a folder.
pub fn state_folder(project: &Path, team: &TeamId) -> PathBuf {
    let mut name = String::new();
    for byte in team.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'@' => name.push(char::from(byte)),
            b'.' if !name.is_empty() => name.push('.'),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    project.join(".rookery").join("run").join(name)
}

/// Creates a folder that only its owner can read.
pub(super) fn create_private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn hold(folder: PathBuf) -> Result<TeamLock, LockError> {
    create_private_folder(&folder).map_err(LockError::Io)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let mut lock = options.open(folder.join(LOCK)).map_err(LockError::Io)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            // For the error message only.
            lock.read_to_string(&mut pid).ok();
            return Err(LockError::HeldBy { pid: pid.trim().to_owned() });
        }
        Err(error) => return Err(LockError::Io(error.into())),
    }
    let write = |lock: &mut File| -> io::Result<()> {
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id())
    };
    write(&mut lock).map_err(LockError::Io)?;
    Ok(TeamLock { folder, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_team_has_its_own_folder() {
        let folder = |team: &str| {
            let folder = state_folder(Path::new("/p"), &TeamId::from(team));
            folder.strip_prefix("/p/.rookery/run").unwrap().to_str().unwrap().to_owned()
        };
        for (team, name) in [("@pr-123", "@pr-123"), ("helper@v1.2", "helper@v1.2"), ("@a/b", "@a%2fb"), ("..", "%2e.")]
        {
            assert_eq!(folder(team), name);
        }
    }

    #[test]
    fn second_lock_of_a_team_is_rejected_until_the_first_is_dropped() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("run").join("@x");
        let held = hold(folder.clone()).unwrap();
        match hold(folder.clone()) {
            Err(LockError::HeldBy { pid }) => assert_eq!(pid, std::process::id().to_string()),
            other => panic!("{other:?}"),
        }
        drop(held);
        assert!(hold(folder).is_ok());
    }
}
