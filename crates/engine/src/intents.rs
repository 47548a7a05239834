//! Carrying out effects after their commit. Each first checks whether it already happened, and ends by an outcome.

use rookery_core::intent::{CloseIntent, Effect, Intent};
use rookery_core::key::Table;
use rookery_core::{Caller, Row};
use rookery_store::{ListQuery, Submission, SubmitError};

use crate::engine::{Engine, EngineError};

/// How many open intents are taken up in one go.
const PAGE: u32 = 100;

/// Carries out what is open now; how much was.
pub async fn carry_out(engine: &Engine) -> Result<usize, EngineError> {
    let open = ListQuery::all(Table::Intents).ordered_by("opened").at_most(Some(PAGE));
    let (rows, _) = engine.store().list(open).await?;
    let mut done = 0;
    for row in rows {
        let Row::Intent(intent) = row else { continue };
        let failed = perform(engine, &intent).await;
        let command = CloseIntent { intent: intent.id, failed };
        match engine.store().submit(Submission::new(Caller::system(), command)).await {
            Ok(_) => done += 1,
            Err(SubmitError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Does one effect; what went wrong, if anything did.
async fn perform(engine: &Engine, intent: &Intent) -> Option<String> {
    match &intent.effect {
        Effect::EraseArtifact { sha256 } => {
            let (artifacts, sha256) = (engine.artifacts().clone(), sha256.clone());
            let erased = tokio::task::spawn_blocking(move || artifacts.erase(&sha256)).await;
            match erased {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            }
        }
    }
}
