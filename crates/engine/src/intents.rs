//! Carrying out effects after their commit. Each first checks whether it already happened, and ends by an outcome; one
//! that failed stays open and is tried again.

use rookery_core::intent::{CloseIntent, Effect};
use rookery_core::key::Table;
use rookery_core::{Caller, Row, Seq};
use rookery_store::artifact::Erased;
use rookery_store::query::Test;
use rookery_store::{ListQuery, Pending, Submission, SubmitError};

use crate::engine::{Engine, EngineError};

/// How many open intents are taken up in one go.
const PAGE: u32 = 100;

/// What a round left open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    Nothing,
    /// Effects that failed, to be tried again.
    Failed,
}

/// What carries effects out: the machine, or something that stands in for it.
pub trait Hands: Send + Sync {
    /// Does one effect unless it happened already; what went wrong, if anything did.
    fn perform(&self, effect: Effect) -> Pending<'_, Option<String>>;
}

/// Carries out what is open now.
pub async fn carry_out(engine: &Engine, hands: &dyn Hands) -> Result<Open, EngineError> {
    let (mut open, mut after) = (Open::Nothing, Seq::ZERO);
    loop {
        let above = Test::Above(i64::try_from(after.0).unwrap_or(i64::MAX));
        let page = ListQuery::all(Table::Intents).with("opened", above).ordered_by("opened").at_most(Some(PAGE));
        let (rows, _) = engine.store().list(page).await?;
        let taken = rows.len();
        for row in rows {
            let Row::Intent(intent) = row else { continue };
            after = intent.opened;
            if let Some(reason) = hands.perform(intent.effect).await {
                tracing::warn!(intent = %intent.id, reason, "an effect failed and stays open");
                open = Open::Failed;
                continue;
            }
            let command = CloseIntent { intent: intent.id, failed: None };
            match engine.store().submit(Submission::internal(Caller::system(), command)).await {
                // Refused: another process was quicker.
                Ok(_) | Err(SubmitError::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if taken < PAGE as usize {
            return Ok(open);
        }
    }
}

/// Effects on this machine.
impl Hands for Engine {
    fn perform(&self, effect: Effect) -> Pending<'_, Option<String>> {
        match effect {
            // A file that another row names stays: the intent of that row's redaction will find it.
            Effect::EraseArtifact { sha256 } => Box::pin(async move {
                match self.erase_unused(&sha256).await {
                    Ok(Erased::Gone | Erased::Named) => None,
                    Ok(Erased::Held) => Some("it is being stored again right now".to_owned()),
                    Err(error) => Some(error.to_string()),
                }
            }),
        }
    }
}
