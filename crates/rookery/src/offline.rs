//! What commands do with the store itself, without the daemon's HTTP face: replay, export, import, backup, restore,
//! and the check of its integrity.
//!
//! Reading is safe while a daemon runs. What writes ([`import`], [`restore`]) is called with the project locked.

use std::io::{BufRead, Write};
use std::path::Path;

use anyhow::Context;
use rookery_core::{LogId, Seq, envelope};
use rookery_engine::{Ids, RandomIds};
use rookery_store::LogQuery;
use rookery_store::artifact::ArtifactDir;
use rookery_store::sqlite::Reader;
use rookery_store::sqlite::offline::{self, Progress};
use serde::Serialize;

use crate::config::Settings;
use crate::project::Project;
use crate::stores::{explain_offline, sqlite_path};

/// How much of the log is read in one go.
const PAGE: u32 = 1_000;

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

/// What the check of a store found; each problem is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Integrity {
    pub problems: Vec<String>,
}

/// Hands out the log, oldest first, as envelopes: of one run, or all of it. How many there were.
pub async fn envelopes(
    settings: &Settings,
    project: &Project,
    run: Option<&str>,
    mut each: impl FnMut(serde_json::Value) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let reader = Reader::open(&sqlite_path(settings, project)?, 1)?;
    let (mut after, mut count) = (Seq::ZERO, 0);
    loop {
        let query = LogQuery { run: run.map(str::to_owned), ..LogQuery::after(after, PAGE) };
        let (rows, _) = reader.log(query).await?;
        let Some(last) = rows.last() else { return Ok(count) };
        after = last.seq;
        count += rows.len() as u64;
        rows.iter().try_for_each(|row| each(envelope::of(row)))?;
    }
}

/// Folds the log again and compares every derived row with the store's. `told` hears how far it is.
pub async fn replay(
    settings: &Settings,
    project: &Project,
    mut told: impl FnMut(Progress) + Send + 'static,
) -> anyhow::Result<Replayed> {
    let path = sqlite_path(settings, project)?;
    let report = blocking(move || offline::verify(&path, &mut told).map_err(explain_offline)).await?;
    Ok(Replayed { events: report.facts, rows: report.rows, head: report.head.head.0, differences: report.differences })
}

/// Writes the log as JSON lines, oldest first.
pub async fn export(settings: &Settings, project: &Project, to: &mut (dyn Write + Send)) -> anyhow::Result<Moved> {
    let report = offline::export(&sqlite_path(settings, project)?, &artifacts(project), to).map_err(explain_offline)?;
    Ok(Moved {
        events: report.rows,
        artifacts: 0,
        log_id: report.head.log.to_string(),
        missing: report.missing,
        set_aside: None,
    })
}

/// Reads JSON lines that [`export`] wrote into an empty log.
pub async fn import(settings: &Settings, project: &Project, from: &mut (dyn BufRead + Send)) -> anyhow::Result<Moved> {
    let report = offline::import(from, &sqlite_path(settings, project)?, &artifacts(project), &new_log())
        .map_err(explain_offline)?;
    Ok(Moved {
        events: report.rows,
        artifacts: 0,
        log_id: report.head.log.to_string(),
        missing: vec![],
        set_aside: None,
    })
}

/// Copies the whole store into one file while it is in use. `told` hears how far it is.
pub async fn backup(
    settings: &Settings,
    project: &Project,
    to: &Path,
    mut told: impl FnMut(Progress) + Send + 'static,
) -> anyhow::Result<Moved> {
    let (path, artifacts, to) = (sqlite_path(settings, project)?, artifacts(project), to.to_owned());
    let report = blocking(move || offline::backup(&path, &artifacts, &to, &mut told).map_err(explain_offline)).await?;
    Ok(Moved {
        events: (report.head.head.0 + 1).saturating_sub(report.head.floor.0),
        artifacts: report.artifacts,
        log_id: report.head.log.to_string(),
        missing: report.missing,
        set_aside: None,
    })
}

/// Puts a file that [`backup`] wrote in the store's place.
pub async fn restore(settings: &Settings, project: &Project, from: &Path, existing: Existing) -> anyhow::Result<Moved> {
    let (path, artifacts, from) = (sqlite_path(settings, project)?, artifacts(project), from.to_owned());
    let existing = match existing {
        Existing::Keep => offline::Existing::Kept,
        Existing::Replace => offline::Existing::SetAside,
    };
    let report =
        blocking(move || offline::restore(&from, &path, &artifacts, &new_log(), existing).map_err(explain_offline))
            .await?;
    Ok(Moved {
        events: (report.head.head.0 + 1).saturating_sub(report.head.floor.0),
        artifacts: report.artifacts,
        log_id: report.head.log.to_string(),
        missing: vec![],
        set_aside: report.set_aside.map(|path| path.display().to_string()),
    })
}

/// Checks the store's files without changing them.
pub async fn check(settings: &Settings, project: &Project) -> anyhow::Result<Integrity> {
    let path = sqlite_path(settings, project)?;
    Ok(Integrity { problems: blocking(move || offline::integrity(&path).map_err(explain_offline)).await? })
}

fn artifacts(project: &Project) -> ArtifactDir {
    ArtifactDir::new(project.artifacts())
}

fn new_log() -> LogId {
    LogId::new(RandomIds.mint("log_"))
}

/// These walk whole files: they run where blocking is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work was given up")?
}
