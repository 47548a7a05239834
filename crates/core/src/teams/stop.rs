//! Asking a team, or one of its agents, to stop. Its runner sees to it.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, TeamId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::team::{Stop, Team, TeamRef, needs_person};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestTeamStop {
    pub team: TeamId,
    /// Only this agent of it.
    pub member: Option<AgentId>,
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamStopRequested {
    #[serde(flatten)]
    pub of: TeamRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub asked_by: String,
}

impl TeamStopRequested {
    pub(super) fn stops(&self, team: Team, at: Timestamp) -> Team {
        let stop = Some(Stop { asked_by: self.asked_by.clone(), reason: self.reason.clone(), at });
        match &self.member {
            Some(member) => team.change(member, |member| member.stop = stop),
            None => Team { stop, ..team },
        }
    }
}

impl Event for TeamStopRequested {
    const KIND: &'static str = "team.stop_requested";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: self.member.as_ref(), ..Subject::team(&self.of) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![self.of.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.replace(self.of.team.clone(), |old: Option<Team>| old.map(|team| self.stops(team, stamp.at)));
    }
}

impl Command for RequestTeamStop {
    const NAME: &'static str = "RequestTeamStop";

    type Reply = Team;

    fn read_set(&self) -> ReadSet {
        vec![Key::Team(self.team.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Team>, Undecided> {
        needs_person(cx.caller, "stop agents")?;
        limit::text("reason", self.reason.as_deref().unwrap_or(""), limit::TEXT_BYTES)?;
        let team = cx.view.team_known(&self.team)?;
        team.runs(team.of.generation)?;
        let reply = ReplySource::row(self.team.clone());
        let asked = match &self.member {
            Some(agent) => match team.member(agent) {
                Some(member) => member.stop.is_some(),
                None => return Err(self.is_no_member(team, agent).into()),
            },
            None => team.stop.is_some(),
        };
        if asked {
            return Ok(Decision::unchanged(reply));
        }
        let fact = AnyEvent::new(TeamStopRequested {
            of: team.of.clone(),
            member: self.member.clone(),
            reason: self.reason.clone(),
            asked_by: cx.caller.actor.to_string(),
        });
        Ok(Decision::new(vec![fact], reply))
    }
}

impl RequestTeamStop {
    fn is_no_member(&self, team: &Team, agent: &AgentId) -> Rejection {
        let members: Vec<&str> = team.members.iter().map(|member| member.agent.as_str()).collect();
        Rejection::new(Code::AgentNotFound, format!("'{agent}' is not in {}", self.team))
            .hint(format!("it has {}", members.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::team::{Conclusion, MemberState};
    use crate::testing::{anna, by, end, runs_in};

    fn stop(member: Option<&str>) -> RequestTeamStop {
        RequestTeamStop { team: "@pr-1".into(), member: member.map(AgentId::from), reason: Some("enough".to_owned()) }
    }

    #[test]
    fn a_team_or_one_of_it_is_asked_to_stop_once() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        assert_eq!(w.refuses(&by("a@pr-1"), stop(None)), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), stop(Some("c@pr-1"))), Code::AgentNotFound);
        assert_eq!(w.does(&anna(), stop(Some("a@pr-1"))), ["team.stop_requested"]);
        assert_eq!(w.does(&anna(), stop(Some("a@pr-1"))), [""; 0]);
        let team = w.team("@pr-1");
        assert_eq!(
            team.members.iter().map(|member| team.state_of(member)).collect::<Vec<_>>(),
            [MemberState::Stopped, MemberState::Idle]
        );
        assert_eq!((w.does(&anna(), stop(None)), w.does(&anna(), stop(None))), (vec!["team.stop_requested"], vec![]));
        let asked = w.team("@pr-1").stop.clone().unwrap();
        assert_eq!((asked.asked_by.as_str(), asked.reason.as_deref()), ("person:anna", Some("enough")));
        w.does(&anna(), end("@pr-1", 1, Conclusion::Stopped));
        assert_eq!(w.refuses(&anna(), stop(None)), Code::InvalidState);
        assert_eq!(w.rebuilt(), *w.rows());
    }
}
