//! Teams and turns for rule tests.

use super::World;
use crate::kernel::caller::Caller;
use crate::kernel::id::{AgentId, MessageId, TeamId, TurnId};
use crate::messages::StormGuard;
use crate::model::team::{Conclusion, Mode, Runner, StartTime, Team};
use crate::model::turn::{Failure, Turn, TurnConclusion, Usage, WakeReason};
use crate::model::{Key, Row};
use crate::teams::{EndTeam, EndTurn, KickOff, NewMember, Notes, StartTeam, StartTurn, Takeover};

impl World {
    pub(crate) fn team(&self, id: &str) -> &Team {
        match self.rows().get(&Key::Team(id.into())) {
            Some(Row::Team(team)) => team,
            other => panic!("team {id}: {other:?}"),
        }
    }

    pub(crate) fn turn(&self, id: &str) -> &Turn {
        match self.rows().get(&Key::Turn(id.into())) {
            Some(Row::Turn(turn)) => turn,
            other => panic!("turn {id}: {other:?}"),
        }
    }
}

/// A process of its own for each pid.
fn runner(pid: u32) -> Runner {
    Runner {
        host: "here".to_owned(),
        boot_id: "boot".to_owned(),
        pid,
        started_at: StartTime::Ticks(u64::from(pid)),
        site: None,
    }
}

/// A team of these agents, run by the process with this pid.
pub(crate) fn starts(team: &str, agents: &[&str], pid: u32) -> StartTeam {
    let id = TeamId::from(team);
    let agent = |name: &&str| NewMember { agent: id.member(name), backend: "mock".to_owned(), model: None };
    StartTeam {
        team: team.into(),
        workflow: "review".to_owned(),
        file: Some("review.yaml".to_owned()),
        mode: Mode::Run,
        agents: agents.iter().map(agent).collect(),
        runner: runner(pid),
        takeover: Takeover::Refused,
    }
}

/// A world in which a team runs, of agents that are known.
pub(crate) fn runs_in(team: &str, agents: &[&str]) -> World {
    let id = TeamId::from(team);
    let ids: Vec<String> = agents.iter().map(|name| id.member(name).to_string()).collect();
    let mut w = World::of(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    w.does(&Caller::person("anna"), starts(team, agents, 1));
    w
}

pub(crate) fn kickoff(team: &str, generation: u64, text: Option<&str>) -> KickOff {
    let id = |part: &str| MessageId::new(format!("{part}{generation}"));
    let (text, messages) = (text.map(str::to_owned), [id("began"), id("kickoff")]);
    KickOff { team: team.into(), generation, text, mentions: None, messages }
}

pub(crate) fn end(team: &str, generation: u64, how: Conclusion) -> EndTeam {
    EndTeam { team: team.into(), generation, how, reason: None }
}

/// The first attempt of an agent of the first generation of a team at some messages.
pub(crate) fn wakes(turn: &str, team: &str, agent: &str, messages: &[&str]) -> StartTurn {
    StartTurn {
        turn: TurnId::from(turn),
        team: team.into(),
        generation: 1,
        agent: AgentId::from(agent),
        attempt: 1,
        woken: WakeReason::Messages,
        messages: messages.iter().map(|message| MessageId::from(*message)).collect(),
    }
}

pub(crate) fn ends_turn(turn: &str, how: TurnConclusion) -> EndTurn {
    EndTurn {
        turn: turn.into(),
        how,
        last: false,
        failure: None,
        usage: Usage { input_tokens: 10, output_tokens: 1, cost_micros: Some(5) },
        notes: Notes::default(),
        said: None,
        message: MessageId::new(format!("by_{turn}")),
        people: vec![],
        guard: StormGuard::default(),
    }
}

/// The last attempt comes to nothing.
pub(crate) fn fails(turn: &str, reason: &str) -> EndTurn {
    let failure = Failure { kind: "broken".to_owned(), reason: reason.to_owned(), detail: None };
    EndTurn { last: true, failure: Some(failure), ..ends_turn(turn, TurnConclusion::Failed) }
}
