//! Starting a team, and going on with one whose runner is gone.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Seq, TeamId, Timestamp, TurnId};
use crate::kernel::instance::{Instance, check_name};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::team::{Member, Mode, Runner, Team, TeamRef, needs_person};
use crate::model::turn::Usage;
use crate::model::{EventStamp, Key, Lookup, ReadSet, Row, RowWriter, Undecided, View};
use crate::teams;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartTeam {
    pub team: TeamId,
    pub workflow: String,
    pub file: Option<String>,
    pub mode: Mode,
    pub agents: Vec<NewMember>,
    pub runner: Runner,
    pub takeover: Takeover,
}

/// An agent as the workflow file says it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewMember {
    pub agent: AgentId,
    pub backend: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What if the log says that somebody runs the team.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takeover {
    Refused,
    /// The caller knows that its runner is gone.
    FromTheDead,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamStarted {
    #[serde(flatten)]
    pub of: TeamRef,
    pub workflow: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub mode: Mode,
    pub agents: Vec<NewMember>,
    pub runner: Runner,
}

/// Another runner goes on with the same generation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeamResumed {
    #[serde(flatten)]
    pub of: TeamRef,
    pub workflow: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub mode: Mode,
    pub agents: Vec<NewMember>,
    pub runner: Runner,
    /// The turns that nobody ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<TurnId>,
}

impl NewMember {
    fn member(&self) -> Member {
        Member {
            agent: self.agent.clone(),
            backend: self.backend.clone(),
            model: self.model.clone(),
            turns: 0,
            failed: 0,
            usage: Usage::default(),
            turn: None,
            last: None,
            stop: None,
        }
    }
}

impl TeamStarted {
    pub(super) fn team(&self, seq: Seq, at: Timestamp) -> Team {
        Team {
            of: self.of.clone(),
            workflow: self.workflow.clone(),
            file: self.file.clone(),
            mode: self.mode,
            members: self.agents.iter().map(NewMember::member).collect(),
            runner: self.runner.clone(),
            started: seq,
            started_at: at,
            resumed: None,
            resumed_at: None,
            interrupted: vec![],
            kickoff: None,
            stop: None,
            ended: None,
        }
    }
}

impl Event for TeamStarted {
    const KIND: &'static str = "team.started";

    fn subject(&self) -> Subject<'_> {
        Subject::team(&self.of)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![self.of.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.of.team.clone(), self.team(stamp.seq, stamp.at));
    }
}

impl TeamResumed {
    /// Whoever is still in it has done what it did; that somebody wanted it to stop is over, because it was started again.
    pub(super) fn resumes(&self, team: Team, seq: Seq, at: Timestamp) -> Team {
        let member = |new: &NewMember| {
            let known = team.member(&new.agent).cloned().unwrap_or_else(|| new.member());
            Member { backend: new.backend.clone(), model: new.model.clone(), stop: None, ..known }
        };
        Team {
            workflow: self.workflow.clone(),
            file: self.file.clone(),
            mode: self.mode,
            members: self.agents.iter().map(member).collect(),
            runner: self.runner.clone(),
            resumed: Some(seq),
            resumed_at: Some(at),
            interrupted: self.interrupted.clone(),
            stop: None,
            ..team
        }
    }
}

impl Event for TeamResumed {
    const KIND: &'static str = "team.resumed";

    fn subject(&self) -> Subject<'_> {
        Subject::team(&self.of)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![self.of.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.replace(self.of.team.clone(), |old: Option<Team>| old.map(|team| self.resumes(team, stamp.seq, stamp.at)));
    }
}

impl Command for StartTeam {
    const NAME: &'static str = "StartTeam";

    type Reply = Team;

    fn read_set(&self) -> ReadSet {
        vec![Key::Team(self.team.clone()).into(), Lookup::live_teams().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Team>, Undecided> {
        needs_person(cx.caller, "run agents")?;
        self.check()?;
        let reply = ReplySource::row(self.team.clone());
        let before = cx.view.team(&self.team)?;
        match before.filter(|team| team.is_live()) {
            // It asks again because it did not hear the answer.
            Some(team) if team.runner == self.runner => Ok(Decision::unchanged(reply)),
            Some(team) if self.takeover == Takeover::Refused => Err(self.is_running(team).into()),
            Some(team) => {
                self.is_free(cx.view)?;
                Ok(Decision::new(self.resumes(team), reply))
            }
            None => {
                self.is_free(cx.view)?;
                let generation = before.map_or(1, |team| team.of.generation.saturating_add(1));
                Ok(Decision::new(vec![AnyEvent::new(self.starts(generation))], reply))
            }
        }
    }
}

impl StartTeam {
    fn starts(&self, generation: u64) -> TeamStarted {
        TeamStarted {
            of: TeamRef::new(&self.team, generation),
            workflow: self.workflow.clone(),
            file: self.file.clone(),
            mode: self.mode,
            agents: self.agents.clone(),
            runner: self.runner.clone(),
        }
    }

    fn resumes(&self, team: &Team) -> Vec<AnyEvent> {
        let mut facts = teams::interrupted(team);
        let interrupted = team.open_turns().map(|(_, turn)| turn.clone()).collect();
        facts.push(AnyEvent::new(TeamResumed {
            of: team.of.clone(),
            workflow: self.workflow.clone(),
            file: self.file.clone(),
            mode: self.mode,
            agents: self.agents.clone(),
            runner: self.runner.clone(),
            interrupted,
        }));
        facts
    }

    fn is_running(&self, team: &Team) -> Rejection {
        let message = format!("{} is run already, by {}", self.team, team.runner.described());
        Rejection::new(Code::Conflict, message).hint(format!("stop it with 'rookery stop {}'", self.team))
    }

    /// No agent is in two teams that run.
    fn is_free(&self, view: &View) -> Result<(), Undecided> {
        for row in view.all(&Lookup::live_teams())? {
            let Row::Team(team) = row else { continue };
            let shared = self.agents.iter().find(|new| team.member(&new.agent).is_some());
            if let Some(shared) = shared.filter(|_| *team.id() != self.team) {
                let message =
                    format!("'{}' is in {} already, run by {}", shared.agent, team.id(), team.runner.described());
                let hint = format!("stop that first, with 'rookery stop {}'", team.id());
                return Err(Rejection::new(Code::Conflict, message).hint(hint).into());
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Rejection> {
        TeamId::parse(self.team.as_str())?;
        limit::text("workflow", &self.workflow, limit::NAME_BYTES)?;
        limit::text("file", self.file.as_deref().unwrap_or(""), limit::PATH_BYTES)?;
        limit::name("runner.host", &self.runner.host, limit::NAME_BYTES)?;
        limit::name("runner.boot_id", &self.runner.boot_id, limit::NAME_BYTES)?;
        limit::json("runner.started_at", &self.runner.started_at, limit::NAME_BYTES)?;
        self.check_agents()
    }

    fn check_agents(&self) -> Result<(), Rejection> {
        if self.agents.is_empty() {
            return Err(Rejection::new(Code::Invalid, "agents must name somebody"));
        }
        if self.agents.len() > limit::TEAM_AGENTS {
            let message = format!("a team of {} agents; at most {} are taken", self.agents.len(), limit::TEAM_AGENTS);
            return Err(Rejection::new(Code::TooLarge, message));
        }
        let mut seen = BTreeSet::new();
        for new in &self.agents {
            check_name("agents", new.agent.as_str())?;
            limit::name("backend", &new.backend, limit::NAME_BYTES)?;
            limit::text("model", new.model.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
            let wrong = match self.team.alone() {
                _ if Actor::is_reserved(new.agent.as_str()) => Some("is not the name of an agent"),
                _ if !seen.insert(&new.agent) => Some("is named twice"),
                Some(only) if only != new.agent => Some("is not the agent that the team is called like"),
                None if Instance::of(&new.agent) != self.team.instance() => Some("is in another instance"),
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(Rejection::new(Code::Invalid, format!("agents: '{}' {wrong}", new.agent)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::{Authority, Caller};
    use crate::model::team::Conclusion;
    use crate::testing::{World, anna, by, end, entry, kickoff, runs_in, starts, wakes};

    fn takes_over(team: &str, agents: &[&str], pid: u32) -> StartTeam {
        StartTeam { takeover: Takeover::FromTheDead, ..starts(team, agents, pid) }
    }

    #[test]
    fn a_team_that_ended_begins_anew_and_one_that_runs_is_refused() {
        let mut w = World::default();
        assert_eq!(w.does(&anna(), starts("@pr-1", &["a", "b"], 1)), ["team.started"]);
        assert_eq!((w.team("@pr-1").of.generation, w.team("@pr-1").members.len()), (1, 2));
        assert_eq!(
            w.does(&anna(), starts("@pr-1", &["a", "b"], 1)),
            [""; 0],
            "the same runner did not hear the answer"
        );
        let refused = w.run(&anna(), starts("@pr-1", &["a"], 2)).unwrap_err();
        assert_eq!(refused.code, Code::Conflict);
        assert!(refused.message.contains("process 1 on here") && refused.hint.unwrap().contains("rookery stop @pr-1"));
        w.does(&anna(), end("@pr-1", 1, Conclusion::Completed));
        assert_eq!(w.does(&anna(), starts("@pr-1", &["c"], 2)), ["team.started"]);
        let team = w.team("@pr-1");
        assert_eq!((team.of.generation, team.members.len(), team.is_live()), (2, 1, true));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn whoever_takes_over_goes_on_where_it_was() {
        let mut w = runs_in("@pr-1", &["a", "b"]);
        w.does(&anna(), kickoff("@pr-1", 1, Some("@a begin")));
        w.does(&anna(), wakes("t1", "@pr-1", "a@pr-1", &["kickoff1"]));
        let facts = w.does(&anna(), takes_over("@pr-1", &["a", "c"], 2));
        assert_eq!(facts, ["turn.ended", "team.resumed"]);
        let team = w.team("@pr-1");
        assert_eq!((team.of.generation, team.kickoff.is_some(), team.runner.pid), (1, true, 2));
        assert_eq!((team.interrupted.as_slice(), team.open_turns().count()), (&["t1".into()][..], 0));
        assert_eq!(team.members.iter().map(|member| member.turns).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(w.pending("a@pr-1"), ["kickoff1"], "what was interrupted still waits");
        assert_eq!(w.does(&anna(), takes_over("@pr-1", &["a", "c"], 2)), [""; 0]);
        assert_eq!(w.does(&anna(), takes_over("@pr-1", &["a"], 3)), ["team.resumed"]);
        assert_eq!(w.team("@pr-1").interrupted, []);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn no_agent_is_in_two_live_teams() {
        let mut w = runs_in("@pr-1", &["a"]);
        let refused = w.run(&anna(), starts("a@pr-1", &["a"], 2)).unwrap_err();
        assert_eq!(refused.code, Code::Conflict);
        assert!(refused.message.contains("@pr-1") && refused.hint.unwrap().contains("rookery stop @pr-1"));
        assert_eq!(w.does(&anna(), starts("b@pr-1", &["b"], 2)), ["team.started"]);
        assert_eq!(w.refuses(&anna(), takes_over("@pr-1", &["a", "b"], 3)), Code::Conflict);
        w.does(&anna(), end("@pr-1", 1, Conclusion::Stopped));
        assert_eq!(w.does(&anna(), starts("a@pr-1", &["a"], 2)), ["team.started"]);
    }

    #[test]
    fn only_people_run_agents() {
        let mut w = World::of(&["lead"]);
        for caller in [by("lead"), Caller::anonymous(), Caller { power: Authority::Lead, ..by("lead") }] {
            assert_eq!(w.refuses(&caller, starts("@pr-1", &["a"], 1)), Code::Forbidden);
        }
    }

    #[test]
    fn what_cannot_be_a_team_is_refused() {
        let mut w = World::default();
        let many: Vec<String> = (0..=limit::TEAM_AGENTS).map(|number| format!("a{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (team, agents, code) in [
            ("@pr-1", &[][..], Code::Invalid),
            ("@pr-1", &["a", "a"], Code::Invalid),
            ("@pr-1", &["a@pr-2"], Code::Invalid),
            ("@pr-1", &["a b"], Code::Invalid),
            ("@pr-1", &["system"], Code::Invalid),
            ("helper", &["other"], Code::Invalid),
            ("helper@default", &["other"], Code::Invalid),
            ("@", &["a"], Code::Invalid),
            ("@pr-1", &many, Code::TooLarge),
        ] {
            assert_eq!(w.refuses(&anna(), starts(team, agents, 1)), code, "{team} {agents:?}");
        }
        assert_eq!(w.does(&anna(), starts("helper", &["helper"], 1)), ["team.started"]);
    }

    #[test]
    fn team_of_default_starts_beside_standalone_agent_of_same_name() {
        let mut w = World::default();
        assert_eq!(w.does(&anna(), starts("coder", &["coder"], 1)), ["team.started"]);
        assert_eq!(w.does(&anna(), starts("@default", &["coder", "tester"], 2)), ["team.started"]);
        let ids = |team: &str| w.team(team).members.iter().map(|member| member.agent.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (ids("coder"), ids("@default")),
            (vec!["coder".into()], vec!["coder@default".into(), "tester@default".into()])
        );
    }

    #[test]
    fn what_somebody_wanted_to_stop_goes_on_if_it_is_started_again() {
        let mut w = runs_in("@pr-1", &["a"]);
        for member in [None, Some("a@pr-1".into())] {
            w.does(&anna(), crate::teams::RequestTeamStop { team: "@pr-1".into(), member, reason: None });
        }
        w.does(&anna(), takes_over("@pr-1", &["a"], 2));
        let team = w.team("@pr-1");
        assert_eq!((team.stop.clone(), team.members[0].stop.clone()), (None, None));
        w.does(&by("a@pr-1"), entry("m", "a@pr-1", "still here"));
    }
}
