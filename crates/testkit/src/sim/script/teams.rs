//! Commands of a runner: starting and ending teams and turns.

use rand::Rng;
use rand::seq::IndexedRandom;
use rookery_core::agents::{PauseAgent, ResumeAgent};
use rookery_core::model::message::Standing;
use rookery_core::model::team::{Conclusion, Mode, Runner, StartTime, Team, TeamStartSpec};
use rookery_core::model::turn::{Failure, Turn, TurnConclusion, Usage, WakeReason};
use rookery_core::teams::{
    AnnounceToTeam, EndTeam, KickOff, NewMember, RequestTeamStart, RequestTeamStop, StartTeam, Takeover,
};
use rookery_core::teams::{EndTurn, Notes, StartTurn};
use rookery_core::{AgentId, AnyCommand, IntentId, Key, MessageId, Row, TeamId, TurnId};

use super::Script;
use super::messages::GUARD;

const TEAM_ID: &str = "@default";

impl Script<'_> {
    /// A command that usually fits the state of the team.
    pub(super) fn runner_command(&mut self) -> AnyCommand {
        let Some(team) = self.team().filter(|team| team.is_live()).cloned() else { return self.start_team() };
        match self.rng.random_range(0..100) {
            0..6 => self.start_team(),
            6..14 => self.kick_off(&team),
            14..17 => self.announce(),
            17..20 => self.request_stop(&team),
            20..22 => self.end_team(&team),
            22..24 => self.request_team_start(),
            24..30 => self.pause_or_resume(),
            30..63 => self.start_turn(&team),
            _ => self.end_turn(),
        }
    }

    fn team(&self) -> Option<&Team> {
        match self.model.row(&Key::Team(TEAM_ID.into())) {
            Some(Row::Team(team)) => Some(team),
            _ => None,
        }
    }

    fn start_team(&mut self) -> AnyCommand {
        let member = |agent: &AgentId| NewMember { agent: agent.clone(), backend: "mock".to_owned(), model: None };
        let only = self.agent();
        let (team, agents, mode) = match self.rng.random_range(0..6) {
            0 => (TeamId::from(only.as_str()), vec![member(&only)], Mode::Standalone),
            _ => (TeamId::from(TEAM_ID), self.agents.iter().map(member).collect(), Mode::Start),
        };
        let pid = self.rng.random_range(1..4);
        let (host, boot_id) = ("host-1".to_owned(), "boot-1".to_owned());
        let runner = Runner { host, boot_id, pid, started_at: StartTime::Ticks(u64::from(pid)), site: None };
        let takeover = if self.rng.random_bool(0.6) { Takeover::FromTheDead } else { Takeover::Refused };
        StartTeam { team, workflow: "w".to_owned(), file: None, mode, agents, runner, takeover }.into()
    }

    /// Resumes a paused agent, or else pauses one, so that no pause lasts long.
    fn pause_or_resume(&mut self) -> AnyCommand {
        let paused = self.model.rows().find_map(|(_, row)| match row {
            Row::Agent(agent) if agent.paused.is_some() => Some(agent.id.clone()),
            _ => None,
        });
        match paused {
            Some(agent) => ResumeAgent { agent }.into(),
            None => PauseAgent { agent: self.agent(), reason: self.reason() }.into(),
        }
    }

    fn request_team_start(&mut self) -> AnyCommand {
        let intent = IntentId::new(format!("int_launch_{}", self.serial));
        let file = if self.rng.random_bool(0.5) { "team.yaml" } else { "bad.yaml" };
        let launch = TeamStartSpec { file: file.to_owned(), params: vec![] };
        RequestTeamStart { intent, team: TEAM_ID.into(), launch, site: "site_0".into() }.into()
    }

    fn new_message_id(&self, part: &str) -> MessageId {
        MessageId::new(format!("msg_{part}_{:08}", self.serial))
    }

    fn kick_off(&mut self, team: &Team) -> AnyCommand {
        let text = Some(format!("@{} begin", self.agent()));
        let messages = [self.new_message_id("began"), self.new_message_id("kickoff")];
        let mentions = self.rng.random_bool(0.3).then(|| vec![self.agent().to_string()]);
        KickOff { team: team.id().clone(), generation: self.generation(team), text, mentions, messages }.into()
    }

    fn announce(&mut self) -> AnyCommand {
        let text = format!("@{} enough", self.agent());
        AnnounceToTeam { team: TEAM_ID.into(), message: self.new_message_id("said"), text }.into()
    }

    fn request_stop(&mut self, team: &Team) -> AnyCommand {
        let member = self.rng.random_bool(0.5).then(|| self.agent());
        RequestTeamStop { team: team.id().clone(), member, reason: self.reason() }.into()
    }

    fn end_team(&mut self, team: &Team) -> AnyCommand {
        let how = *Conclusion::ALL.choose(self.rng).unwrap_or(&Conclusion::Stopped);
        EndTeam { team: team.id().clone(), generation: self.generation(team), how, reason: self.reason() }.into()
    }

    /// The current generation, or rarely the previous one.
    fn generation(&mut self, team: &Team) -> u64 {
        if self.rng.random_bool(0.1) { team.of.generation.saturating_sub(1) } else { team.of.generation }
    }

    fn start_turn(&mut self, team: &Team) -> AnyCommand {
        let agent = self.agent();
        let standing = if self.rng.random_bool(0.6) { Standing::Queued } else { Standing::Read };
        StartTurn {
            turn: TurnId::new(format!("turn_{:08}", self.serial)),
            team: team.id().clone(),
            generation: self.generation(team),
            attempt: self.rng.random_range(1..4),
            woken: *WakeReason::ALL.choose(self.rng).unwrap_or(&WakeReason::Messages),
            messages: self.own_messages(&agent, standing),
            agent,
        }
        .into()
    }

    fn end_turn(&mut self) -> AnyCommand {
        let turns = self.model.rows().filter_map(|(_, row)| if let Row::Turn(turn) = row { Some(turn) } else { None });
        let known: Vec<&Turn> = turns.collect();
        let open: Vec<&Turn> = known.iter().copied().filter(|turn| turn.end.is_none()).collect();
        let among = if open.is_empty() || self.rng.random_bool(0.1) { known } else { open };
        let turn = among.choose(self.rng).map_or_else(|| "turn_none".into(), |turn| turn.id.clone());
        let reason = format!("text {}", self.rng.random_range(0..20));
        EndTurn {
            turn,
            how: *[TurnConclusion::Done, TurnConclusion::Done, TurnConclusion::Failed, TurnConclusion::Interrupted]
                .choose(self.rng)
                .unwrap_or(&TurnConclusion::Done),
            last: self.rng.random_bool(0.5),
            failure: Some(Failure { kind: "broken".to_owned(), reason, detail: None }),
            usage: Usage { input_tokens: 3, output_tokens: 2, cost_micros: Some(1) },
            notes: Notes::default(),
            said: self.rng.random_bool(0.5).then(|| format!("@{} text 1", self.agent())),
            message: self.new_message_id("turn"),
            people: vec![],
            guard: GUARD,
        }
        .into()
    }
}
