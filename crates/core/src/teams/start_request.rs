//! Starting a workflow file from elsewhere than a terminal: a person asks, the node of the site starts a runner, and tells what
//! came of it. The team itself begins by its runner's own word ([`super::StartTeam`]).

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::{IntentId, SiteId, TeamId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::intent::{Effect, Intent};
use crate::model::team::{TeamRef, TeamStartSpec, needs_person};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestTeamStart {
    pub intent: IntentId,
    pub team: TeamId,
    pub launch: TeamStartSpec,
    /// Where the file is.
    pub site: SiteId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamStartRequested {
    /// The generation that is to begin.
    #[serde(flatten)]
    pub of: TeamRef,
    pub intent: IntentId,
    #[serde(flatten)]
    pub launch: TeamStartSpec,
    pub site: SiteId,
}

impl Event for TeamStartRequested {
    const KIND: &'static str = "team.start_requested";

    fn subject(&self) -> Subject<'_> {
        Subject::team(&self.of)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Intent(self.intent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let intent = Intent {
            id: self.intent.clone(),
            opened: stamp.seq,
            effect: Effect::LaunchTeam { of: self.of.clone(), launch: self.launch.clone() },
            site: Some(self.site.clone()),
        };
        rows.put(self.intent.clone(), intent);
    }

    fn opens_intent(&self) -> bool {
        true
    }
}

/// How that ended. A second telling is refused as stale.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConcludeTeamStart {
    pub intent: IntentId,
    pub outcome: TeamStartOutcome,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TeamStartOutcome {
    /// Its runner runs it.
    Running,
    Failed {
        reason: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamSpawned {
    #[serde(flatten)]
    pub of: TeamRef,
    pub intent: IntentId,
    pub file: String,
}

impl Event for TeamSpawned {
    const KIND: &'static str = "team.spawned";

    fn subject(&self) -> Subject<'_> {
        Subject::team(&self.of)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Intent(self.intent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.remove::<Intent>(self.intent.clone());
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Some(&self.intent)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamStartFailed {
    #[serde(flatten)]
    pub of: TeamRef,
    pub intent: IntentId,
    pub file: String,
    pub reason: String,
}

impl Event for TeamStartFailed {
    const KIND: &'static str = "team.start_failed";

    fn subject(&self) -> Subject<'_> {
        Subject::team(&self.of)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Intent(self.intent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.remove::<Intent>(self.intent.clone());
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Some(&self.intent)
    }
}

impl Command for RequestTeamStart {
    const NAME: &'static str = "RequestTeamStart";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Team(self.team.clone()).into()]
    }

    /// A team that the log calls live may have lost its runner, which only a machine can tell: whoever starts it looks.
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        needs_person(cx.caller, "start a workflow file")?;
        if self.team.alone().is_some() {
            return Err(Rejection::new(
                Code::Invalid,
                "a workflow file makes the team of an instance, such as '@pr-1'",
            )
            .into());
        }
        limit::name("file", &self.launch.file, limit::PATH_BYTES)?;
        limit::list("params", &self.launch.params)?;
        limit::json("params", &self.launch.params, limit::TEXT_BYTES)?;
        let generation = cx.view.team(&self.team)?.map_or(1, |team| match team.is_live() {
            true => team.of.generation,
            false => team.of.generation.saturating_add(1),
        });
        let fact = AnyEvent::new(TeamStartRequested {
            of: TeamRef::new(&self.team, generation),
            intent: self.intent.clone(),
            launch: self.launch.clone(),
            site: self.site.clone(),
        });
        Ok(Decision::new(vec![fact], ReplySource::done()))
    }
}

impl Command for ConcludeTeamStart {
    const NAME: &'static str = "ConcludeTeamStart";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Intent(self.intent.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        if cx.caller.actor != Actor::System {
            return Err(Rejection::new(Code::Forbidden, "only whoever did it tells how it ended").into());
        }
        let Some(Effect::LaunchTeam { of, launch }) = cx.view.intent(&self.intent)?.map(|intent| &intent.effect) else {
            return Err(Rejection::new(Code::Stale, format!("intent {} is closed", self.intent)).into());
        };
        let (of, intent, file) = (of.clone(), self.intent.clone(), launch.file.clone());
        let fact = match &self.outcome {
            TeamStartOutcome::Running => AnyEvent::new(TeamSpawned { of, intent, file }),
            TeamStartOutcome::Failed { reason } => {
                AnyEvent::new(TeamStartFailed { of, intent, file, reason: reason.clone() })
            }
        };
        Ok(Decision::new(vec![fact], ReplySource::done()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::model::team::Conclusion;
    use crate::testing::{World, anna, by, end, runs_in};

    fn launch(team: &str, intent: &str) -> RequestTeamStart {
        let launch =
            TeamStartSpec { file: "review.yaml".to_owned(), params: vec!["--depth".to_owned(), "2".to_owned()] };
        RequestTeamStart { intent: intent.into(), team: team.into(), launch, site: "site_1".into() }
    }

    fn settle(intent: &str, outcome: TeamStartOutcome) -> ConcludeTeamStart {
        ConcludeTeamStart { intent: intent.into(), outcome }
    }

    fn generation_asked(w: &World, intent: &str) -> u64 {
        match w.rows().get(&Key::Intent(intent.into())) {
            Some(crate::model::Row::Intent(intent)) => match &intent.effect {
                Effect::LaunchTeam { of, .. } => of.generation,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_person_asks_and_whoever_did_it_tells_once_how_it_ended() {
        let mut w = World::of(&["lead"]);
        assert_eq!(w.refuses(&by("lead"), launch("@pr-1", "i1")), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), launch("helper", "i1")), Code::Invalid);
        assert_eq!(w.does(&anna(), launch("@pr-1", "i1")), ["team.start_requested"]);
        assert_eq!(w.refuses(&anna(), settle("i1", TeamStartOutcome::Running)), Code::Forbidden);
        let reason = "line 3: unknown key".to_owned();
        assert_eq!(w.does(&Caller::system(), settle("i1", TeamStartOutcome::Failed { reason })), ["team.start_failed"]);
        assert_eq!(w.refuses(&Caller::system(), settle("i1", TeamStartOutcome::Running)), Code::Stale);
        w.does(&anna(), launch("@pr-1", "i2"));
        assert_eq!(w.does(&Caller::system(), settle("i2", TeamStartOutcome::Running)), ["team.spawned"]);
        assert!(!w.rows().keys().any(|key| matches!(key, Key::Intent(_))));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn it_asks_for_the_next_generation_or_for_the_one_whose_runner_may_be_gone() {
        let mut w = runs_in("@pr-1", &["a"]);
        w.does(&anna(), launch("@pr-1", "i1"));
        assert_eq!(generation_asked(&w, "i1"), 1);
        w.does(&anna(), end("@pr-1", 1, Conclusion::Stopped));
        w.does(&anna(), launch("@pr-1", "i2"));
        assert_eq!(generation_asked(&w, "i2"), 2);
    }
}
