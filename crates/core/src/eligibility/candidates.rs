//! Everybody whom a task could be given to, kept ready for choices: follows the log fact by fact.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::agent_offer::{AgentOffer, Interner};
use super::choice::Reject;
use super::compiled_demand::Plan;
use super::{Among, RequiredCapability, TaskDemand};
use crate::kernel::id::{AgentId, Seq, TaskId};
use crate::model::agent::{Agent, TrackRecord};
use crate::model::capabilities::{Card, CostHint};
use crate::model::routing::{Rejected, RejectionFilter, RoutingDecision, Scored};

/// How many candidates and how many rejections a choice names that is kept in the log.
const MAX_NAMED_AGENTS: usize = 20;

/// Words of agents that are gone are dropped when there are this many times as many as in use.
const SPARE_WORDS: usize = 4;

/// The agents of the team with what they offer and what they are given. Nobody else is ever a candidate.
#[derive(Debug, Default)]
pub struct Candidates {
    pub(crate) agents: BTreeMap<AgentId, Candidate>,
    assigned: HashMap<TaskId, AgentId>,
    pub(crate) words: Interner,
    /// How many words the offers use, each as often as it is used.
    used: usize,
}

/// What a choice looks at comes first; the row is there for what follows in the log.
#[derive(Debug)]
pub(crate) struct Candidate {
    is_live: bool,
    is_paused: bool,
    /// Tasks that it has claimed or that are reserved for it.
    pub(crate) load: u32,
    /// Its share of failures, smoothed.
    failing: u32,
    given: Option<Seq>,
    offer: AgentOffer,
    pub(crate) agent: Box<Agent>,
}

/// What a row of the log does to choices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// Every choice comes to the same as before.
    Nothing,
    /// Others may go first, or not fit any more. Whoever did not fit does not fit now.
    Order,
    /// Somebody who did not fit before may fit now.
    Room,
}

impl Candidate {
    fn new(agent: Agent, offer: AgentOffer, load: u32) -> Candidate {
        Candidate {
            is_live: agent.is_online(),
            is_paused: agent.paused.is_some(),
            load,
            failing: failing(agent.recent),
            given: agent.last_assigned,
            offer,
            agent: Box::new(agent),
        }
    }

    /// Takes what a fact made of its row, which did not change what it offers.
    pub(crate) fn update(&mut self, agent: Agent) -> Change {
        let before = (self.is_ready(), self.failing, self.given);
        self.is_live = agent.is_online();
        self.is_paused = agent.paused.is_some();
        self.failing = failing(agent.recent);
        self.given = agent.last_assigned;
        *self.agent = agent;
        match (self.is_ready(), self.failing, self.given) {
            same if same == before => Change::Nothing,
            (true, ..) if !before.0 => Change::Room,
            _ => Change::Order,
        }
    }

    fn is_ready(&self) -> bool {
        self.is_live && !self.is_paused
    }

    /// It has one task less. That makes room only if it had as many as it takes.
    fn gets_free(&mut self) -> Change {
        let was_full = self.offer.max_concurrency.is_some_and(|most| self.load >= most);
        self.load = self.load.saturating_sub(1);
        if was_full { Change::Room } else { Change::Order }
    }
}

/// The share of failures, as if one more task had succeeded and one had failed. Shares of so few tasks differ by more than
/// what is cut off here, and equal ones are equal.
fn failing(recent: TrackRecord) -> u32 {
    const WHOLE: u32 = 1 << 20;
    let failures = recent.count() - recent.successes();
    (failures + 1) * WHOLE / (recent.count() + 2)
}

/// Whether an agent with so many tasks may be given this one, as far as the agent's row tells: the filters of a choice,
/// and nothing of who would be better.
pub fn admits(demand: &TaskDemand, agent: &Agent, load: u32) -> Result<(), Rejected> {
    let mut candidates = Candidates::default();
    candidates.put(agent.clone());
    if let Some(candidate) = candidates.agents.get_mut(&agent.id) {
        candidate.load = load;
    }
    let one = TaskDemand { among: Among::Agents(vec![agent.id.clone()]), ..demand.clone() };
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
        let offer = AgentOffer::of(&Card::of(&agent), &mut self.words);
        let load = match self.agents.get(&agent.id) {
            Some(known) => known.load,
            None => self.assigned.values().filter(|assignee| **assignee == agent.id).count().try_into().unwrap_or(0),
        };
        self.used += offer.words();
        if let Some(old) = self.agents.insert(agent.id.clone(), Candidate::new(agent, offer, load)) {
            self.used -= old.offer.words();
        }
        self.tidy();
    }

    /// The tasks that belong to an agent, claimed or only reserved.
    pub fn tasks_of(&self, agent: &AgentId) -> impl Iterator<Item = &TaskId> {
        self.assigned.iter().filter(move |(_, assignee)| *assignee == agent).map(|(task, _)| task)
    }

    /// Whether an agent said by a card that it speaks the protocol.
    pub fn has_card(&self, agent: &AgentId) -> bool {
        self.agents.get(agent).is_some_and(|candidate| candidate.agent.profile.card.is_some())
    }

    pub(crate) fn remove(&mut self, agent: &AgentId) {
        if let Some(old) = self.agents.remove(agent) {
            self.used -= old.offer.words();
        }
    }

    /// Notes that a task belongs to an agent, claimed or only reserved.
    pub fn assign(&mut self, task: &TaskId, to: &AgentId) {
        self.moves(task, to);
    }

    /// Whoever had the task before, be it claimed or reserved, has it no more.
    pub(crate) fn moves(&mut self, task: &TaskId, to: &AgentId) -> Change {
        if self.assigned.get(task) == Some(to) {
            return Change::Nothing;
        }
        let freed = self.unassign(task);
        self.assigned.insert(task.clone(), to.clone());
        match self.agents.get_mut(to) {
            Some(candidate) => {
                candidate.load = candidate.load.saturating_add(1);
                freed.max(Change::Order)
            }
            None => freed,
        }
    }

    pub(crate) fn unassign(&mut self, task: &TaskId) -> Change {
        let from = self.assigned.remove(task);
        let candidate = from.and_then(|from| self.agents.get_mut(&from));
        candidate.map_or(Change::Nothing, Candidate::gets_free)
    }
}

impl Candidates {
    /// Reads all offers again if most of the words are those of offers that are gone.
    fn tidy(&mut self) {
        const ALWAYS_FINE: usize = 4_096;
        if self.words.len() <= ALWAYS_FINE.max(SPARE_WORDS * self.used) {
            return;
        }
        self.words = Interner::default();
        for candidate in self.agents.values_mut() {
            candidate.offer = AgentOffer::of(&Card::of(&candidate.agent), &mut self.words);
        }
    }

    /// Chooses, and names as many of the others as are worth keeping.
    pub fn choose(&self, demand: &TaskDemand) -> RoutingDecision {
        self.decide(demand, MAX_NAMED_AGENTS)
    }

    /// Chooses for a task that waits.
    pub fn choose_for(&self, wanted: &RequiredCapability) -> RoutingDecision {
        let (first, last) = wanted.demands();
        let others = first.map(|demand| self.choose(&demand)).filter(|choice| choice.selected.is_some());
        others.unwrap_or_else(|| self.choose(last))
    }

    /// Chooses, and names everybody.
    pub fn explain(&self, demand: &TaskDemand) -> RoutingDecision {
        self.decide(demand, usize::MAX)
    }

    fn decide(&self, demand: &TaskDemand, named: usize) -> RoutingDecision {
        let plan = Plan::of(demand, &self.words);
        let mut tally = Tally { plan: &plan, named, best: vec![], eligible: 0, rejected: vec![], counts: [0; FILTERS] };
        if demand.among == Among::Anyone {
            self.agents.iter().for_each(|(id, candidate)| tally.consider(id, candidate));
            return tally.choice();
        }
        for agent in self.asked(&demand.among) {
            match self.agents.get(agent) {
                Some(candidate) => tally.consider(agent, candidate),
                None => tally.unknown(agent),
            }
        }
        tally.choice()
    }

    /// Those whom a choice is among that is not among all, each once and by id.
    fn asked<'a>(&'a self, among: &'a Among) -> BTreeSet<&'a AgentId> {
        let mut asked: BTreeSet<&AgentId> = among.named().iter().collect();
        if let Among::Groups { roles, .. } = among {
            let with_role = |candidate: &Candidate| roles.contains(&candidate.agent.profile.role);
            asked.extend(self.agents.iter().filter(|(_, candidate)| with_role(candidate)).map(|(id, _)| id));
        }
        asked
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
    /// By filter.
    counts: [u32; FILTERS],
}

const FILTERS: usize = RejectionFilter::ALL.len();

impl<'a> Tally<'a> {
    fn consider(&mut self, agent: &'a AgentId, candidate: &'a Candidate) {
        match self.admits(agent, candidate) {
            Ok(cost) => self.rank(agent, candidate, cost),
            Err(reject) => {
                let offer = Some((&candidate.offer, candidate.load));
                self.reject(agent, reject, offer);
            }
        }
    }

    fn admits(&self, agent: &AgentId, candidate: &Candidate) -> Result<CostHint, Reject> {
        if !candidate.is_live {
            return Err(Reject::Offline);
        }
        if candidate.is_paused {
            return Err(Reject::Paused);
        }
        self.plan.admits(agent, &candidate.offer, candidate.load)
    }

    fn unknown(&mut self, agent: &AgentId) {
        self.reject(agent, Reject::Unknown, None);
    }

    fn reject(&mut self, agent: &AgentId, reject: Reject, offer: Option<(&AgentOffer, u32)>) {
        let filter = reject.filter();
        self.counts[filter as usize] += 1;
        if self.rejected.len() < self.named {
            let reason = self.plan.because(reject, offer);
            self.rejected.push(Rejected { agent: agent.clone(), filter, reason });
        }
    }

    /// Puts it among the best, behind those that came before it and are as good.
    fn rank(&mut self, agent: &'a AgentId, candidate: &Candidate, cost: CostHint) {
        self.eligible += 1;
        let standing = Standing {
            lacking: self.plan.lacking(&candidate.offer),
            load: candidate.load,
            failing: candidate.failing,
            cost,
            given: candidate.given,
        };
        // Most are no better than the last that is named, in a team that is larger than that.
        if self.best.len() == self.named && self.best.last().is_none_or(|last| last.standing <= standing) {
            return;
        }
        let at = self.best.partition_point(|better| better.standing <= standing);
        self.best.truncate(self.named.saturating_sub(1));
        self.best.insert(at, Rank { agent, standing });
    }

    fn choice(self) -> RoutingDecision {
        let scored = |rank: &Rank<'_>| Scored {
            agent: rank.agent.clone(),
            score: self.plan.score(rank.standing.lacking),
            load: rank.standing.load,
        };
        RoutingDecision {
            selected: self.best.first().map(|rank| rank.agent.clone()),
            candidates: self.best.iter().map(scored).collect(),
            eligible: self.eligible,
            reason: self.reason(),
            counts: self.counts().collect(),
            rejected: self.rejected,
        }
    }

    fn counts(&self) -> impl Iterator<Item = (RejectionFilter, u32)> {
        let counts = self.counts;
        RejectionFilter::ALL
            .into_iter()
            .map(move |filter| (filter, counts[filter as usize]))
            .filter(|(_, count)| *count > 0)
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
            Some(second) => first.standing.ahead_by(&second.standing),
        };
        format!("{matched}, {decided}")
    }

    fn failure(&self) -> String {
        let counts: Vec<String> =
            self.counts().map(|(filter, count)| format!("{count} by {}", filter.as_str())).collect();
        match counts.is_empty() {
            true => "no agent is registered".to_owned(),
            false => format!("no agent fits; rejected: {}", counts.join(", ")),
        }
    }
}

/// One that fits.
struct Rank<'a> {
    agent: &'a AgentId,
    standing: Standing,
}

/// What those who fit are put in order by, the first field first; the least is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    /// What it misses of all that is preferred.
    lacking: u32,
    load: u32,
    failing: u32,
    cost: CostHint,
    given: Option<Seq>,
}

impl Standing {
    /// What this one is better by than the next.
    fn ahead_by(&self, next: &Standing) -> &'static str {
        if self.lacking != next.lacking {
            "highest score"
        } else if self.load != next.load {
            "lowest load"
        } else if self.failing != next.failing {
            "best success rate"
        } else if self.cost != next.cost {
            "lowest cost"
        } else {
            "round-robin"
        }
    }
}
