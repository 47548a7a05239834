//! Other stores that share a folder of artifacts: copies, and those that a restored backup was put in place of. What one of
//! them names is not collected by another.
//!
//! They are looked for where they come to be: beside the database, beside the folder of artifacts, and in the project.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::connection::{APPLICATION_ID, has_table, identity};
use super::integrity::open_existing;
use super::migrate;
use crate::offline::OfflineError;

/// How the header of a database begins, and where in it the application's id stands.
const MAGIC: &[u8] = b"SQLite format 3\0";
const ID_AT: usize = 68;

/// Whether another store names this artifact. One that cannot be read may.
pub(super) fn name(own: &Path, artifacts: &Path, sha256: &str) -> bool {
    others(own, artifacts).iter().any(|path| {
        names(path, sha256).unwrap_or_else(|error| {
            tracing::warn!(%error, store = %path.display(), "a store beside this one cannot be read: its artifacts stay");
            true
        })
    })
}

fn others(own: &Path, artifacts: &Path) -> Vec<PathBuf> {
    let beside = artifacts.parent();
    let folders = [own.parent(), beside, beside.and_then(Path::parent)];
    let files = folders.into_iter().flatten().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = files.map(|entry| entry.path()).filter(|path| is_store(path)).collect();
    found.sort();
    found.dedup();
    found.retain(|path| identity(path) != identity(own));
    found
}

/// Whether a file says in its header that it is a store: others are not opened.
fn is_store(path: &Path) -> bool {
    let mut header = [0; ID_AT + 4];
    let read = path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok();
    read && header.starts_with(MAGIC) && header[ID_AT..] == APPLICATION_ID.to_be_bytes()
}

fn names(path: &Path, sha256: &str) -> Result<bool, OfflineError> {
    let store = open_existing(path)?;
    // A backup has its artifacts within, and a store that moved away names what the one names that it became.
    if has_table(&store, "backup_artifacts")? || migrate::moved_to(&store)?.is_some() {
        return Ok(false);
    }
    Ok(in_log(&store, sha256)? || in_refs(&store, sha256)?)
}

fn in_log(store: &Connection, sha256: &str) -> rusqlite::Result<bool> {
    store.prepare("SELECT 1 FROM log WHERE body_hash = ?1 AND body_in = 'artifact'")?.exists([sha256])
}

fn in_refs(store: &Connection, sha256: &str) -> rusqlite::Result<bool> {
    store.prepare("SELECT 1 FROM artifact_refs WHERE sha256 = ?1")?.exists([sha256])
}
