//! The teams whose session keys are valid, kept up with the log so that no request has to read the store.

use rookery_core::{AgentId, AnyEvent, EventRef, Rejection, Seq, TeamId};
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use rookery_core::kernel::session_key::{Session, TeamSession};
use rookery_core::model::team::{Team, TeamRef};
use rookery_core::teams::NewMember;

/// The latest generation of every team, as far as this node has heard.
#[derive(Debug, Default)]
pub struct TeamSessions(RwLock<HashMap<TeamId, Latest>>);

#[derive(Clone, Debug)]
struct Latest {
    generation: u64,
    live: bool,
    members: Vec<AgentId>,
    as_of: Seq,
}

impl TeamSessions {
    /// Takes note of a team as it was at a place in the log.
    pub fn learn(&self, team: &Team, as_of: Seq) {
        let members = team.members.iter().map(|member| member.agent.clone()).collect();
        let latest = Latest { generation: team.of.generation, live: team.is_live(), members, as_of };
        self.take(team.id(), latest);
    }

    pub fn follow(&self, seq: Seq, event: &AnyEvent) {
        match event.typed() {
            EventRef::TeamStarted(fact) => self.runs(&fact.of, &fact.agents, seq),
            EventRef::TeamResumed(fact) => self.runs(&fact.of, &fact.agents, seq),
            EventRef::TeamEnded(fact) => {
                let ended = Latest { generation: fact.of.generation, live: false, members: vec![], as_of: seq };
                self.take(&fact.of.team, ended);
            }
            _ => {}
        }
    }

    fn runs(&self, of: &TeamRef, agents: &[NewMember], as_of: Seq) {
        let members = agents.iter().map(|new| new.agent.clone()).collect();
        self.take(&of.team, Latest { generation: of.generation, live: true, members, as_of });
    }

    fn take(&self, team: &TeamId, news: Latest) {
        let mut teams = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match teams.get_mut(team) {
            Some(known) if known.as_of > news.as_of => {}
            Some(known) => *known = news,
            None => drop(teams.insert(team.clone(), news)),
        }
    }

    /// Rejects the session of a generation that has ended. A generation that this node has not heard of yet started on
    /// another node a moment ago: keys are sealed, so only the project's owner can name one. Writes are checked again in
    /// their transaction.
    pub fn check(&self, session: &Session) -> Result<(), Rejection> {
        let Some(bound) = &session.team else { return Ok(()) };
        let teams = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let ended = teams.get(&bound.team).is_some_and(|latest| !latest.admits(bound, &session.agent));
        if ended { Err(Rejection::session_ended(bound)) } else { Ok(()) }
    }
}

impl Latest {
    fn admits(&self, bound: &TeamSession, agent: &AgentId) -> bool {
        let current = self.generation == bound.generation && self.live && self.members.contains(agent);
        current || bound.generation > self.generation
    }
}
