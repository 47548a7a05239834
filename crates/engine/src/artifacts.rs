//! Collecting artifacts that nothing names and nobody stored for a while. What is named is never touched: the store looks
//! once more, at a moment at which nothing can begin to name it.

use std::ops::Range;
use std::time::Duration;

use rookery_core::Timestamp;
use rookery_store::artifact::{ArtifactError, ArtifactHold, ArtifactInfo, Erased, Incoming, Outgoing, is_older};

use crate::engine::Engine;
use crate::error::EngineError;

/// Stores, reads and removes artifacts.
#[derive(Clone, Copy, Debug)]
pub struct ArtifactsHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`ArtifactsHandle`].
    pub fn artifacts(&self) -> ArtifactsHandle<'_> {
        ArtifactsHandle { engine: self }
    }
}

/// How many are looked at in one go.
const PAGE: u32 = 500;
/// How many are removed in one go, or a few more.
const AT_ONCE: u64 = 500;

/// Whether anything is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    Real,
    /// Only told what would be.
    Dry,
}

/// What was removed, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Collected {
    pub artifacts: u64,
    pub bytes: u64,
    /// Those that nothing names and that were stored too short a time ago.
    pub young: u64,
    /// There may be more to remove.
    pub more: bool,
}

impl ArtifactsHandle<'_> {
    /// Begins to store bytes of any length.
    pub async fn receive(&self) -> Result<Box<dyn Incoming>, ArtifactError> {
        self.engine.store().receive_artifact().await
    }

    /// The length of an artifact. It does not tell whether the artifact is intact.
    pub async fn size(&self, sha256: &str) -> Result<u64, ArtifactError> {
        self.engine.store().artifact_size(sha256.to_owned()).await
    }

    /// Begins to read the bytes of an artifact that are within `span`.
    pub async fn read(&self, sha256: &str, span: Range<u64>) -> Result<Box<dyn Outgoing>, ArtifactError> {
        self.engine.store().read_artifact(sha256.to_owned(), span).await
    }

    /// All bytes of an artifact.
    pub async fn read_all(&self, sha256: &str) -> Result<Vec<u8>, ArtifactError> {
        self.engine.store().artifact(sha256.to_owned()).await
    }

    /// At most `limit` artifacts after a hash, in the order of their hashes.
    pub async fn list(&self, after: Option<String>, limit: u32) -> Result<Vec<ArtifactInfo>, ArtifactError> {
        self.engine.store().artifacts(after, limit).await
    }

    /// Ends a hold, and the artifact with it if nothing names it.
    pub(crate) async fn release_hold(&self, held: ArtifactHold) {
        let sha256 = held.sha256.clone();
        if let Err(error) = self.engine.store().release_hold(held).await {
            tracing::warn!(%error, sha256, "the body of a request that came to nothing was not removed");
        }
    }

    /// Removes an artifact that no row of the log names any more; why it is still there, if it is and should not be.
    pub(crate) async fn erase_unused(&self, sha256: &str) -> Result<Erased, EngineError> {
        Ok(self.engine.store().erase_artifact(sha256.to_owned()).await?)
    }

    /// Removes artifacts that nothing names and that were last stored so long ago, a bounded number of them.
    pub async fn collect(&self, age: Duration, trial: Trial) -> Result<Collected, EngineError> {
        let store = self.engine.store();
        let (mut collected, mut after) = (Collected::default(), None);
        loop {
            let page = store.artifacts(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(collected) };
            after = Some(last.sha256.clone());
            if trial == Trial::Real && collected.artifacts >= AT_ONCE {
                return Ok(Collected { more: true, ..collected });
            }
            for artifact in page.into_iter().filter(|artifact| !artifact.named) {
                let erased = match trial {
                    Trial::Real => store.collect_artifact(artifact.sha256.clone(), age).await?,
                    Trial::Dry => judged(&artifact, age, self.engine.cluster().store_now()),
                };
                collected.count(&artifact, erased);
            }
        }
    }
}

/// What would become of one that nothing names.
fn judged(artifact: &ArtifactInfo, age: Duration, now: Timestamp) -> Erased {
    if is_older(artifact.stored_at, now, age) { Erased::Gone } else { Erased::Young }
}

impl Collected {
    fn count(&mut self, artifact: &ArtifactInfo, erased: Erased) {
        match erased {
            Erased::Gone => {
                self.artifacts += 1;
                self.bytes += artifact.size;
            }
            Erased::Young => self.young += 1,
            // Somebody names it by now, or is about to.
            Erased::Named | Erased::Held => {}
        }
    }
}
