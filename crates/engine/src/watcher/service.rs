//! Connects the watcher to the log: passes claims to the watcher, and records its observations with commands.
//!
//! Nodes that share a store each have their own checkout of the project, perhaps of another branch. A claim knows the content
//! of the file at the site where it was made; a different copy at another site is not a change. So each watcher compares with
//! the content found at its own site, and with the claim only if that was made there.

use rookery_core::{AnyCommand, AnyEvent, Caller, EventRef};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::files::{ChangeSource, RecordChange, RecordUntracked};
use rookery_core::model::file::File;
use rookery_store::{Submission, SubmitError};
use tokio::sync::{mpsc, watch};

use super::{Config, KnownContent, Observation, WatchWarning, WatchedClaims, Watcher, WatcherStatus};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::{FileFilter, FileSelection};

/// Whether the project's files are watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchMode {
    On,
    Off,
}

const OBSERVATIONS: usize = 256;
/// The delay before a failed operation is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The delay before a watcher that could not start is started again.
const RESTART_DELAY: Duration = Duration::from_secs(30);

/// The part of the project's files that is watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchCoverage {
    /// Watching is switched off.
    Off,
    /// Nothing is watched now.
    Blind { reason: String },
    /// Everything is watched except for these.
    Watching { warnings: Vec<WatchWarning> },
}

impl WatchCoverage {
    pub fn is_watching(&self) -> bool {
        matches!(self, WatchCoverage::Watching { .. })
    }

    /// Warnings for people.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            WatchCoverage::Off => {
                vec!["files are not watched: conflicts are only detected when agents report changes".to_owned()]
            }
            WatchCoverage::Blind { reason } => vec![format!("files are not watched: {reason}")],
            WatchCoverage::Watching { warnings } => {
                warnings.iter().map(|warning| format!("{} ({})", warning.message, warning.hint)).collect()
            }
        }
    }
}

/// Runs until it is dropped, and publishes the coverage.
pub async fn run(engine: Engine, coverage: watch::Sender<WatchCoverage>) {
    loop {
        let reason = watch_once(&engine, &coverage).await;
        tracing::warn!(reason, "files are not watched: conflicts are only detected when agents report changes");
        coverage.send_replace(WatchCoverage::Blind { reason });
        tokio::time::sleep(RESTART_DELAY).await;
    }
}

/// Watches until the watcher ends. Returns the reason.
async fn watch_once(engine: &Engine, coverage: &watch::Sender<WatchCoverage>) -> String {
    let (claims, receiver) = watch::channel(Arc::new(WatchedClaims::default()));
    let (sender, mut observations) = mpsc::channel(OBSERVATIONS);
    let config = Config::new(engine.paths().root().to_owned());
    let handle = match Watcher::start(config, receiver, sender) {
        Ok(handle) => handle,
        Err(error) => return error.to_string(),
    };
    let recording = async {
        while let Some(observation) = observations.recv().await {
            note(engine, observation).await;
        }
    };
    tokio::select! {
        () = follow_claims(engine, &claims) => {}
        () = recording => {}
        () = show(handle.follow(), coverage) => {}
    }
    "the watcher ended".to_owned()
}

/// Publishes the watcher's status until it ends.
async fn show(mut status: watch::Receiver<WatcherStatus>, coverage: &watch::Sender<WatchCoverage>) {
    loop {
        let warnings = status.borrow_and_update().warnings.clone();
        coverage.send_replace(WatchCoverage::Watching { warnings });
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Passes the claims to the watcher, at the start and after every change of claims or known content. Never ends.
async fn follow_claims(engine: &Engine, claims: &watch::Sender<Arc<WatchedClaims>>) {
    loop {
        if let Err(error) = follow_once(engine, claims).await {
            tracing::debug!(%error, "cannot follow the claims; retrying");
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn follow_once(engine: &Engine, claims: &watch::Sender<Arc<WatchedClaims>>) -> Result<(), EngineError> {
    let mut subscription = engine.subscribe(None).await?;
    loop {
        let claimed = FileFilter { state: FileSelection::Claimed, after: None, limit: None };
        let files = engine.query().files(&claimed).await?;
        claims.send_replace(Arc::new(watched_files(&files.value, |file| content_is_ours(engine, file))));
        while !subscription.next().await?.rows().iter().any(|row| changes_claims(&row.event)) {}
    }
}

fn changes_claims(event: &AnyEvent) -> bool {
    matches!(
        event.typed(),
        EventRef::FileClaimed(_)
            | EventRef::FileReleased(_)
            | EventRef::ClaimForced(_)
            | EventRef::ConflictResolved(_)
            | EventRef::FileModified(_)
    )
}

/// Whether the known content of a file is that of this site.
fn content_is_ours(engine: &Engine, file: &File) -> bool {
    file.site == engine.cluster().site()
}

fn watched_files(files: &[File], is_ours: impl Fn(&File) -> bool) -> WatchedClaims {
    let mut watched = WatchedClaims::default();
    for file in files {
        let path = file.path.to_string();
        if file.path.is_subtree() {
            watched.trees.insert(path);
        } else {
            let known =
                if is_ours(file) { KnownContent::Hash(file.content_hash.clone()) } else { KnownContent::Unlearned };
            watched.files.insert(path, known);
        }
    }
    watched
}

async fn note(engine: &Engine, observation: Observation) {
    let command: AnyCommand = match observation {
        Observation::Claimed { path, before, after } => match engine.paths().parse(&path) {
            Ok(path) => RecordChange {
                path,
                by: None,
                before: Some(before),
                after: Some(after),
                source: ChangeSource::Watcher,
                task: None,
                metadata: serde_json::Map::new(),
                site: engine.cluster().site(),
                escalate_after_millis: escalate_after(engine),
            }
            .into(),
            Err(error) => return tracing::debug!(%error, path, "a change at a path that cannot be claimed is ignored"),
        },
        Observation::Others { changed, sample } => {
            RecordUntracked { changed, sample, site: engine.cluster().site() }.into()
        }
        Observation::Warning { message, hint } => return tracing::warn!(hint, "{message}"),
    };
    record(engine, command).await;
}

/// Submits until the command is decided, because the change is not observed again. Meanwhile the watcher merges changes.
async fn record(engine: &Engine, command: AnyCommand) {
    loop {
        match engine.commit(Submission::internal(Caller::watcher(), command.clone())).await {
            Ok(_) | Err(SubmitError::Refused(_) | SubmitError::Stopped) => return,
            Err(error @ SubmitError::Broken { .. }) => {
                return tracing::warn!(%error, "a change of files was not recorded");
            }
            // Recording a change twice has no effect, but a count would be added twice.
            Err(error @ SubmitError::OutcomeUnknown { .. }) if command.get::<RecordUntracked>().is_some() => {
                return tracing::warn!(%error, "the outcome of recording changed files is unknown; not retrying");
            }
            Err(error) => tracing::debug!(%error, "cannot record a change of files; retrying"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// The age at which a conflict is escalated, in milliseconds.
pub fn escalate_after(engine: &Engine) -> u64 {
    u64::try_from(engine.settings().escalate_conflicts_after.as_millis()).unwrap_or(u64::MAX)
}
