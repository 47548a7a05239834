//! Everybody whom a task could be given to, kept ready for choices: follows the log fact by fact.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use super::choice::{Choice, Reject, Rejected, Scored};
use super::demand::{Among, Demand};
use super::offer::{Offer, Words};
use super::plan::Plan;
use crate::agent::{self, Agent};
use crate::clutch::Card;
use crate::clutch::card::CostHint;
use crate::fact::{Fact, touches};
use crate::id::{AgentId, Seq, TaskId};
use crate::key::Key;
use crate::log::LogRow;

/// How many candidates and how many rejections a choice names that is kept in the log.
const NAMED: usize = 20;
/// Words of agents that are gone are dropped when there are this many times as many as in use.
const SPARE_WORDS: usize = 4;

/// The agents of the team with what they offer and what they are given. Nobody else is ever a candidate.
#[derive(Debug, Default)]
pub struct Candidates {
    pub(super) agents: BTreeMap<AgentId, Candidate>,
    assigned: HashMap<TaskId, AgentId>,
    pub(super) words: Words,
    /// How many words the offers use, each as often as it is used.
    used: usize,
}

#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) agent: Agent,
    offer: Offer,
    /// Tasks that it has claimed or that are reserved for it.
    pub(super) load: u32,
}

/// Whether an agent with so many tasks may be given this one, as far as the agent's row tells: the filters of a choice,
/// and nothing of who would be better.
pub fn admits(demand: &Demand, agent: &Agent, load: u32) -> Result<(), Rejected> {
    let mut candidates = Candidates::default();
    candidates.put(agent.clone());
    if let Some(candidate) = candidates.agents.get_mut(&agent.id) {
        candidate.load = load;
    }
    let one = Demand { among: Among::Agents(vec![agent.id.clone()]), ..demand.clone() };
    match candidates.choose(&one).rejected.pop() {
        Some(rejected) => Err(rejected),
        None => Ok(()),
    }
}

impl Candidates {
    /// Takes an agent as its row shows it, with the tasks it is known to have.
    pub fn put(&mut self, agent: Agent) {
        if agent.has_left() {
            self.remove(&agent.id);
            return;
        }
        let offer = Offer::of(&Card::of(&agent), &mut self.words);
        let load = match self.agents.get(&agent.id) {
            Some(known) => known.load,
            None => self.assigned.values().filter(|assignee| **assignee == agent.id).count().try_into().unwrap_or(0),
        };
        self.used += offer.words();
        if let Some(old) = self.agents.insert(agent.id.clone(), Candidate { agent, offer, load }) {
            self.used -= old.offer.words();
        }
        self.tidy();
    }

    fn remove(&mut self, agent: &AgentId) {
        if let Some(old) = self.agents.remove(agent) {
            self.used -= old.offer.words();
        }
    }

    /// Notes that a task belongs to an agent, claimed or only reserved.
    pub fn assign(&mut self, task: &TaskId, to: &AgentId) {
        self.unassign(task);
        self.assigned.insert(task.clone(), to.clone());
        if let Some(candidate) = self.agents.get_mut(to) {
            candidate.load = candidate.load.saturating_add(1);
        }
    }

    fn unassign(&mut self, task: &TaskId) {
        let from = self.assigned.remove(task);
        if let Some(candidate) = from.and_then(|from| self.agents.get_mut(&from)) {
            candidate.load = candidate.load.saturating_sub(1);
        }
    }

    /// Takes the next row of the log.
    pub fn follow(&mut self, row: &LogRow) {
        for key in touches(&row.fact) {
            if let Key::Agent(id) = key {
                self.fold(&id, row);
            }
        }
        match &row.fact {
            Fact::TaskReserved(fact) => self.assign(&fact.task, &fact.agent),
            Fact::TaskReassigned(fact) => self.assign(&fact.task, &fact.to),
            Fact::TaskClaimed(fact) => self.assign(&fact.task, &fact.agent),
            Fact::TaskReleased(fact) => self.unassign(&fact.task),
            Fact::TaskCompleted(fact) => self.unassign(&fact.task),
            Fact::TaskFailed(fact) => self.unassign(&fact.task),
            Fact::TaskDropped(fact) => self.unassign(&fact.task),
            Fact::TaskRemoved(fact) => self.unassign(&fact.task),
            _ => {}
        }
    }

    fn fold(&mut self, id: &AgentId, row: &LogRow) {
        let says_what_it_is = matches!(row.fact, Fact::AgentRegistered(_) | Fact::AgentUpdated(_));
        match self.agents.get_mut(id) {
            Some(candidate) if !says_what_it_is => {
                let old = candidate.agent.clone();
                match agent::apply(Some(old), id, &row.fact, row.seq, row.at) {
                    Some(agent) if !agent.has_left() => candidate.agent = agent,
                    _ => self.remove(id),
                }
            }
            known => {
                let old = known.map(|candidate| candidate.agent.clone());
                if let Some(agent) = agent::apply(old, id, &row.fact, row.seq, row.at) {
                    self.put(agent);
                }
            }
        }
    }

    /// Reads all offers again if most of the words are those of offers that are gone.
    fn tidy(&mut self) {
        const ALWAYS_FINE: usize = 4_096;
        if self.words.len() <= ALWAYS_FINE.max(SPARE_WORDS * self.used) {
            return;
        }
        self.words = Words::default();
        for candidate in self.agents.values_mut() {
            candidate.offer = Offer::of(&Card::of(&candidate.agent), &mut self.words);
        }
    }

    /// Chooses, and names as many of the others as are worth keeping.
    pub fn choose(&self, demand: &Demand) -> Choice {
        self.decide(demand, NAMED)
    }

    /// Chooses, and names everybody.
    pub fn explain(&self, demand: &Demand) -> Choice {
        self.decide(demand, usize::MAX)
    }

    fn decide(&self, demand: &Demand, named: usize) -> Choice {
        let plan = Plan::of(demand, &self.words);
        let mut tally =
            Tally { plan: &plan, named, best: vec![], eligible: 0, rejected: vec![], counts: BTreeMap::new() };
        match &demand.among {
            Among::Anyone => self.agents.values().for_each(|candidate| tally.consider(candidate)),
            Among::Role(role) => {
                let with_role = self.agents.values().filter(|candidate| candidate.agent.profile.role == *role);
                with_role.for_each(|candidate| tally.consider(candidate));
            }
            Among::Agents(agents) => {
                let mut agents: Vec<&AgentId> = agents.iter().collect();
                agents.sort_unstable();
                agents.dedup();
                for agent in agents {
                    match self.agents.get(agent) {
                        Some(candidate) => tally.consider(candidate),
                        None => tally.unknown(agent),
                    }
                }
            }
        }
        tally.choice()
    }
}

/// A choice in the making: candidates come by id.
struct Tally<'a> {
    plan: &'a Plan<'a>,
    named: usize,
    /// The best so far, in order; no more of them than are named.
    best: Vec<Rank<'a>>,
    eligible: u32,
    rejected: Vec<Rejected>,
    counts: BTreeMap<super::Filter, u32>,
}

impl<'a> Tally<'a> {
    fn consider(&mut self, candidate: &'a Candidate) {
        match self.admits(candidate) {
            Ok(cost) => self.rank(Rank { points: self.plan.points(&candidate.offer), cost, candidate }),
            Err(reject) => {
                self.count(reject);
                if self.rejected.len() < self.named {
                    let reason = self.plan.because(reject, &candidate.offer, candidate.load);
                    let agent = candidate.agent.id.clone();
                    self.rejected.push(Rejected { agent, filter: reject.filter(), reason });
                }
            }
        }
    }

    fn admits(&self, candidate: &Candidate) -> Result<CostHint, Reject> {
        if !candidate.agent.is_live() {
            return Err(Reject::Offline);
        }
        self.plan.admits(&candidate.agent.id, &candidate.offer, candidate.load)
    }

    fn unknown(&mut self, agent: &AgentId) {
        self.count(Reject::Unknown);
        if self.rejected.len() < self.named {
            let reason = "is not registered".to_owned();
            self.rejected.push(Rejected { agent: agent.clone(), filter: super::Filter::Unknown, reason });
        }
    }

    fn count(&mut self, reject: Reject) {
        *self.counts.entry(reject.filter()).or_default() += 1;
    }

    fn rank(&mut self, rank: Rank<'a>) {
        self.eligible += 1;
        let at = self.best.partition_point(|better| better.order(&rank) != Ordering::Greater);
        if at < self.named {
            self.best.insert(at, rank);
            self.best.truncate(self.named);
        }
    }

    fn choice(self) -> Choice {
        let scored = |rank: &Rank<'_>| Scored {
            agent: rank.candidate.agent.id.clone(),
            score: self.plan.score(rank.points),
            load: rank.candidate.load,
        };
        Choice {
            selected: self.best.first().map(|rank| rank.candidate.agent.id.clone()),
            candidates: self.best.iter().map(scored).collect(),
            eligible: self.eligible,
            reason: self.reason(),
            rejected: self.rejected,
            counts: self.counts,
        }
    }

    /// What was matched, and what decided between the first and the second.
    fn reason(&self) -> String {
        let Some(first) = self.best.first() else { return self.failure() };
        let requires: Vec<String> = self.plan.demand.requires.iter().map(ToString::to_string).collect();
        let matched = match requires.is_empty() {
            true => "nothing required".to_owned(),
            false => format!("matched requires[{}]", requires.join(", ")),
        };
        let decided = match self.best.get(1) {
            None => "the only candidate",
            Some(second) => first.ahead_by(second),
        };
        format!("{matched}, {decided}")
    }

    fn failure(&self) -> String {
        if self.counts.is_empty() {
            return "no agent is registered".to_owned();
        }
        let counts: Vec<String> =
            self.counts.iter().map(|(filter, count)| format!("{count} by {}", filter.as_str())).collect();
        format!("no agent fits; rejected: {}", counts.join(", "))
    }
}

/// One that fits, with what it is put in order by.
struct Rank<'a> {
    points: u32,
    cost: CostHint,
    candidate: &'a Candidate,
}

const ROUND_ROBIN: &str = "round-robin";

impl Rank<'_> {
    /// The better one is the lesser.
    fn order(&self, other: &Rank<'_>) -> Ordering {
        self.steps(other).map(|(order, _)| order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn ahead_by(&self, other: &Rank<'_>) -> &'static str {
        self.steps(other).find(|(order, _)| order.is_ne()).map_or(ROUND_ROBIN, |(_, word)| word)
    }

    /// What is compared, in order, with the word for being ahead by it.
    fn steps(&self, other: &Rank<'_>) -> impl Iterator<Item = (Ordering, &'static str)> {
        const STEPS: [(fn(&Rank<'_>, &Rank<'_>) -> Ordering, &str); 6] = [
            (|one, other| other.points.cmp(&one.points), "highest score"),
            (|one, other| one.candidate.load.cmp(&other.candidate.load), "lowest load"),
            (|one, other| other.cmp_success(one), "best success rate"),
            (|one, other| one.cost.cmp(&other.cost), "lowest cost"),
            (|one, other| one.given().cmp(&other.given()), ROUND_ROBIN),
            (|one, other| one.candidate.agent.id.cmp(&other.candidate.agent.id), ROUND_ROBIN),
        ];
        STEPS.into_iter().map(move |(compare, word)| (compare(self, other), word))
    }

    /// Shares of successes, smoothed: as if one more task had succeeded and one had failed.
    fn cmp_success(&self, other: &Rank<'_>) -> Ordering {
        let share = |rank: &Rank<'_>| {
            let recent = rank.candidate.agent.recent;
            (u64::from(recent.successes()) + 1, u64::from(recent.count()) + 2)
        };
        let ((one, of_one), (two, of_two)) = (share(self), share(other));
        (one * of_two).cmp(&(two * of_one))
    }

    fn given(&self) -> Option<Seq> {
        self.candidate.agent.given
    }
}
