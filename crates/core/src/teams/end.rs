//! The end of a team's generation, as its runner tells it.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::TeamId;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::team::{Conclusion, Team, TeamEnd, TeamRef, needs_person};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::teams;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndTeam {
    pub team: TeamId,
    pub generation: u64,
    pub how: Conclusion,
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamEnded {
    #[serde(flatten)]
    pub of: TeamRef,
    pub how: Conclusion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Event for TeamEnded {
    const KIND: &'static str = "team.ended";

    fn subject(&self) -> Subject<'_> {
        Subject::team(&self.of)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![self.of.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let ended = TeamEnd { how: self.how, reason: self.reason.clone(), at: stamp.at };
        rows.update(self.of.team.clone(), |team: &mut Team| team.ended = Some(ended));
    }
}

impl Command for EndTeam {
    const NAME: &'static str = "EndTeam";

    type Reply = Team;

    fn read_set(&self) -> ReadSet {
        vec![Key::Team(self.team.clone()).into()]
    }

    /// What was under way is over with it. Told twice, it is the same end.
    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Team>, Undecided> {
        needs_person(cx.caller, "end a team")?;
        limit::text("reason", self.reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        let team = cx.view.team_known(&self.team)?;
        let reply = ReplySource::row(self.team.clone());
        match &team.ended {
            Some(ended) if team.of.generation == self.generation => {
                return if ended.how == self.how {
                    Ok(Decision::unchanged(reply))
                } else {
                    Err(ended_as(ended).into())
                };
            }
            _ => team.runs(self.generation)?,
        }
        let mut facts = teams::interrupted(team);
        let ended = TeamEnded { of: team.of.clone(), how: self.how, reason: self.reason.clone() };
        facts.push(AnyEvent::new(ended));
        Ok(Decision::new(facts, reply))
    }
}

fn ended_as(ended: &TeamEnd) -> Rejection {
    Rejection::new(Code::AlreadyAnswered, format!("it has ended already, as {}", ended.how.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::turn::TurnConclusion;
    use crate::testing::{anna, by, end, entry, runs_in, starts, wakes};

    #[test]
    fn a_team_ends_once_and_its_turns_with_it() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        w.does(&by("b@pr-1"), entry("m", "b@pr-1", "@a look"));
        w.does(&anna(), wakes("t1", "@pr-1", "a@pr-1", &["m"]));
        assert_eq!(w.refuses(&by("a@pr-1"), end("@pr-1", 1, Conclusion::Stopped)), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), end("@pr-1", 2, Conclusion::Stopped)), Code::Stale);
        assert_eq!(w.does(&anna(), end("@pr-1", 1, Conclusion::Stopped)), ["turn.ended", "team.ended"]);
        assert_eq!(w.turn("t1").end.as_ref().unwrap().how, TurnConclusion::Interrupted);
        assert_eq!((w.pending("a@pr-1"), w.team("@pr-1").is_live()), (vec!["m"], false));
        assert_eq!(w.does(&anna(), end("@pr-1", 1, Conclusion::Stopped)), [""; 0]);
        assert_eq!(w.refuses(&anna(), end("@pr-1", 1, Conclusion::Completed)), Code::AlreadyAnswered);
        w.does(&anna(), starts("@pr-1", &["a"], 2));
        assert_eq!(w.refuses(&anna(), end("@pr-1", 1, Conclusion::Stopped)), Code::Stale, "it is another one's by now");
        assert_eq!(w.rebuilt(), *w.rows());
    }
}
