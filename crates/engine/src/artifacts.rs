//! Collecting artifacts that nothing names and nobody stored for a while. What is named is never touched: the store looks
//! once more, at a moment at which nothing can begin to name it.

use std::time::Duration;

use rookery_core::Timestamp;
use rookery_store::artifact::{ArtifactInfo, Erased, is_older};

use crate::engine::{Engine, EngineError};

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

impl Engine {
    /// Removes artifacts that nothing names and that were last stored so long ago, a bounded number of them.
    pub async fn collect_artifacts(&self, age: Duration, trial: Trial) -> Result<Collected, EngineError> {
        let store = self.store();
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
                    Trial::Dry => judged(&artifact, age, self.store_now()),
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
