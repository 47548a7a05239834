//! Carrying out effects after their commit. Each first checks whether it already happened, and ends by an outcome; one
//! that failed stays open and is tried again.
//!
//! An effect that belongs to a site is carried out by the node of that site and waits while it is away. All others are
//! for the node that has the duty.

use rookery_core::intent::{CloseIntent, Effect};
use rookery_core::key::Table;
use rookery_core::{Caller, Row, Seq, SiteId};
use rookery_store::artifact::Erased;
use rookery_store::node::{Duty, Tenure};
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

/// Why an effect is for this node to carry out, if it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ours {
    /// It belongs here.
    Site,
    Duty(Tenure),
    No,
}

fn ours(site: Option<&SiteId>, here: &SiteId, effects: Option<Tenure>) -> Ours {
    match (site, effects) {
        (Some(site), _) if site == here => Ours::Site,
        (None, Some(tenure)) => Ours::Duty(tenure),
        (Some(_), _) | (None, None) => Ours::No,
    }
}

/// Carries out what is open now and for this node to do.
pub async fn carry_out(engine: &Engine, hands: &dyn Hands) -> Result<Open, EngineError> {
    let here = engine.attending().node().site.id.clone();
    let (mut open, mut after) = (Open::Nothing, Seq::ZERO);
    loop {
        let above = Test::Above(i64::try_from(after.0).unwrap_or(i64::MAX));
        let page = ListQuery::all(Table::Intents).with("opened", above).ordered_by("opened").at_most(Some(PAGE));
        let (rows, _) = engine.store().list(page).await?;
        let taken = rows.len();
        for row in rows {
            let Row::Intent(intent) = row else { continue };
            after = intent.opened;
            let command = CloseIntent { intent: intent.id.clone(), failed: None };
            let submission = Submission::internal(Caller::system(), command);
            let submission = match ours(intent.site.as_ref(), &here, engine.tenure(Duty::Effects)) {
                Ours::Site => submission,
                Ours::Duty(tenure) => submission.out_of(tenure),
                Ours::No => continue,
            };
            if let Some(reason) = hands.perform(intent.effect).await {
                tracing::warn!(intent = %intent.id, reason, "an effect failed and stays open");
                open = Open::Failed;
                continue;
            }
            match engine.store().submit(submission).await {
                // Refused: another node was quicker.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_site_is_done_there_and_the_rest_by_whoever_has_the_duty() {
        let (here, there) = (SiteId::from("site_here"), SiteId::from("site_there"));
        let tenure = Tenure { duty: Duty::Effects, epoch: 2 };
        for (site, effects, expected) in [
            (None, None, Ours::No),
            (None, Some(tenure), Ours::Duty(tenure)),
            (Some(&here), None, Ours::Site),
            (Some(&here), Some(tenure), Ours::Site),
            (Some(&there), None, Ours::No),
            (Some(&there), Some(tenure), Ours::No),
        ] {
            assert_eq!(ours(site, &here, effects), expected, "{site:?} with {effects:?}");
        }
    }
}
