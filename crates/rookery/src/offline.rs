//! What commands do with the store itself, without the daemon's HTTP face: replay, export, import, backup, restore,
//! and the check of its integrity.
//!
//! Reading is safe while a daemon runs. What writes ([`import`], [`restore`]) is called with the project locked.

use std::io::{BufRead, Write};
use std::path::Path;

use serde::Serialize;

use crate::config::Settings;
use crate::project::Project;

/// What a replay is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayMode {
    /// Fold the log and say what it holds.
    Summarise,
    /// Also compare every derived row with what the store has.
    Verify,
}

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
    /// Rows that differ from the store's, each named; empty unless verifying.
    pub differences: Vec<String>,
}

/// What was written to, or read from, a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub events: u64,
    pub artifacts: u64,
    pub bytes: u64,
    /// The log's id: import and restore make a new one.
    pub log_id: String,
}

/// What the check of a store found; each problem is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Integrity {
    pub problems: Vec<String>,
}

/// Folds the log again, of one run or of all.
pub async fn replay(
    settings: &Settings,
    project: &Project,
    run: Option<&str>,
    mode: ReplayMode,
) -> anyhow::Result<Replayed> {
    let _ = (project, run, mode);
    no_store(settings)
}

/// Writes the log as JSON lines, oldest first.
pub async fn export(settings: &Settings, project: &Project, to: &mut (dyn Write + Send)) -> anyhow::Result<Moved> {
    let _ = (project, to);
    no_store(settings)
}

/// Reads JSON lines that [`export`] wrote into an empty log.
pub async fn import(settings: &Settings, project: &Project, from: &mut (dyn BufRead + Send)) -> anyhow::Result<Moved> {
    let _ = (project, from);
    no_store(settings)
}

/// Copies the whole store into one file while it is in use.
pub async fn backup(settings: &Settings, project: &Project, to: &Path) -> anyhow::Result<Moved> {
    let _ = (project, to);
    no_store(settings)
}

/// Puts a file that [`backup`] wrote in the store's place.
pub async fn restore(settings: &Settings, project: &Project, from: &Path, existing: Existing) -> anyhow::Result<Moved> {
    let _ = (project, from, existing);
    no_store(settings)
}

/// Checks the store's files without changing them.
pub async fn check(settings: &Settings, project: &Project) -> anyhow::Result<Integrity> {
    let _ = project;
    no_store(settings)
}

fn no_store<T>(settings: &Settings) -> anyhow::Result<T> {
    anyhow::bail!("this build cannot open {}", *settings.store)
}
