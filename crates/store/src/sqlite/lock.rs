//! One daemon for each store: a lock file beside the database, held for as long as the process lives.
//!
//! The kernel gives the lock up with the process, so there is nothing to clean up after a crash. Readers need no lock.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::error::OpenError;

/// Who holds a store, as its lock file tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub url: Option<String>,
}

#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of the database at `path`, or names who has it. Never waits.
    pub(super) fn take(path: &Path) -> Result<Lock, OpenError> {
        let lock_path = lock_path(path);
        let failed = |source: std::io::Error| OpenError::Lock { path: lock_path.clone(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = read(&mut file);
                return Err(OpenError::Locked {
                    pid: holder.as_ref().map(|holder| holder.pid),
                    url: holder.and_then(|holder| holder.url),
                });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        let mut lock = Lock { file };
        lock.announce(None).map_err(failed)?;
        Ok(lock)
    }

    /// Says where the daemon can be reached.
    pub(super) fn announce(&mut self, url: Option<&str>) -> std::io::Result<()> {
        let holder = Holder { pid: std::process::id(), url: url.map(str::to_owned) };
        let mut line = serde_json::to_vec(&holder)?;
        line.push(b'\n');
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&line)
    }
}

/// Who holds the store at `path` right now, if anybody does.
pub fn holder(path: &Path) -> Option<Holder> {
    let mut file = File::open(lock_path(path)).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => read(&mut file),
        _ => None,
    }
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(text.trim()).ok()
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    path.with_file_name(name)
}

/// Refuses file systems where the readers and the writer would not share memory.
pub(super) fn refuse_network(folder: &Path) -> Result<(), OpenError> {
    match network_kind(folder) {
        Some(kind) => Err(OpenError::NetworkFileSystem { path: folder.to_owned(), kind }),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn network_kind(folder: &Path) -> Option<String> {
    const FUSE: u64 = 0x6573_5546;
    const NETWORKS: [(u64, &str); 6] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB2"),
        (0x5346_414f, "AFS"),
        (0x00c3_6400, "Ceph"),
    ];
    let found = rustix::fs::statfs(folder).ok()?;
    let magic = u64::try_from(found.f_type).ok()? & 0xffff_ffff;
    if let Some((_, name)) = NETWORKS.iter().find(|(known, _)| *known == magic) {
        return Some((*name).to_owned());
    }
    // Many local file systems are FUSE, too; only the mount tells which one it is.
    if magic == FUSE { fuse_kind(folder) } else { None }
}

#[cfg(target_os = "linux")]
fn fuse_kind(folder: &Path) -> Option<String> {
    const NETWORKS: [&str; 5] = ["fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.gcsfuse"];
    let device = rustix::fs::stat(folder).ok()?.st_dev;
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device.as_str()))?;
    let kind = mount.split(" - ").nth(1)?.split(' ').next()?;
    NETWORKS.contains(&kind).then(|| kind.to_owned())
}

#[cfg(not(target_os = "linux"))]
fn network_kind(_folder: &Path) -> Option<String> {
    None
}
