//! Restoring a backup: a new history over the old facts. It is finished, or what was there before stays in place.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_core::LogId;
use rusqlite::Connection;

use super::backup::{copy_into, exists, failed, put_in_place, remove};
use super::connection::{self, beside, stored, wal_of};
use super::error::OpenError;
use super::integrity::{check, open_existing};
use super::lock::Lock;
use super::{FORMAT, checkpoint, migrate};
use crate::artifact::ArtifactDir;
use crate::migration::newest_version;
use crate::offline::{OfflineError, other_format};
use crate::query::LogHead;

/// What becomes of a store that stands where the restored one shall.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// Nothing is restored over it.
    Kept,
    /// It is kept under another name.
    SetAside,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreReport {
    pub head: LogHead,
    pub artifacts: u64,
    /// Where the store went that was there before.
    pub set_aside: Option<PathBuf>,
}

/// Makes a store out of a backup, with a log id of its own: positions of the old one do not fit it.
pub fn restore(
    from: &Path,
    path: &Path,
    artifacts: &ArtifactDir,
    log_id: &LogId,
    existing: Existing,
) -> Result<RestoreReport, OfflineError> {
    check_backup(from)?;
    super::prepare_folder(path)?;
    let _lock = Lock::take(path)?;
    if path.exists() && existing == Existing::Kept {
        return Err(exists(path));
    }
    let partial = beside(path, ".restoring");
    let restored = copy_into(from, &partial, &mut |_| {}).and_then(|()| settle(&partial, artifacts, log_id)).and_then(
        |(head, artifacts)| {
            let set_aside = if path.exists() { Some(set_aside(path)?) } else { None };
            put_in_place(&partial, path)?;
            Ok(RestoreReport { head, artifacts, set_aside })
        },
    );
    if restored.is_err() {
        // The first failure is the one to tell.
        drop(fs::remove_file(&partial));
    }
    restored
}

/// Refuses what is not whole, or newer than this program, before anything is touched.
fn check_backup(from: &Path) -> Result<(), OfflineError> {
    let not_one = |reason: String| OfflineError::NotABackup { path: from.to_owned(), reason };
    let connection = match open_existing(from) {
        Ok(connection) => connection,
        Err(OpenError::Foreign { .. }) => return Err(not_one("it is a database of another program".to_owned())),
        Err(OpenError::Sql { source, .. }) => return Err(not_one(source.to_string())),
        Err(error) => return Err(error.into()),
    };
    if let Some(problem) = check(&connection)?.into_iter().next() {
        return Err(OfflineError::Damaged { path: from.to_owned(), problem });
    }
    let newest = newest_version(migrate::MIGRATIONS);
    match migrate::version(&connection)? {
        None => return Err(not_one("it holds no store".to_owned())),
        Some(version) if version > newest => {
            return Err(not_one(format!("a newer program made it (schema {version})")));
        }
        Some(_) => {}
    }
    let format = stored(&connection)?.format;
    if format > FORMAT {
        return Err(not_one(other_format(format)));
    }
    Ok(())
}

/// Takes the artifacts out of the copy and makes it a history of its own.
fn settle(partial: &Path, artifacts: &ArtifactDir, log_id: &LogId) -> Result<(LogHead, u64), OfflineError> {
    let copy = connection::single_file(partial)?;
    let count = take_artifacts(&copy, artifacts)?;
    copy.execute("UPDATE log_head SET log_id = ?1", [log_id.as_str()])?;
    migrate::mark_clean(&copy)?;
    // A history of its own goes on here, wherever the one it came from went.
    migrate::mark_here(&copy)?;
    if count > 0 {
        copy.execute_batch("VACUUM")?;
    }
    let head = stored(&copy)?.head;
    copy.close().map_err(|(_, error)| error)?;
    Ok((head, count))
}

fn take_artifacts(copy: &Connection, artifacts: &ArtifactDir) -> Result<u64, OfflineError> {
    if !connection::has_table(copy, "backup_artifacts")? {
        return Ok(0);
    }
    let names: Vec<String> = copy
        .prepare("SELECT DISTINCT sha256 FROM backup_artifacts")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut parts = copy.prepare("SELECT bytes FROM backup_artifacts WHERE sha256 = ?1 ORDER BY part")?;
    for name in &names {
        let mut partial = artifacts.begin().map_err(failed(artifacts.folder()))?;
        let mut rows = parts.query([name])?;
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
            partial.write(bytes).map_err(failed(artifacts.folder()))?;
        }
        if partial.name() != *name {
            let problem = format!("artifact {name} is not what its name says");
            return Err(OfflineError::Damaged { path: artifacts.folder().to_owned(), problem });
        }
        partial.place(None).map_err(failed(artifacts.folder()))?;
    }
    drop(parts);
    copy.execute_batch("DROP TABLE backup_artifacts")?;
    Ok(names.len() as u64)
}

/// Gives the store that is there a second name. Its first one is only taken by the rename that follows.
fn set_aside(path: &Path) -> Result<PathBuf, OfflineError> {
    // What stands in its write-ahead log belongs to it. If it cannot be opened, the log is set aside with it.
    if let Ok(old) = connection::writer(path) {
        drop(checkpoint::reset(&old, Duration::from_secs(5)));
    }
    let free = (1..).map(|number| beside(path, &format!(".replaced-{number}"))).find(|aside| !aside.exists());
    let Some(aside) = free else { return Err(exists(path)) };
    link(path, &aside)?;
    let wal = wal_of(path);
    if fs::metadata(&wal).is_ok_and(|found| found.len() > 0) {
        link(&wal, &wal_of(&aside))?;
    }
    // A log that was left would be taken for the new database's own.
    remove(&wal)?;
    remove(&beside(path, "-shm"))?;
    Ok(aside)
}

fn link(path: &Path, to: &Path) -> Result<(), OfflineError> {
    if fs::hard_link(path, to).is_ok() {
        return Ok(());
    }
    fs::copy(path, to).map(drop).map_err(failed(to))
}
