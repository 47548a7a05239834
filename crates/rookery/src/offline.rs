//! What commands do with the store itself, without the daemon's HTTP face: replay, export, import, migrate, backup,
//! restore, and the check of its integrity.
//!
//! Reading is safe while a daemon runs. What writes a project's own store ([`import`], [`restore`]) is called with the
//! project locked.

use std::io::{self, BufRead, Write};
use std::path::Path;

use anyhow::Context;
use rookery_core::{LogId, RunId, Seq, envelope};
use rookery_engine::{Ids, RandomIds};
use rookery_store::offline::{self, CHUNK, OfflineError, Progress, RawRow};
use rookery_store::sqlite::offline as sqlite;
use serde::Serialize;

use crate::config::ProjectSettings;
use crate::project::Project;
use crate::stores::{Location, explain_migration, explain_offline};

/// What to do where there is no file to copy.
const BACKUP_ELSEWHERE: &str = "`pg_dump --schema=NAME` backs up a store on PostgreSQL; `rookery export FILE` writes a copy that any store can read";
const RESTORE_ELSEWHERE: &str =
    "`pg_restore` brings back a dump on PostgreSQL; `rookery import FILE` reads what `rookery export` wrote";

/// What may happen to a log that is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Keep,
    Replace,
}

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    pub events: u64,
    /// Derived rows after the fold.
    pub rows: u64,
    pub head: u64,
    /// Rows that differ from the store's, each named.
    pub differences: Vec<String>,
}

/// What was written to, or read from, a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub events: u64,
    pub artifacts: u64,
    /// The log's id: import and restore make a new one.
    pub log_id: String,
    /// Artifacts that the log names and that were not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Where the store went that was there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
}

/// What becomes of a store that was carried into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stays {
    /// It has moved: its log goes on elsewhere.
    Closed,
    /// It was copied: the copy is a log of its own.
    InUse,
}

/// What was carried from one store into another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Migrated {
    pub from: String,
    pub to: String,
    /// What became of the store it came from.
    pub source: Stays,
    pub events: u64,
    pub artifacts: u64,
    /// Artifacts that facts refer to and that are not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    pub tokens: u64,
    /// Remembered replies.
    pub replies: u64,
    pub log_id: String,
    /// The hash of the log as it is stored, the same in both.
    pub log_sha256: String,
    /// What arrived was folded again and compared: without that there is no report.
    pub verified: bool,
}

/// What the check of a store found; each problem is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Integrity {
    pub problems: Vec<String>,
    /// What to do about each of them.
    pub mend: &'static str,
    /// Where the store went, if it was moved away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
}

/// Hands out the log, oldest first, as envelopes: of one run, or all of it. How many there were.
pub async fn envelopes(
    settings: &ProjectSettings,
    project: &Project,
    run: Option<&str>,
    mut each: impl FnMut(serde_json::Value) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let location = Location::of(settings, project)?;
    let (mut after, mut count) = (Seq::ZERO, 0);
    loop {
        // Opened for each page: whoever reads slowly shall not keep the store at one moment.
        let location = location.clone();
        let rows = blocking(move || location.source()?.log(after, CHUNK).map_err(explain_offline)).await?;
        let Some(last) = rows.last() else { return Ok(count) };
        after = last.seq;
        for raw in rows.into_iter().filter(|raw| run.is_none_or(|run| is_of(raw, run))) {
            let entry = raw.entry().map_err(explain_offline)?;
            each(envelope::of(&entry.row))?;
            count += 1;
        }
    }
}

/// What names no run is in the project's default one.
fn is_of(raw: &RawRow, run: &str) -> bool {
    raw.run.as_deref().unwrap_or(RunId::project_default().as_str()) == run
}

/// Folds the log again and compares every derived row with the store's. `told` hears how far it is.
pub async fn replay(
    settings: &ProjectSettings,
    project: &Project,
    mut told: impl FnMut(Progress) + Send + 'static,
) -> anyhow::Result<Replayed> {
    let location = Location::of(settings, project)?;
    let report =
        blocking(move || offline::verify(&mut *location.source()?, &mut told).map_err(explain_offline)).await?;
    Ok(Replayed { events: report.facts, rows: report.rows, head: report.head.head.0, differences: report.differences })
}

/// Writes the log as JSON lines, oldest first; `None` if the other end of a pipe stopped reading.
pub async fn export(
    settings: &ProjectSettings,
    project: &Project,
    mut to: impl Write + Send + 'static,
) -> anyhow::Result<Option<Moved>> {
    let location = Location::of(settings, project)?;
    let exported = move || match offline::export(&mut *location.source()?, &mut to) {
        Err(OfflineError::Stream { source }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        report => report.map(Some).map_err(explain_offline),
    };
    Ok(blocking(exported).await?.map(|report| Moved {
        events: report.rows,
        artifacts: report.artifacts,
        log_id: report.head.log.to_string(),
        missing: report.missing,
        set_aside: None,
    }))
}

/// Reads JSON lines that [`export`] wrote into an empty log.
pub async fn import(
    settings: &ProjectSettings,
    project: &Project,
    mut from: impl BufRead + Send + 'static,
) -> anyhow::Result<Moved> {
    let location = Location::of(settings, project)?;
    let imported = move || offline::import(&mut from, &mut *location.sink()?, &new_log()).map_err(explain_offline);
    let report = blocking(imported).await?;
    Ok(Moved {
        events: report.rows,
        artifacts: report.artifacts,
        log_id: report.head.log.to_string(),
        missing: vec![],
        set_aside: None,
    })
}

/// Carries one store into another, and proves what arrived. `told` hears how far it is.
pub async fn migrate(
    from: Location,
    to: Location,
    stays: Stays,
    mut told: impl FnMut(Progress) + Send + 'static,
) -> anyhow::Result<Migrated> {
    let (shown_from, shown_to) = (from.shown(), to.shown());
    let carried = move || {
        let address = to.shown();
        let mut sink = to.sink()?;
        match stays {
            Stays::Closed => offline::move_store(&mut *from.origin()?, &mut *sink, &address, &mut told),
            Stays::InUse => offline::copy_store(&mut *from.source()?, &mut *sink, &new_log(), &mut told),
        }
        .map_err(explain_migration)
    };
    let report = blocking(carried).await?;
    Ok(Migrated {
        from: shown_from,
        to: shown_to,
        source: stays,
        events: report.events,
        artifacts: report.artifacts,
        missing: report.missing,
        tokens: report.tokens,
        replies: report.replies,
        log_id: report.head.log.to_string(),
        log_sha256: report.log_sha256,
        verified: true,
    })
}

/// Copies the whole store into one file while it is in use. `told` hears how far it is.
pub async fn backup(
    settings: &ProjectSettings,
    project: &Project,
    to: &Path,
    mut told: impl FnMut(Progress) + Send + 'static,
) -> anyhow::Result<Moved> {
    let files = Location::of(settings, project)?.files(BACKUP_ELSEWHERE)?;
    let to = to.to_owned();
    let copied = move || sqlite::backup(&files.path, &files.artifacts(), &to, &mut told).map_err(explain_offline);
    let report = blocking(copied).await?;
    Ok(Moved {
        events: (report.head.head.0 + 1).saturating_sub(report.head.floor.0),
        artifacts: report.artifacts,
        log_id: report.head.log.to_string(),
        missing: report.missing,
        set_aside: None,
    })
}

/// Puts a file that [`backup`] wrote in the store's place.
pub async fn restore(
    settings: &ProjectSettings,
    project: &Project,
    from: &Path,
    existing: Existing,
) -> anyhow::Result<Moved> {
    let files = Location::of(settings, project)?.files(RESTORE_ELSEWHERE)?;
    let from = from.to_owned();
    let existing = match existing {
        Existing::Keep => sqlite::Existing::Kept,
        Existing::Replace => sqlite::Existing::SetAside,
    };
    let restored =
        move || sqlite::restore(&from, &files.path, &files.artifacts(), &new_log(), existing).map_err(explain_offline);
    let report = blocking(restored).await?;
    Ok(Moved {
        events: (report.head.head.0 + 1).saturating_sub(report.head.floor.0),
        artifacts: report.artifacts,
        log_id: report.head.log.to_string(),
        missing: vec![],
        set_aside: report.set_aside.map(|path| path.display().to_string()),
    })
}

/// Checks the store without changing it.
pub async fn check(settings: &ProjectSettings, project: &Project) -> anyhow::Result<Integrity> {
    let location = Location::of(settings, project)?;
    let checked = move || {
        let problems = location.problems()?;
        let moved_to = if problems.is_empty() { location.source()?.snapshot().moved_to.clone() } else { None };
        Ok(Integrity { problems, mend: location.mending(), moved_to })
    };
    blocking(checked).await
}

fn new_log() -> LogId {
    LogId::new(RandomIds.mint("log_"))
}

/// These walk whole stores: they run where blocking is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work was given up")?
}
