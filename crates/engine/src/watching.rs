//! Between the watcher and the log: what is claimed goes to the watcher, what it sees comes back as commands.

use std::sync::Arc;

use rookery_core::file::{ChangeSource, File, NoteChange, NoteOthers};
use rookery_core::{Caller, Command, Fact};
use rookery_store::{Submission, SubmitError};
use tokio::sync::{mpsc, watch};

use crate::engine::Engine;
use crate::queries::FileFilter;
use crate::watcher::{Config, Known, Observation, Watched, Watcher};

/// Whether the project's files are watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watching {
    On,
    Off,
}

const OBSERVATIONS: usize = 256;

/// Runs until it is dropped.
pub async fn run(engine: Engine) {
    let (claims, receiver) = watch::channel(Arc::new(Watched::default()));
    let (sender, mut observations) = mpsc::channel(OBSERVATIONS);
    let config = Config::new(engine.paths().root().to_owned());
    let handle = match Watcher::start(config, receiver, sender) {
        Ok(handle) => handle,
        Err(error) => {
            tracing::warn!(%error, "files are not watched: conflicts are only seen when agents report changes");
            return;
        }
    };
    tokio::select! {
        () = follow_claims(&engine, &claims) => {}
        () = async {
            while let Some(observation) = observations.recv().await {
                note(&engine, observation).await;
            }
        } => {}
    }
    drop(handle);
}

/// Tells the watcher what is claimed, at first and after every change of claims or known content.
async fn follow_claims(engine: &Engine, claims: &watch::Sender<Arc<Watched>>) {
    loop {
        let Ok(mut subscription) = engine.subscribe(None).await else { return };
        if let Ok(files) = engine.files(FileFilter::Claimed).await {
            claims.send_replace(Arc::new(watched(&files.value)));
        }
        while let Ok(chunk) = subscription.next().await {
            if chunk.rows().iter().any(|row| changes_claims(&row.fact))
                && let Ok(files) = engine.files(FileFilter::Claimed).await
            {
                claims.send_replace(Arc::new(watched(&files.value)));
            }
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

fn changes_claims(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::FileClaimed(_)
            | Fact::FileReleased(_)
            | Fact::ClaimForced(_)
            | Fact::ConflictResolved(_)
            | Fact::FileModified(_)
    )
}

fn watched(files: &[File]) -> Watched {
    let mut watched = Watched::default();
    for file in files {
        let path = file.path.to_string();
        if file.path.is_subtree() {
            watched.trees.insert(path);
        } else {
            watched.files.insert(path, Known::Hash(file.content_hash.clone()));
        }
    }
    watched
}

async fn note(engine: &Engine, observation: Observation) {
    let command: Command = match observation {
        Observation::Claimed { path, before, after } => match engine.paths().parse(&path) {
            Ok(path) => NoteChange {
                path,
                by: None,
                before: Some(before),
                after: Some(after),
                source: ChangeSource::Watcher,
                task: None,
                metadata: serde_json::Map::new(),
                escalate_after_millis: escalate_after(engine),
            }
            .into(),
            Err(error) => return tracing::debug!(%error, path, "a change was seen at a path that cannot be claimed"),
        },
        Observation::Others { changed, sample } => NoteOthers { changed, sample }.into(),
        Observation::Trouble { message, hint } => return tracing::warn!(hint, "{message}"),
    };
    match engine.store().submit(Submission::internal(Caller::watcher(), command)).await {
        Ok(_) | Err(SubmitError::Refused(_)) => {}
        Err(error) => tracing::warn!(%error, "a change of files was not recorded"),
    }
}

pub fn escalate_after(engine: &Engine) -> u64 {
    u64::try_from(engine.settings().escalate_conflicts_after.as_millis()).unwrap_or(u64::MAX)
}
