//! What holds of every choice, against rules written a second time and as plainly as can be.

use std::collections::{BTreeMap, BTreeSet};

use proptest::sample::{select, subsequence};
use semver::{Version, VersionReq};
use serde_json::{Map, Value, json};

use crate::agents::{LeaveTeam, PauseAgent, ResumeAgent};
use crate::eligibility::{Among, Candidates, Change, TaskDemand, admits};
use crate::kernel::caller::{Actor, Auth, Caller};
use crate::kernel::id::{AgentId, Seq, TaskId, Timestamp};
use crate::model::agent::{Agent, AgentRole, Membership, Paused, TrackRecord};
use crate::model::capabilities::{Capability, Card, CostHint};
use crate::model::policy::{Network, Policy, TrustLevel};
use crate::model::requirement::Requirement;
use crate::model::routing::RoutingDecision;
use crate::model::{Key, Row};
use crate::tasks::{FailTask, TaskReleased, TaskReserved};
use crate::testing::{World, anna, assign, by, claim, complete, fail, hand_over, ingest, profile, release, sends};
use crate::traits::{AnyEvent, LogRow};
use proptest::prelude::*;

/// An agent with the tasks it has.
#[derive(Clone, Debug)]
struct Member {
    agent: Agent,
    load: u32,
}

fn agent(id: &str, card: Card) -> Agent {
    let mut w = World::of(&[id]);
    let known = profile(AgentRole::Worker);
    w.does(&by(id), crate::agents::RegisterAgent::with_profile(id.into(), card.profile(Some(&known))));
    w.agent(id).clone()
}

fn card(id: &str) -> Card {
    Card::read(&serde_json::json!({ "v": "clutch/0.1", "agent_id": id })).unwrap()
}

fn candidates(members: &[Member]) -> Candidates {
    let mut candidates = Candidates::default();
    for member in members {
        candidates.put(member.agent.clone());
        for task in 0..member.load {
            candidates.assign(&TaskId::new(format!("{}-{task}", member.agent.id)), &member.agent.id);
        }
    }
    candidates
}

const SKILLS: [&str; 4] = ["skill:research", "skill:code", "skill:law", "tool:shell"];

const VERSIONS: [&str; 7] = ["1.0", "1.4.2", "2", "^1.2", ">=2, <4", "0.3", "1.0.0-beta"];

const RANGES: [&str; 7] = ["^1.0", "~1.4", ">=2", "<1", "*", "=3.1.4", "^0.3"];

const WORDS: [&str; 3] = ["fintech", "rust", "research"];

const TOOLS: [&str; 3] = ["mcp:browser", "mcp:files", "mcp:shell"];

fn some<T: Clone + std::fmt::Debug + 'static>(of: &[T]) -> impl Strategy<Value = Vec<T>> + use<T> {
    subsequence(of.to_vec(), 0..=of.len())
}

fn owned(words: Vec<&'static str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

prop_compose! {
    fn capability()(
        id in select(SKILLS.to_vec()),
        version in proptest::option::of(select(VERSIONS.to_vec())),
        tags in some(&WORDS),
        tools in some(&TOOLS),
        trust_level in proptest::option::of(select(TrustLevel::ALL.to_vec())),
        cost_hint in proptest::option::of(select(CostHint::ALL.to_vec())),
    ) -> Capability {
        Capability {
            version: version.map(str::to_owned),
            tags: owned(tags),
            tools: owned(tools),
            trust_level,
            cost_hint,
            ..Capability::of(id)
        }
    }
}

prop_compose! {
    fn member(id: usize)(
        mut capabilities in prop::collection::vec(capability(), 0..4),
        servers in some(&TOOLS),
        sandbox in any::<Option<bool>>(),
        network in proptest::option::of(select(vec!["none", "egress-restricted", "egress-allowed", "vpn"])),
        allowlist in proptest::option::weighted(0.2, some(&TOOLS)),
        max_concurrency in proptest::option::of(1..4_u32),
        role in select(vec![AgentRole::Worker, AgentRole::Specialist]),
        live in prop::bool::weighted(0.8),
        paused in prop::bool::weighted(0.1),
        load in 0..4_u32,
        outcomes in prop::collection::vec(any::<bool>(), 0..60),
        given in proptest::option::of(1..4_u64),
    ) -> Member {
        if !servers.is_empty() {
            capabilities.push(Capability { servers: owned(servers), ..Capability::of("tool:mcp") });
        }
        let id = format!("agent-{id}");
        let mut card = card(&id);
        card.capabilities = capabilities;
        card.security.sandbox = sandbox;
        card.security.network = network.map(str::to_owned);
        card.security.tool_allowlist = allowlist.map(owned);
        card.limits.max_concurrency = max_concurrency;
        let mut agent = agent(&id, card);
        agent.profile.role = role;
        agent.last_assigned = given.map(Seq);
        if !live {
            agent.membership = Membership::Offline(Timestamp(1));
        }
        agent.paused = paused.then(|| Paused { by: "person:anna".to_owned(), reason: None, since: Timestamp(1) });
        let mut recent = TrackRecord::default();
        outcomes.into_iter().for_each(|good| if good { recent.succeeded() } else { recent.failed() });
        agent.recent = recent;
        Member { agent, load }
    }
}

fn team(most: usize) -> impl Strategy<Value = Vec<Member>> {
    (0..=most).prop_flat_map(|size| (0..size).map(member).collect::<Vec<_>>())
}

fn need() -> impl Strategy<Value = Requirement> {
    let names = [&SKILLS[..], &["tool:browser", "tool:mcp", "mcp:files", "domain:fintech", "tag:rust", "skill:none"]];
    let range = proptest::option::weighted(0.4, select(RANGES.to_vec()));
    (select(names.concat()), range).prop_map(|(name, range)| match range {
        Some(range) => Requirement::parse(&format!("{name}@{range}")).unwrap(),
        None => Requirement::parse(name).unwrap(),
    })
}

prop_compose! {
    fn demand()(
        requires in prop::collection::vec(need(), 0..2),
        prefers in prop::collection::vec(need(), 0..4),
        domain in proptest::option::of(select(WORDS.to_vec())),
        sandbox in proptest::option::weighted(0.3, any::<bool>()),
        tool_allowlist in proptest::option::weighted(0.2, some(&TOOLS)),
        network in proptest::option::weighted(0.3, select(Network::ALL.to_vec())),
        trust_level in proptest::option::weighted(0.3, select(TrustLevel::ALL.to_vec())),
        tools in prop_oneof![4 => Just(vec![]), 1 => some(&TOOLS)],
        tried in prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(0..8_usize, 0..3)],
        among in prop_oneof![
            4 => Just(Among::Anyone),
            1 => some(&[AgentRole::Specialist, AgentRole::Lead]).prop_map(|roles| Among::Groups { roles, members: vec![] }),
            1 => (some(&[AgentRole::Specialist]), prop::collection::vec(0..10_usize, 0..3)).prop_map(|(roles, ids)| {
                Among::Groups { roles, members: ids.into_iter().map(name).collect() }
            }),
            1 => prop::collection::vec(0..10_usize, 0..4).prop_map(|ids| Among::Agents(ids.into_iter().map(name).collect())),
        ],
    ) -> TaskDemand {
        TaskDemand {
            requires,
            prefers,
            domain: domain.map(str::to_owned),
            policy: Policy { sandbox, tool_allowlist: tool_allowlist.map(owned), network, trust_level },
            tools: owned(tools),
            among,
            tried: tried.into_iter().map(name).collect(),
        }
    }
}

fn name(number: usize) -> AgentId {
    AgentId::new(format!("agent-{number}"))
}

/// The rules once more, over texts.
mod naive {
    use super::*;

    pub(super) fn is_asked(demand: &TaskDemand, agent: &Agent) -> bool {
        match &demand.among {
            Among::Anyone => true,
            Among::Groups { roles, members } => roles.contains(&agent.profile.role) || members.contains(&agent.id),
            Among::Agents(agents) => agents.contains(&agent.id),
        }
    }

    pub(super) fn fits(demand: &TaskDemand, member: &Member) -> bool {
        let agent = &member.agent;
        let card = Card::of(agent);
        let policy = &demand.policy;
        let prod = policy.trust_level == Some(TrustLevel::Prod);
        let reach = |word: &str| match word {
            "none" => 0,
            "egress-restricted" => 1,
            "egress-allowed" => 2,
            _ => 0,
        };
        let reaches = reach(card.security.network.as_deref().unwrap_or("egress-restricted"));
        agent.membership == Membership::Here
            && agent.paused.is_none()
            && !demand.tried.contains(&agent.id)
            && (policy.sandbox != Some(true) || card.security.sandbox == Some(true))
            && (!prod || card.capabilities.iter().any(|one| one.trust_level == Some(TrustLevel::Prod)))
            && demand.tools.iter().all(|tool| uses(&card, tool.strip_prefix("mcp:").unwrap()))
            && needed(demand).iter().all(|tool| allows(policy.tool_allowlist.as_deref(), tool))
            && card.limits.max_concurrency.is_none_or(|most| member.load < most)
            && policy.network.is_none_or(|network| reaches >= reach(network.as_str()))
            && demand.requires.iter().all(|need| meets(&card, need, policy, prod))
    }

    fn needed(demand: &TaskDemand) -> Vec<String> {
        let tools = demand.tools.iter().map(|tool| tool.replace("mcp:", ""));
        let required = demand.requires.iter().filter_map(|need| {
            let tool = need.capability.strip_prefix("tool:").or(need.capability.strip_prefix("mcp:"))?;
            (tool != "mcp").then(|| tool.to_owned())
        });
        tools.chain(required).collect()
    }

    fn allows(list: Option<&[String]>, tool: &str) -> bool {
        list.is_none_or(|list| list.contains(&format!("mcp:{tool}")) || list.contains(&format!("tool:{tool}")))
    }

    fn uses(card: &Card, tool: &str) -> bool {
        let server = format!("mcp:{tool}");
        let names = |one: &Capability| {
            one.tools.contains(&server) || one.servers.contains(&server) || one.id == format!("tool:{tool}")
        };
        card.capabilities.iter().any(names) && allows(card.security.tool_allowlist.as_deref(), tool)
    }

    fn matching<'a>(card: &'a Card, need: &Requirement, policy: &Policy, prod: bool) -> Vec<&'a Capability> {
        let fits = |one: &&Capability| {
            one.id == need.capability
                && one.tools.iter().all(|tool| allows(policy.tool_allowlist.as_deref(), &tool.replace("mcp:", "")))
                && (!prod || one.trust_level == Some(TrustLevel::Prod))
                && need.versions.as_ref().is_none_or(|asked| in_version(one.version.as_deref(), asked))
        };
        card.capabilities.iter().filter(fits).collect()
    }

    /// Ranges overlap if some version is in both; all that tests ask for are among these.
    fn in_version(stated: Option<&str>, asked: &VersionReq) -> bool {
        let Some(stated) = stated else { return false };
        let padded = [stated.to_owned(), format!("{stated}.0"), format!("{stated}.0.0")];
        if let Some(version) = padded.iter().find_map(|text| Version::parse(text).ok()) {
            return asked.matches(&version);
        }
        let range = VersionReq::parse(stated).unwrap();
        let mut all = (0..6).flat_map(|a| (0..6).flat_map(move |b| (0..6).map(move |c| Version::new(a, b, c))));
        all.any(|version| range.matches(&version) && asked.matches(&version))
    }

    pub(super) fn meets(card: &Card, need: &Requirement, policy: &Policy, prod: bool) -> bool {
        let (kind, name) = need.capability.split_once(':').unwrap();
        let found = !matching(card, need, policy, prod).is_empty();
        let has = card.capabilities.iter().any(|one| one.id == need.capability);
        match (kind, name) {
            ("tool", "mcp") => found,
            ("tool" | "mcp", tool) => uses(card, tool) && (found || (!has && need.versions.is_none())),
            ("domain" | "tag", tag) => tagged(card, tag),
            _ => found,
        }
    }

    fn tagged(card: &Card, tag: &str) -> bool {
        card.capabilities.iter().any(|one| one.tags.iter().any(|word| word == tag))
    }

    fn weight(need: &Requirement) -> f64 {
        match need.kind() {
            "tool" | "mcp" => 0.7,
            "domain" => 0.5,
            "tag" => 0.3,
            _ => 1.0,
        }
    }

    pub(super) fn score(demand: &TaskDemand, card: &Card) -> f64 {
        let prod = demand.policy.trust_level == Some(TrustLevel::Prod);
        let mut prefers = demand.prefers.clone();
        if prefers.is_empty() {
            prefers.extend(demand.domain.iter().map(|domain| Requirement::parse(&format!("domain:{domain}")).unwrap()));
        }
        let all: f64 = prefers.iter().map(weight).sum();
        let points = |need: &Requirement| {
            let as_tag = need.kind() == "skill" && need.versions.is_none() && tagged(card, need.name());
            if meets(card, need, &demand.policy, prod) {
                weight(need)
            } else if as_tag {
                0.3
            } else {
                0.0
            }
        };
        if prefers.is_empty() { 1.0 } else { prefers.iter().map(points).sum::<f64>() / all }
    }

    /// The dearest of the cheapest capabilities that each requirement can be met with.
    pub(super) fn cost(demand: &TaskDemand, card: &Card) -> CostHint {
        let prod = demand.policy.trust_level == Some(TrustLevel::Prod);
        let cheapest = |need: &Requirement| {
            matching(card, need, &demand.policy, prod).iter().map(|one| one.cost_hint.unwrap_or(CostHint::Medium)).min()
        };
        let used = demand.requires.iter().filter_map(cheapest).max();
        let any = card.capabilities.iter().filter_map(|one| one.cost_hint).max();
        used.or(any).unwrap_or(CostHint::Medium)
    }

    /// Everybody who fits, the best first.
    pub(super) fn order(demand: &TaskDemand, members: &[Member]) -> Vec<AgentId> {
        let mut fitting: Vec<&Member> =
            members.iter().filter(|member| is_asked(demand, &member.agent) && fits(demand, member)).collect();
        let key = |member: &Member| {
            let (card, recent) = (Card::of(&member.agent), member.agent.recent);
            let success = f64::from(recent.successes() + 1) / f64::from(recent.count() + 2);
            let milli = |share: f64| (share * 1e9).round();
            (
                -milli(score(demand, &card)),
                member.load,
                -milli(success),
                cost(demand, &card),
                member.agent.last_assigned,
            )
        };
        fitting.sort_by(|one, other| {
            key(one).partial_cmp(&key(other)).unwrap().then_with(|| one.agent.id.cmp(&other.agent.id))
        });
        fitting.into_iter().map(|member| member.agent.id.clone()).collect()
    }
}

fn named(choice: &RoutingDecision) -> Vec<AgentId> {
    choice.candidates.iter().map(|scored| scored.agent.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Nobody whom a filter excludes is chosen, everybody else is there, and in the order of the rules.
    #[test]
    fn choices_are_those_of_the_plain_rules(members in team(8), demand in demand()) {
        let all = candidates(&members);
        let choice = all.explain(&demand);
        let expected = naive::order(&demand, &members);
        prop_assert_eq!(named(&choice), expected.clone());
        prop_assert_eq!(choice.selected.as_ref(), expected.first());
        prop_assert_eq!(choice.eligible as usize, expected.len());
        for scored in &choice.candidates {
            let member = members.iter().find(|member| member.agent.id == scored.agent).unwrap();
            let score = naive::score(&demand, &Card::of(&member.agent));
            prop_assert!((scored.score - score).abs() < 1e-9 && (0.0..=1.0).contains(&scored.score));
        }
        let rejected = choice.counts.values().sum::<u32>() as usize;
        prop_assert_eq!(rejected, choice.rejected.len());
        if demand.among == Among::Anyone {
            prop_assert_eq!(rejected + expected.len(), members.len());
        }
        prop_assert_eq!(all.choose(&demand).selected, choice.selected);
    }

    /// What the rule checks over a row agrees with the choice.
    #[test]
    fn one_row_is_judged_as_all_are(members in team(5), demand in demand()) {
        let choice = candidates(&members).explain(&demand);
        for member in members.iter().filter(|member| naive::is_asked(&demand, &member.agent)) {
            let told = choice.rejected.iter().find(|rejected| rejected.agent == member.agent.id).cloned();
            prop_assert_eq!(admits(&demand, &member.agent, member.load).err(), told);
        }
    }

    #[test]
    fn the_order_in_which_agents_came_does_not_matter(
        (members, others) in team(8).prop_flat_map(|members| (Just(members.clone()), Just(members).prop_shuffle())),
        demand in demand(),
    ) {
        prop_assert_eq!(candidates(&members).explain(&demand), candidates(&others).explain(&demand));
    }

    #[test]
    fn one_who_does_not_fit_changes_nothing_but_the_counts(
        members in team(6),
        other in member(9),
        demand in demand(),
    ) {
        prop_assume!(naive::is_asked(&demand, &other.agent) && !naive::fits(&demand, &other));
        let before = candidates(&members).explain(&demand);
        let mut with_other = members;
        with_other.push(other.clone());
        let mut after = candidates(&with_other).explain(&demand);
        let place = after.rejected.iter().position(|rejected| rejected.agent == other.agent.id).unwrap();
        let filter = after.rejected.remove(place).filter;
        let count = after.counts.get_mut(&filter).unwrap();
        *count -= 1;
        after.counts.retain(|_, count| *count > 0);
        let unknown = |choice: &RoutingDecision| choice.counts.get(&crate::model::routing::RejectionFilter::Unknown).copied();
        if unknown(&before) == unknown(&after) {
            prop_assert_eq!(&after.counts, &before.counts);
            prop_assert_eq!(&after.rejected, &before.rejected);
        }
        prop_assert_eq!((after.selected, after.candidates), (before.selected, before.candidates));
    }

    /// Equal agents get equally much, whether they keep what they get or are done with it at once.
    #[test]
    fn equal_agents_are_given_equally_much(size in 1..9_usize, keeps in prop::collection::vec(any::<bool>(), 1..60)) {
        let members: Vec<Member> =
            (0..size).map(|id| Member { agent: agent(&format!("agent-{id}"), card(&format!("agent-{id}"))), load: 0 }).collect();
        for kept in [true, false] {
            let mut all = candidates(&members);
            let mut given: BTreeMap<AgentId, i64> =
                members.iter().map(|member| (member.agent.id.clone(), 0)).collect();
            for number in 0..keeps.len() as u64 {
                let to = all.choose(&TaskDemand::default()).selected.unwrap();
                *given.get_mut(&to).unwrap() += 1;
                let task = TaskId::new(format!("t-{number}"));
                all.follow(&row(2 * number + 10, AnyEvent::new(TaskReserved { task: task.clone(), agent: to.clone() })));
                if !kept {
                    all.follow(&row(2 * number + 11, released(task, to)));
                }
                let spread = given.values().max().unwrap() - given.values().min().unwrap();
                prop_assert!(spread <= 1, "{given:?}");
            }
        }
    }

    /// Whom a filter excludes never gets the task by a way of its own; whom none does, does by each.
    #[test]
    fn nobody_takes_what_the_router_would_not_give_it(
        members in team(3),
        demand in demand(),
        way in select(vec![Way::Claim, Way::Start, Way::Accept, Way::Handoff, Way::Return]),
    ) {
        let demand = TaskDemand { tried: vec![], tools: needed_tools(&demand), among: sayable(demand.among.clone()), ..demand };
        for member in members.iter().filter(|member| member.agent.is_online() && member.agent.paused.is_none()) {
            let id = member.agent.id.as_str();
            let mut w = with_a_task(member, &demand);
            let fits = naive::is_asked(&demand, &member.agent) && naive::fits(&demand, member);
            way.goes(&mut w, id);
            prop_assert_eq!(w.holder("t") == Some(id), fits, "{:?} {:?} {:?}", way, demand, member);
            if !fits {
                w.does(&by("lead"), assign("t", id));
                w.does(&by(id), claim(id, "t"));
                prop_assert_eq!(w.holder("t"), Some(id), "who decides about the work gives it all the same");
            }
        }
    }

    /// Following the log and reading the rows come to the same. Nobody fits who did not before unless room was made.
    #[test]
    fn following_is_as_good_as_reading(steps in prop::collection::vec((0..13_usize, 0..3_usize, 0..4_usize), 0..80)) {
        let mut w = World::of(&["lead"]);
        let mut followed = Candidates::default();
        let mut seen = 0;
        for (step, agent, task) in steps {
            perform(&mut w, step, ["a", "b", "c"][agent], ["t", "u", "v", "w"][task]);
            for row in &w.log[seen..] {
                let (before, change) = (fitting(&followed), followed.follow(row));
                prop_assert!(change == Change::Room || fitting(&followed).is_subset(&before), "{row:?}");
            }
            seen = w.log.len();
            prop_assert_eq!(standing(&followed), standing(&read(&w)));
        }
    }
}

fn row(seq: u64, fact: AnyEvent) -> LogRow {
    LogRow {
        seq: Seq(seq),
        at: Timestamp(0),
        run: None,
        thread: None,
        actor: Actor::System,
        auth: Auth::None,
        via: None,
        cause: None,
        part_index: 0,
        event: fact,
        body: None,
    }
}

fn released(task: TaskId, agent: AgentId) -> AnyEvent {
    AnyEvent::new(TaskReleased {
        task,
        run: None,
        holder: None,
        reserved_for: Some(agent),
        from: crate::model::task::TaskState::Pending,
        because: crate::model::task::ReleaseCause::Reassigned,
        reason: None,
        requested_in: crate::model::requested_in::RequestedIn::default(),
    })
}

/// Something that an agent does; whether it may is for the rules.
fn perform(w: &mut World, step: usize, agent: &str, task: &str) {
    let caller = by(agent);
    let done = match step {
        0 => w.run(&caller, crate::testing::register(agent, AgentRole::Worker)),
        1 => w.run(&caller, LeaveTeam { agent: agent.into() }),
        2 => w.run(&Caller::system(), crate::testing::offline(agent, w.now)),
        3 => w.run(&caller, crate::testing::create(task, &[])),
        4 => w.run(&caller, claim(agent, task)),
        10 => w.run(&caller, crate::testing::start(Some(agent), task)),
        5 => w.run(&by("lead"), assign(task, agent)),
        6 => w.run(&caller, release(task)),
        7 => w.run(&caller, complete(task)),
        11 => w.run(&anna(), PauseAgent { agent: agent.into(), reason: None }),
        12 => w.run(&anna(), ResumeAgent { agent: agent.into() }),
        8 => w.run(&caller, FailTask { error: None, ..fail(task) }),
        _ => w.run(&Caller::system(), crate::testing::cancel(task)),
    };
    drop(done);
}

fn read(w: &World) -> Candidates {
    let mut candidates = Candidates::default();
    for (key, row) in w.rows() {
        match (key, row) {
            (Key::Agent(_), Row::Agent(agent)) => candidates.put(agent.clone()),
            (Key::Task(id), Row::Task(task)) => {
                if let Some(holder) = task.held_by() {
                    candidates.assign(id, holder);
                }
            }
            _ => {}
        }
    }
    candidates
}

/// Whom anything could be given to.
fn fitting(candidates: &Candidates) -> BTreeSet<AgentId> {
    named(&candidates.explain(&TaskDemand::default())).into_iter().collect()
}

fn standing(candidates: &Candidates) -> Vec<(Agent, u32)> {
    candidates.agents.values().map(|candidate| (Agent::clone(&candidate.agent), candidate.load)).collect()
}

/// How somebody comes by a task that the router did not give it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Claim,
    Start,
    Accept,
    /// From an agent that a person gave it to.
    Handoff,
    /// It had it by the word of a person, and was away.
    Return,
}

impl Way {
    fn goes(self, w: &mut World, id: &str) {
        let done = match self {
            Way::Claim => w.run(&by(id), claim(id, "t")),
            Way::Start => w.run(&by(id), crate::testing::start(Some(id), "t")),
            Way::Accept => w.run(&by(id), ingest("acc", "task.accept", id, &json!({ "task_id": "t" }))),
            Way::Handoff => {
                w.does(&anna(), claim("lead", "t"));
                w.does(&by("lead"), hand_over("h", "lead", Some(id), "t"));
                w.run(&by(id), crate::handoffs::AcceptHandoff { handoff: "h".into(), agent: id.into() })
            }
            Way::Return => {
                // What it has beside this one is lost too, and comes back first.
                w.does(&anna(), claim(id, "t"));
                w.goes_offline(id);
                w.run(&by(id), crate::agents::ReturnAgent { agent: id.into() })
            }
        };
        drop(done);
    }
}

/// As a request can say it: it is to somebody.
fn sayable(among: Among) -> Among {
    match among {
        Among::Agents(agents) if agents.is_empty() => Among::Anyone,
        Among::Agents(agents) => Among::Agents(agents.into_iter().collect::<BTreeSet<_>>().into_iter().collect()),
        Among::Groups { roles, members } if roles.is_empty() && members.is_empty() => Among::Anyone,
        among => among,
    }
}

/// An agent with as many tasks as it has, a lead, and a task `t` whose request demands this.
fn with_a_task(member: &Member, demand: &TaskDemand) -> World {
    let mut w = World::of(&["lead"]);
    if let Among::Agents(agents) = &demand.among {
        agents.iter().for_each(|id| drop(w.joins(id.as_str(), AgentRole::Worker)));
    }
    let id = member.agent.id.as_str();
    w.does(&by(id), crate::agents::RegisterAgent::with_profile(id.into(), member.agent.profile.clone()));
    for number in 0..member.load {
        let task = format!("other-{number}");
        w.creates(&task, &[]);
        w.claims(id, &task);
    }
    if let Among::Groups { members, .. } = &demand.among {
        w.does(&by("lead"), crate::groups::SetGroup { group: "list".to_owned(), members: members.clone() });
    }
    sends(&mut w, "req", "task.request", "ui", &asking(demand));
    w
}

/// A request that demands this.
fn asking(demand: &TaskDemand) -> Value {
    let words = |needs: &[Requirement]| needs.iter().map(ToString::to_string).collect::<Vec<_>>();
    let policy: Map<String, Value> = match serde_json::to_value(&demand.policy).unwrap() {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => panic!("{other} is no policy"),
    };
    let to: Vec<Value> = match &demand.among {
        Among::Anyone => vec![json!({ "agent_id": "agent:orchestrator" })],
        Among::Agents(agents) => agents.iter().map(|id| json!({ "agent_id": format!("agent:{id}") })).collect(),
        Among::Groups { roles, .. } => {
            let name = |role: &AgentRole| if *role == AgentRole::Lead { "group:leads" } else { "group:specialists" };
            roles.iter().map(name).chain(["group:list"]).map(|name| json!({ "agent_id": name })).collect()
        }
    };
    json!({ "task_id": "t", "requires": words(&demand.requires), "prefers": words(&demand.prefers), "to": to,
            "security": { "policy": policy } })
}

fn needed_tools(demand: &TaskDemand) -> Vec<String> {
    let tool = |need: &Requirement| need.name() != "mcp" && matches!(need.kind(), "tool" | "mcp");
    let required = demand.requires.iter().filter(|need| tool(need));
    required.map(|need| format!("mcp:{}", need.name())).collect()
}

#[test]
fn words_that_nobody_uses_any_more_are_dropped() {
    let mut all = Candidates::default();
    let agent = agent("a", card("a"));
    for number in 0..20_000 {
        let mut card = card("a");
        card.capabilities = vec![Capability::of(format!("skill:s{number}"))];
        all.put(Agent { profile: card.profile(None), ..agent.clone() });
    }
    assert!(all.words.len() < 5_000, "{}", all.words.len());
    let wants = TaskDemand { requires: vec![Requirement::parse("skill:s19999").unwrap()], ..TaskDemand::default() };
    assert!(all.choose(&wants).selected.is_some());
}
