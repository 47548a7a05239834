//! Between the watcher and the log: what is claimed goes to the watcher, what it sees comes back as commands.
//!
//! Where nodes share a store, each has the project's files in a folder of its own, perhaps of another branch. A claim
//! knows the content of the file where it was made; that another folder's copy differs is no change. So each watcher
//! compares with what it found in its own folder, and with the claim only if that was made there.

use rookery_core::{AnyCommand, AnyEvent, Caller, EventRef};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::files::{ChangeSource, RecordChange, RecordUntracked};
use rookery_core::model::file::File;
use rookery_store::{Submission, SubmitError};
use tokio::sync::{mpsc, watch};

use super::{Config, Known, Observation, Trouble, Watched, Watcher, WatcherStatus};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::query::FileFilter;

/// Whether the project's files are watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchMode {
    On,
    Off,
}

const OBSERVATIONS: usize = 256;
/// How long to wait before something that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The same for what the system refused us altogether.
const START_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// How much of the project's files is seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchCoverage {
    /// Nobody wants to see.
    Off,
    /// Nothing is seen right now.
    Blind { reason: String },
    /// Everything is seen but for these.
    Watching { troubles: Vec<Trouble> },
}

impl WatchCoverage {
    pub fn is_watching(&self) -> bool {
        matches!(self, WatchCoverage::Watching { .. })
    }

    /// What a person should know about it.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            WatchCoverage::Off => {
                vec!["files are not watched: conflicts are only seen when agents report changes".to_owned()]
            }
            WatchCoverage::Blind { reason } => vec![format!("files are not watched: {reason}")],
            WatchCoverage::Watching { troubles } => {
                troubles.iter().map(|trouble| format!("{} ({})", trouble.message, trouble.hint)).collect()
            }
        }
    }
}

/// Runs until it is dropped, and says how much it sees.
pub async fn run(engine: Engine, sight: watch::Sender<WatchCoverage>) {
    loop {
        let reason = watch_once(&engine, &sight).await;
        tracing::warn!(reason, "files are not watched: conflicts are only seen when agents report changes");
        sight.send_replace(WatchCoverage::Blind { reason });
        tokio::time::sleep(START_AGAIN_AFTER).await;
    }
}

/// Watches until the watcher ends; why it did.
async fn watch_once(engine: &Engine, sight: &watch::Sender<WatchCoverage>) -> String {
    let (claims, receiver) = watch::channel(Arc::new(Watched::default()));
    let (sender, mut observations) = mpsc::channel(OBSERVATIONS);
    let config = Config::new(engine.paths().root().to_owned());
    let handle = match Watcher::start(config, receiver, sender) {
        Ok(handle) => handle,
        Err(error) => return error.to_string(),
    };
    let noting = async {
        while let Some(observation) = observations.recv().await {
            note(engine, observation).await;
        }
    };
    tokio::select! {
        () = follow_claims(engine, &claims) => {}
        () = noting => {}
        () = show(handle.follow(), sight) => {}
    }
    "the watcher ended".to_owned()
}

/// Passes on how the watcher is doing, until it ends.
async fn show(mut status: watch::Receiver<WatcherStatus>, sight: &watch::Sender<WatchCoverage>) {
    loop {
        let troubles = status.borrow_and_update().troubles.clone();
        sight.send_replace(WatchCoverage::Watching { troubles });
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Tells the watcher what is claimed, at first and after every change of claims or known content. Never ends.
async fn follow_claims(engine: &Engine, claims: &watch::Sender<Arc<Watched>>) {
    loop {
        if let Err(error) = follow_once(engine, claims).await {
            tracing::debug!(%error, "claims are followed anew");
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn follow_once(engine: &Engine, claims: &watch::Sender<Arc<Watched>>) -> Result<(), EngineError> {
    let mut subscription = engine.subscribe(None).await?;
    loop {
        let files = engine.query().files(FileFilter::Claimed).await?;
        claims.send_replace(Arc::new(watched(&files.value, |file| content_is_ours(engine, file))));
        while !subscription.next().await?.rows().iter().any(|row| changes_claims(&row.event)) {}
    }
}

fn changes_claims(fact: &AnyEvent) -> bool {
    matches!(
        fact.typed(),
        EventRef::FileClaimed(_)
            | EventRef::FileReleased(_)
            | EventRef::ClaimForced(_)
            | EventRef::ConflictResolved(_)
            | EventRef::FileModified(_)
    )
}

/// Whether the content that is known of a file is that of this node's folder.
fn content_is_ours(engine: &Engine, file: &File) -> bool {
    file.site == engine.cluster().site()
}

fn watched(files: &[File], is_ours: impl Fn(&File) -> bool) -> Watched {
    let mut watched = Watched::default();
    for file in files {
        let path = file.path.to_string();
        if file.path.is_subtree() {
            watched.trees.insert(path);
        } else {
            let known = if is_ours(file) { Known::Hash(file.content_hash.clone()) } else { Known::Unlearned };
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
            Err(error) => return tracing::debug!(%error, path, "a change was seen at a path that cannot be claimed"),
        },
        Observation::Others { changed, sample } => {
            RecordUntracked { changed, sample, site: engine.cluster().site() }.into()
        }
        Observation::Trouble { message, hint } => return tracing::warn!(hint, "{message}"),
    };
    record(engine, command).await;
}

/// Submits until it is decided: what was seen is not seen again. Meanwhile the watcher merges what it cannot hand over.
async fn record(engine: &Engine, command: AnyCommand) {
    loop {
        match engine.commit(Submission::internal(Caller::watcher(), command.clone())).await {
            Ok(_) | Err(SubmitError::Refused(_) | SubmitError::Stopped) => return,
            Err(error @ SubmitError::Broken { .. }) => {
                return tracing::warn!(%error, "a change of files was not recorded");
            }
            // A change that is told twice is told once, but what is only counted would count double.
            Err(error @ SubmitError::OutcomeUnknown { .. }) if command.get::<RecordUntracked>().is_some() => {
                return tracing::warn!(%error, "a change of files may not be recorded");
            }
            Err(error) => tracing::debug!(%error, "a change of files is recorded later"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

pub fn escalate_after(engine: &Engine) -> u64 {
    u64::try_from(engine.settings().escalate_conflicts_after.as_millis()).unwrap_or(u64::MAX)
}
