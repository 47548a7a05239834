//! One runner per team on a machine: a lock that ends with the process, however it ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rookery_core::TeamId;
use rustix::fs::{FlockOperation, flock};

/// Agents have folders of their names beside it, and none is called like this.
const LOCK: &str = ".lock";

/// The team's folder below `.rookery/run/`, held by this process.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) folder: PathBuf,
    _lock: File,
}

impl Held {
    /// Where it is written down which programs run.
    pub(super) fn records(&self) -> PathBuf {
        self.folder.join(".processes")
    }
}

/// Why a team's folder is not ours.
#[derive(Debug)]
pub(super) enum NotHeld {
    /// Another runner of this machine has it.
    By {
        pid: String,
    },
    Io(io::Error),
}

/// Where the state of a team is kept: what cannot stand in the name of a folder is written otherwise, and two teams never
/// share one.
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

/// A folder that only its owner can look into.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn hold(folder: PathBuf) -> Result<Held, NotHeld> {
    private_folder(&folder).map_err(NotHeld::Io)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let mut lock = options.open(folder.join(LOCK)).map_err(NotHeld::Io)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            // Only told to people.
            let _unread = lock.read_to_string(&mut pid);
            return Err(NotHeld::By { pid: pid.trim().to_owned() });
        }
        Err(error) => return Err(NotHeld::Io(error.into())),
    }
    let write = |lock: &mut File| -> io::Result<()> {
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id())
    };
    write(&mut lock).map_err(NotHeld::Io)?;
    Ok(Held { folder, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_team_has_a_folder_of_its_own() {
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
    fn a_team_is_held_once_and_free_again_afterwards() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("run").join("@x");
        let held = hold(folder.clone()).unwrap();
        match hold(folder.clone()) {
            Err(NotHeld::By { pid }) => assert_eq!(pid, std::process::id().to_string()),
            other => panic!("{other:?}"),
        }
        drop(held);
        assert!(hold(folder).is_ok());
    }
}
