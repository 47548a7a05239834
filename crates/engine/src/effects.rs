//! Carrying out effects after their commit. Each first checks whether it already happened, and ends by an outcome; one
//! that failed stays open and is tried again.
//!
//! An effect that belongs to a site is carried out by the node of that site and waits while it is away. All others are
//! for the node that has the duty.

use futures_util::StreamExt;
use futures_util::stream;
use rookery_core::effects::CloseIntent;
use rookery_core::model::Table;
use rookery_core::model::intent::{Effect, Intent};
use rookery_core::teams::ConcludeTeamStart;
use rookery_core::workspaces::ConcludeWorkspace;
use rookery_core::{Caller, Row, Seq, SiteId};
use rookery_store::artifact::Erased;
use rookery_store::node::{LeaderEpoch, LeaderRole};
use rookery_store::query::ColumnTest;
use rookery_store::{Pending, RowQuery, Submission, SubmitError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::effect_executor::{EffectExecutor, Performed};

/// How many open intents are taken up in one go, and how many of them side by side.
const PAGE: u32 = 100;
const AT_ONCE: usize = 4;

/// What a round left open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    Nothing,
    /// Effects that failed, to be tried again.
    Failed,
}

/// Why an effect is for this node to carry out, if it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ours {
    /// It belongs here.
    Site,
    Duty(LeaderEpoch),
    No,
}

fn ours(site: Option<&SiteId>, here: &SiteId, effects: Option<LeaderEpoch>) -> Ours {
    match (site, effects) {
        (Some(site), _) if site == here => Ours::Site,
        (None, Some(tenure)) => Ours::Duty(tenure),
        (Some(_), _) | (None, None) => Ours::No,
    }
}

/// Carries out what is open now and for this node to do.
pub async fn carry_out(engine: &Engine, executor: &dyn EffectExecutor) -> Result<Open, EngineError> {
    let (mut open, mut after) = (Open::Nothing, Seq::ZERO);
    loop {
        let above = ColumnTest::Above(i64::try_from(after.0).unwrap_or(i64::MAX));
        let page = RowQuery::all(Table::Intents).with("opened", above).ordered_by("opened").at_most(Some(PAGE));
        let (rows, _) = engine.store().list(page).await?;
        let taken = rows.len();
        let intents: Vec<Intent> = rows.into_iter().filter_map(intent_of).collect();
        after = intents.last().map_or(after, |intent| intent.opened);
        let mut done = stream::iter(intents).map(|intent| carry_out_one(engine, executor, intent)).buffered(AT_ONCE);
        while let Some(one) = done.next().await {
            if one? == Open::Failed {
                open = Open::Failed;
            }
        }
        if taken < PAGE as usize {
            return Ok(open);
        }
    }
}

async fn carry_out_one(engine: &Engine, executor: &dyn EffectExecutor, intent: Intent) -> Result<Open, EngineError> {
    let Some(_taken) = engine.effects_in_progress().begin(&intent.id) else { return Ok(Open::Nothing) };
    let here = &engine.cluster().node().site.id;
    // A store that nobody shares has one place.
    let site = intent.site.as_ref().map(|site| if engine.cluster().is_own_site(site) { here } else { site });
    let ours = ours(site, here, engine.cluster().leader_epoch(LeaderRole::Effects));
    if ours == Ours::No {
        return Ok(Open::Nothing);
    }
    let submission = match executor.perform(intent.effect, intent.opened).await {
        Performed::Done => {
            Submission::internal(Caller::system(), CloseIntent { intent: intent.id.clone(), failed: None })
        }
        Performed::Settled(workspace, outcome) => {
            Submission::internal(Caller::system(), ConcludeWorkspace { workspace, intent: intent.id.clone(), outcome })
        }
        Performed::TeamStarted(outcome) => {
            Submission::internal(Caller::system(), ConcludeTeamStart { intent: intent.id.clone(), outcome })
        }
        Performed::Failed(reason) => {
            tracing::warn!(intent = %intent.id, reason, "an effect failed and stays open");
            return Ok(Open::Failed);
        }
    };
    let submission = match ours {
        Ours::Duty(tenure) => submission.out_of(tenure),
        Ours::Site | Ours::No => submission,
    };
    match engine.commit(submission).await {
        // Refused: another node was quicker.
        Ok(_) | Err(SubmitError::Refused(_)) => Ok(Open::Nothing),
        Err(error) => Err(error.into()),
    }
}

fn intent_of(row: Row) -> Option<Intent> {
    if let Row::Intent(intent) = row { Some(intent) } else { None }
}

/// Effects on this machine.
impl EffectExecutor for Engine {
    fn perform(&self, effect: Effect, decided: Seq) -> Pending<'_, Performed> {
        match effect {
            // A file that another row names stays: the intent of that row's redaction will find it.
            Effect::EraseArtifact { sha256 } => Box::pin(async move {
                match self.artifacts().erase_unused(&sha256).await {
                    Ok(Erased::Gone | Erased::Named) => Performed::Done,
                    Ok(Erased::Held | Erased::Young) => {
                        Performed::Failed("it is being stored again right now".to_owned())
                    }
                    Err(error) => Performed::Failed(error.to_string()),
                }
            }),
            Effect::MakeWorktree { .. } | Effect::MergeWorktree { .. } | Effect::RemoveWorktree { .. } => {
                Box::pin(async move { self.workspaces().perform(&effect).await })
            }
            Effect::LaunchTeam { of, launch } => {
                Box::pin(async move { self.teams().perform_start(&of.team, launch, decided).await })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_site_is_done_there_and_the_rest_by_whoever_has_the_duty() {
        let (here, there) = (SiteId::from("site_here"), SiteId::from("site_there"));
        let tenure = LeaderEpoch { duty: LeaderRole::Effects, epoch: 2 };
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
