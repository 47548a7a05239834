//! Which agents the team has, as the log told so far. A cache for the sweeper and for signs of life; rules do not read it.
//!
//! Events come by two ways, from the log and from the commits of this node, and a commit may be heard of late. So every
//! entry has the position that it is true at, and older events change nothing.

use rookery_core::{AgentId, AnyEvent, EventRef, Seq};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rookery_core::model::agent::{Agent, Membership};

#[derive(Debug, Default)]
pub struct Roster {
    agents: Mutex<BTreeMap<AgentId, Known>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    place: AsOf<RosterState>,
    sealed: AsOf<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AsOf<T> {
    value: T,
    seq: Seq,
}

impl<T: Copy> AsOf<T> {
    fn take(&mut self, news: AsOf<T>) {
        if news.seq >= self.seq {
            *self = news;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RosterState {
    Here,
    Offline,
    Left,
}

impl Known {
    fn of(agent: &Agent, seq: Seq) -> Known {
        let place = match agent.membership {
            Membership::Here => RosterState::Here,
            Membership::Offline(_) => RosterState::Offline,
            Membership::Left(_) => RosterState::Left,
        };
        Known::at(place, agent.has_credential, seq)
    }

    fn at(place: RosterState, sealed: bool, seq: Seq) -> Known {
        Known { place: AsOf { value: place, seq }, sealed: AsOf { value: sealed, seq } }
    }
}

impl Roster {
    pub fn learn(&self, agent: &Agent, as_of: Seq) {
        self.take(&agent.id, Known::of(agent, as_of));
    }

    /// Takes these for the whole team: whoever is not among them has left while nobody followed the log.
    pub fn learn_all(&self, agents: &[Agent], as_of: Seq) {
        let mut known = self.lock();
        known.retain(|_, known| known.place.seq > as_of);
        for agent in agents {
            let news = Known::of(agent, as_of);
            known.entry(agent.id.clone()).or_insert(news).sealed.take(news.sealed);
        }
    }

    pub fn follow(&self, seq: Seq, event: &AnyEvent) {
        match event.typed() {
            EventRef::AgentRegistered(fact) => {
                self.take(&fact.id, Known::at(RosterState::Here, fact.sealed, seq));
            }
            EventRef::AgentUpdated(fact) => {
                if let Some(known) = self.lock().get_mut(&fact.id) {
                    known.sealed.take(AsOf { value: fact.sealed, seq });
                }
            }
            EventRef::AgentReturned(fact) => self.moved(&fact.agent, RosterState::Here, seq),
            EventRef::AgentWentOffline(fact) => self.moved(&fact.agent, RosterState::Offline, seq),
            EventRef::AgentLeft(fact) => self.moved(&fact.agent, RosterState::Left, seq),
            _ => {}
        }
    }

    pub fn moved(&self, agent: &AgentId, place: RosterState, as_of: Seq) {
        // Whether it is sealed was not said: whatever the log says of that is news.
        let unsaid = AsOf { value: false, seq: Seq::ZERO };
        self.take(agent, Known { place: AsOf { value: place, seq: as_of }, sealed: unsaid });
    }

    fn take(&self, agent: &AgentId, news: Known) {
        let mut agents = self.lock();
        let known = agents.entry(agent.clone()).or_insert(news);
        known.place.take(news.place);
        known.sealed.take(news.sealed);
    }

    /// Whether it belongs to the team, here or offline.
    pub fn knows(&self, agent: &AgentId) -> bool {
        self.get(agent).is_some_and(|known| known.place.value != RosterState::Left)
    }

    pub fn is_here(&self, agent: &AgentId) -> bool {
        self.get(agent).is_some_and(|known| known.place.value == RosterState::Here)
    }

    pub fn is_offline(&self, agent: &AgentId) -> bool {
        self.get(agent).is_some_and(|known| known.place.value == RosterState::Offline)
    }

    /// Bound to a credential: its id alone proves nothing.
    pub fn is_sealed(&self, agent: &AgentId) -> bool {
        self.get(agent).is_some_and(|known| known.place.value != RosterState::Left && known.sealed.value)
    }

    pub fn live(&self) -> Vec<AgentId> {
        let known = self.lock();
        known
            .iter()
            .filter(|(_, known)| known.place.value == RosterState::Here)
            .map(|(agent, _)| agent.clone())
            .collect()
    }

    fn get(&self, agent: &AgentId) -> Option<Known> {
        self.lock().get(agent).copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Known>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rookery_core::agents::RegisterAgent;
    use rookery_core::model::agent::{AgentRole, Profile};
    use rookery_core::{Caller, LogId, Row};
    use rookery_store::memory::Database;
    use rookery_store::{PresenceBoard, Submission};

    use super::*;

    /// Agents as their rows show them.
    fn agents(ids: &[&str]) -> Vec<Agent> {
        let database = Database::new(LogId::from("log"));
        for id in ids {
            let profile = Profile {
                tool: "test".into(),
                role: AgentRole::Worker,
                capabilities: vec![],
                name: None,
                workspace_path: None,
                metadata: serde_json::Map::new(),
                card: None,
                role_name: None,
                session_id: None,
            };
            let submission =
                Submission::new(Caller::person("anna"), RegisterAgent::with_profile((*id).into(), profile));
            database.run(vec![submission], rookery_core::Timestamp(0), &PresenceBoard::default(), None);
        }
        let rows = database.stored().0.into_values();
        rows.filter_map(|row| if let Row::Agent(agent) = row { Some(agent) } else { None }).collect()
    }

    #[test]
    fn an_answer_that_comes_late_changes_nothing() {
        let roster = Roster::default();
        let a = AgentId::from("a");
        roster.moved(&a, RosterState::Here, Seq(1));
        roster.moved(&a, RosterState::Here, Seq(5));
        roster.moved(&a, RosterState::Offline, Seq(4));
        assert!(roster.is_here(&a));
        roster.moved(&a, RosterState::Left, Seq(6));
        roster.learn(&agents(&["a"])[0], Seq(5));
        assert!(!roster.knows(&a));
    }

    #[test]
    fn an_answer_that_comes_early_hides_no_seal() {
        let roster = Roster::default();
        let a = AgentId::from("a");
        roster.moved(&a, RosterState::Here, Seq(9));
        let sealed = Agent { has_credential: true, ..agents(&["a"]).remove(0) };
        roster.learn(&sealed, Seq(3));
        assert!(roster.is_sealed(&a) && roster.is_here(&a));
    }

    #[test]
    fn whoever_left_while_nobody_followed_is_gone() {
        let roster = Roster::default();
        roster.moved(&"old".into(), RosterState::Here, Seq(1));
        roster.moved(&"new".into(), RosterState::Here, Seq(9));
        roster.learn_all(&agents(&["a"]), Seq(8));
        assert_eq!(roster.live(), ["a".into(), "new".into()]);
    }
}
