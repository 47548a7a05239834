//! Backups: the database as it is at one moment and every artifact, in a single file.
//!
//! The database is copied first and the artifacts after it, so that none is missed that it names: those are not collected.
//! One that was redacted meanwhile is named in the report. A backup has its name only when it is complete and on disk.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use super::connection::{self, begin_reading, beside, stored};
use super::integrity::{check, ensure_not_empty, open_existing};
use crate::artifact::{ArtifactDir, hex, sync_folder};
use crate::offline::{OfflineError, Progress};
use crate::query::LogHead;

const PAGES_AT_ONCE: i32 = 1_024;
const PART_BYTES: usize = 1024 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupReport {
    pub head: LogHead,
    pub artifacts: u64,
    /// Artifacts that the log names and that are not there, or not what they were.
    pub missing: Vec<String>,
    pub bytes: u64,
}

/// Backs the store up into one file, while a daemon may write. The file is checked before it gets its name.
pub fn backup(
    path: &Path,
    artifacts: &ArtifactDir,
    to: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<BackupReport, OfflineError> {
    if fs::canonicalize(path).is_ok_and(|from| fs::canonicalize(to).is_ok_and(|to| from == to)) {
        return Err(exists(to));
    }
    ensure_not_empty(path)?;
    let partial = beside(to, ".partial");
    let report = fill(path, artifacts, &partial, progress).map_err(|error| match error {
        OfflineError::Damaged { .. } => error,
        error if error.is_damage() => OfflineError::Damaged { path: path.to_owned(), problem: sqlite_message(&error) },
        error => error,
    });
    finish(report, &partial, to)
}

/// The message of SQLite behind an error.
fn sqlite_message(error: &OfflineError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn fill(
    path: &Path,
    artifacts: &ArtifactDir,
    partial: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<BackupReport, OfflineError> {
    copy_into(path, partial, progress)?;
    let copy = connection::single_file(partial)?;
    let head = stored(&copy)?.head;
    let (stored, missing) = add_artifacts(&copy, artifacts)?;
    // A copy takes damaged pages as they are.
    if let Some(problem) = check(&copy)?.into_iter().next() {
        return Err(OfflineError::Damaged { path: path.to_owned(), problem });
    }
    copy.close().map_err(|(_, error)| error)?;
    let bytes = fs::metadata(partial).map_err(failed(partial))?.len();
    Ok(BackupReport { head, artifacts: stored, missing, bytes })
}

/// Copies a database into a single file.
pub(super) fn copy_database(from: &Path, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), OfflineError> {
    let partial = beside(to, ".partial");
    let copied = copy_into(from, &partial, progress);
    finish(copied, &partial, to)
}

/// Copies the database as it is at one moment, while others may write.
pub(super) fn copy_into(from: &Path, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), OfflineError> {
    let source = open_existing(from)?;
    // One transaction keeps the copy at one moment: without it, every write would make it begin again.
    begin_reading(&source)?;
    stored(&source)?;
    remove(to)?;
    connection::create_private(to).map_err(failed(to))?;
    let mut target = connection::single_file(to)?;
    {
        let copy = Backup::new(&source, &mut target)?;
        while copy.step(PAGES_AT_ONCE)? != StepResult::Done {
            let pages = copy.progress();
            let (total, left) = (u64::try_from(pages.pagecount), u64::try_from(pages.remaining));
            let (total, left) = (total.unwrap_or(0), left.unwrap_or(0));
            progress(Progress { done: total.saturating_sub(left), total });
        }
    }
    // The copy says that it has a write-ahead log, like its source; it shall be one file.
    target.execute_batch("PRAGMA journal_mode = DELETE")?;
    target.close().map_err(|(_, error)| error.into())
}

fn add_artifacts(copy: &Connection, artifacts: &ArtifactDir) -> Result<(u64, Vec<String>), OfflineError> {
    copy.execute_batch(
        "BEGIN;
         CREATE TABLE backup_artifacts (
            sha256 TEXT NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (sha256, part)
         ) STRICT;",
    )?;
    let named = named(copy)?;
    let there = artifacts.list().map_err(failed(artifacts.folder()))?;
    let (mut stored, mut missing) = (0, vec![]);
    for sha256 in named.iter().chain(there.iter().filter(|sha256| !named.contains(*sha256))) {
        if add_artifact(copy, artifacts, sha256)? {
            stored += 1;
        } else {
            copy.execute("DELETE FROM backup_artifacts WHERE sha256 = ?1", [sha256])?;
            missing.extend(named.get(sha256).cloned());
        }
    }
    copy.execute_batch("COMMIT")?;
    Ok((stored, missing))
}

/// The artifacts that the log names.
fn named(copy: &Connection) -> Result<BTreeSet<String>, OfflineError> {
    let sql = "SELECT body_hash FROM log WHERE body_in = 'artifact' UNION SELECT sha256 FROM artifact_refs";
    let mut named = copy.prepare(sql)?;
    Ok(named.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// Copies one artifact part by part. False if it is not there or not what it was.
fn add_artifact(copy: &Connection, artifacts: &ArtifactDir, sha256: &str) -> Result<bool, OfflineError> {
    let mut file = match artifacts.open(sha256) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(OfflineError::File { path: artifacts.folder().join(sha256), source }),
    };
    let mut insert = copy.prepare_cached("INSERT INTO backup_artifacts (sha256, part, bytes) VALUES (?1, ?2, ?3)")?;
    let mut digest = Sha256::new();
    let mut part = Vec::with_capacity(PART_BYTES);
    for number in 0_i64.. {
        part.clear();
        let limit = PART_BYTES as u64;
        (&mut file).take(limit).read_to_end(&mut part).map_err(failed(&artifacts.folder().join(sha256)))?;
        if part.is_empty() && number > 0 {
            break;
        }
        digest.update(&part);
        insert.execute(params![sha256, number, part])?;
    }
    Ok(hex(&digest.finalize()) == sha256)
}

/// Gives a complete file its name, or removes what there is of it.
fn finish<T>(made: Result<T, OfflineError>, partial: &Path, to: &Path) -> Result<T, OfflineError> {
    let placed = made.and_then(|made| put_in_place(partial, to).map(|()| made));
    if placed.is_err() {
        // The first failure is the one to tell.
        drop(fs::remove_file(partial));
    }
    placed
}

pub(super) fn remove(path: &Path) -> Result<(), OfflineError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

/// Makes a finished file durable and gives it its name.
pub(super) fn put_in_place(partial: &Path, to: &Path) -> Result<(), OfflineError> {
    fs::File::open(partial).and_then(|file| file.sync_all()).map_err(failed(partial))?;
    fs::rename(partial, to).map_err(failed(to))?;
    sync_folder(folder_of(to)).map_err(failed(to))
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn exists(path: &Path) -> OfflineError {
    OfflineError::Exists { store: path.display().to_string() }
}

pub(super) fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> OfflineError {
    let path = path.to_owned();
    move |source| OfflineError::File { path, source }
}
