//! Carrying out effects after their commit. Each first checks whether it already happened, and ends by an outcome.

use rookery_core::intent::{CloseIntent, Effect};
use rookery_core::key::Table;
use rookery_core::{Caller, Row};
use rookery_store::artifact::ArtifactDir;
use rookery_store::{ListQuery, Pending, Submission, SubmitError};

use crate::engine::{Engine, EngineError};

/// How many open intents are taken up in one go.
const PAGE: u32 = 100;

/// Whether a round may have left something open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    Done,
    /// A full page was taken up; there may be more.
    More,
}

/// What carries effects out: the machine, or something that stands in for it.
pub trait Hands: Send + Sync {
    /// Does one effect unless it happened already; what went wrong, if anything did.
    fn perform(&self, effect: Effect) -> Pending<'_, Option<String>>;
}

/// Carries out what is open now.
pub async fn carry_out(engine: &Engine, hands: &dyn Hands) -> Result<Open, EngineError> {
    let open = ListQuery::all(Table::Intents).ordered_by("opened").at_most(Some(PAGE));
    let (rows, _) = engine.store().list(open).await?;
    let taken = rows.len();
    for row in rows {
        let Row::Intent(intent) = row else { continue };
        let failed = hands.perform(intent.effect).await;
        let command = CloseIntent { intent: intent.id, failed };
        match engine.store().submit(Submission::internal(Caller::system(), command)).await {
            // Refused: another process was quicker.
            Ok(_) | Err(SubmitError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(if taken < PAGE as usize { Open::Done } else { Open::More })
}

/// Effects on this machine.
impl Hands for ArtifactDir {
    fn perform(&self, effect: Effect) -> Pending<'_, Option<String>> {
        match effect {
            Effect::EraseArtifact { sha256 } => {
                let artifacts = self.clone();
                let erasing = tokio::task::spawn_blocking(move || artifacts.erase(&sha256));
                Box::pin(async move {
                    match erasing.await {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) => Some(error.to_string()),
                        Err(error) => Some(error.to_string()),
                    }
                })
            }
        }
    }
}
