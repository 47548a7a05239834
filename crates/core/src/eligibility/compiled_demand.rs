//! A demand read once for all candidates: its words looked up, its versions and tools made out.

use std::cmp::Reverse;

use super::TaskDemand;
use super::agent_offer::{AgentOffer, Interner, OfferedSkill, Word};
use super::choice::Reject;
use crate::kernel::id::AgentId;
use crate::model::capabilities::{CostHint, tool_name};
use crate::model::policy::{Network, Policy, TrustLevel};
use crate::model::requirement::Requirement;
use crate::model::version::Range;

/// Weights in tenths: whole numbers add up the same in any order.
const CAPABILITY: u32 = 10;

const TOOL: u32 = 7;

const DOMAIN: u32 = 5;

const TAG: u32 = 3;

pub(super) struct Plan<'a> {
    pub(super) demand: &'a TaskDemand,
    tried: Vec<&'a AgentId>,
    sandbox: bool,
    bounds: Bounds,
    network: Network,
    tools: Vec<Option<Word>>,
    /// A tool that is needed and that the allowlist leaves out: nobody may do the task.
    barred: Option<&'a str>,
    requires: Vec<Want>,
    prefers: Vec<Want>,
    /// What a candidate scores that meets all that is preferred.
    most: u32,
}

/// The bounds that a capability must keep to be used for a task.
struct Bounds {
    trust: TrustLevel,
    /// The tools that may be used, sorted; all if there is no list.
    allowed: Option<Vec<Word>>,
}

impl Bounds {
    fn of(policy: &Policy, words: &Interner) -> Bounds {
        let known = |list: &Vec<String>| {
            let mut known: Vec<Word> = list.iter().filter_map(|tool| words.find(tool_name(tool))).collect();
            known.sort_unstable();
            known
        };
        Bounds {
            trust: policy.trust_level.unwrap_or(TrustLevel::Sandbox),
            allowed: policy.tool_allowlist.as_ref().map(known),
        }
    }

    fn allow(&self, skill: &OfferedSkill) -> bool {
        let Some(allowed) = &self.allowed else { return true };
        skill.needs.iter().all(|tool| allowed.binary_search(tool).is_ok())
    }
}

/// One thing that is asked for. A word that nobody uses is met by nobody.
struct Want {
    kind: Kind,
    capability: Option<Word>,
    versions: Option<Range>,
    /// The name alone: a tool's or a tag's.
    name: Option<Word>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Capability,
    Tool,
    /// `tool:mcp`: that it can use servers at all.
    Access,
    Domain,
    Tag,
}

impl Kind {
    fn weight(self) -> u32 {
        match self {
            Kind::Capability => CAPABILITY,
            Kind::Tool | Kind::Access => TOOL,
            Kind::Domain => DOMAIN,
            Kind::Tag => TAG,
        }
    }
}

impl<'a> Plan<'a> {
    pub(super) fn of(demand: &'a TaskDemand, words: &Interner) -> Plan<'a> {
        let policy = &demand.policy;
        let mut tried: Vec<&AgentId> = demand.tried.iter().collect();
        tried.sort_unstable();
        let domain = demand.domain.as_deref().filter(|_| demand.prefers.is_empty());
        let prefers: Vec<Want> = match domain {
            Some(domain) => vec![Want::domain(domain, words)],
            None => demand.prefers.iter().map(|need| Want::of(need, words)).collect(),
        };
        Plan {
            demand,
            tried,
            sandbox: policy.sandbox == Some(true),
            bounds: Bounds::of(policy, words),
            network: policy.network.unwrap_or(Network::None),
            tools: demand.tools.iter().map(|tool| words.find(tool_name(tool))).collect(),
            barred: barred(demand),
            requires: demand.requires.iter().map(|need| Want::of(need, words)).collect(),
            most: prefers.iter().map(|want| want.kind.weight()).sum(),
            prefers,
        }
    }

    /// What it costs to have the task done by whoever offers this and has so many tasks, unless a filter rejects it.
    pub(super) fn admits(&self, agent: &AgentId, offer: &AgentOffer, load: u32) -> Result<CostHint, Reject> {
        if !self.tried.is_empty() && self.tried.binary_search(&agent).is_ok() {
            return Err(Reject::Tried);
        }
        if self.sandbox && !offer.sandboxed {
            return Err(Reject::NotSandboxed);
        }
        if offer.trust < self.bounds.trust {
            return Err(Reject::NotTrusted);
        }
        if self.barred.is_some() {
            return Err(Reject::Barred);
        }
        if let Some(missing) = self.tools.iter().position(|tool| !tool.is_some_and(|tool| offer.has_tool(tool))) {
            return Err(Reject::NoTool(missing));
        }
        if let Some(at) = self.needing_other_tools(offer) {
            return Err(Reject::NotAllowed(at));
        }
        if offer.max_concurrency.is_some_and(|most| load >= most) {
            return Err(Reject::Busy);
        }
        if offer.network < self.network {
            return Err(Reject::Network);
        }
        self.meets_requirements(offer)
    }

    /// The first requirement that the agent could only meet with tools that the allowlist leaves out.
    fn needing_other_tools(&self, offer: &AgentOffer) -> Option<usize> {
        self.bounds.allowed.as_ref()?;
        self.requires.iter().position(|want| matches!(want.met_by(offer, &self.bounds), Met::NotAllowed))
    }

    /// The cost of the dearest capability that is used; of any if none is named.
    fn meets_requirements(&self, offer: &AgentOffer) -> Result<CostHint, Reject> {
        let mut dearest = None;
        for (at, want) in self.requires.iter().enumerate() {
            match want.met_by(offer, &self.bounds) {
                Met::With(cost) => dearest = dearest.max(Some(cost)),
                Met::Freely => {}
                Met::NotInVersion => return Err(Reject::Version(at)),
                Met::NotTrusted => return Err(Reject::Untrusted(at)),
                Met::NotAllowed => return Err(Reject::NotAllowed(at)),
                Met::Not => return Err(Reject::Lacks(at)),
            }
        }
        Ok(dearest.unwrap_or(offer.cost))
    }

    /// What is missing of all that is preferred.
    pub(super) fn lacking(&self, offer: &AgentOffer) -> u32 {
        self.most - self.prefers.iter().map(|want| want.points(offer, &self.bounds)).sum::<u32>()
    }

    /// From 0 to 1. Whoever prefers nothing gets all that it prefers.
    pub(super) fn score(&self, lacking: u32) -> f64 {
        if self.most == 0 { 1.0 } else { f64::from(self.most - lacking) / f64::from(self.most) }
    }

    /// Why somebody was rejected, to be read after its name.
    pub(super) fn because(&self, reject: Reject, offer: Option<(&AgentOffer, u32)>) -> String {
        let need = |at: usize| self.demand.requires.get(at).map(Requirement::to_string).unwrap_or_default();
        let bare = |at: usize| self.demand.requires.get(at).map_or("", |need| &need.capability);
        match reject {
            Reject::Unknown => "is not registered".to_owned(),
            Reject::Offline => "is offline".to_owned(),
            Reject::Paused => "is paused".to_owned(),
            Reject::Tried => "was tried already".to_owned(),
            Reject::NotSandboxed => "is not sandboxed".to_owned(),
            Reject::NotTrusted => format!("is not trusted at level {}", self.bounds.trust.as_str()),
            Reject::Barred => {
                format!("may not use {}, which the allowlist leaves out", self.barred.unwrap_or_default())
            }
            Reject::NoTool(at) => {
                format!("does not offer {}", self.demand.tools.get(at).map_or("", String::as_str))
            }
            Reject::NotAllowed(at) => {
                format!("has {} only with tools that the allowlist leaves out", need(at))
            }
            Reject::Busy => {
                let (most, load) = offer.map_or((None, 0), |(offer, load)| (offer.max_concurrency, load));
                format!("has {load} of {} tasks", most.unwrap_or_default())
            }
            Reject::Network => {
                let reaches = offer.map_or(Network::None, |(offer, _)| offer.network);
                format!("reaches {} of the network, not {}", reaches.as_str(), self.network.as_str())
            }
            Reject::Lacks(at) => format!("lacks {}", need(at)),
            Reject::Version(at) => format!("lacks {}: it has another version", need(at)),
            Reject::Untrusted(at) => {
                format!("lacks {} at trust level {}", bare(at), self.bounds.trust.as_str())
            }
        }
    }
}

/// Whether one thing is met, and by a capability of which cost.
enum Met {
    With(CostHint),
    Freely,
    NotInVersion,
    /// It needs tools that the allowlist leaves out.
    NotAllowed,
    NotTrusted,
    Not,
}

impl Met {
    /// The better it is met, the higher. What nearly meets it is worth telling.
    fn rank(&self) -> (u8, Reverse<CostHint>) {
        match self {
            Met::Not => (0, Reverse(CostHint::default())),
            Met::NotInVersion => (1, Reverse(CostHint::default())),
            Met::NotAllowed => (2, Reverse(CostHint::default())),
            Met::NotTrusted => (3, Reverse(CostHint::default())),
            Met::With(cost) => (4, Reverse(*cost)),
            Met::Freely => (5, Reverse(CostHint::default())),
        }
    }
}

impl Want {
    fn of(need: &Requirement, words: &Interner) -> Want {
        let kind = match need.kind() {
            "tool" if need.name() == "mcp" => Kind::Access,
            "tool" | "mcp" => Kind::Tool,
            "domain" => Kind::Domain,
            "tag" => Kind::Tag,
            _ => Kind::Capability,
        };
        Want {
            kind,
            capability: words.find(&need.capability),
            versions: need.versions.clone().map(Range::from),
            name: words.find(need.name()),
        }
    }

    fn domain(name: &str, words: &Interner) -> Want {
        Want { kind: Kind::Domain, capability: None, versions: None, name: words.find(name) }
    }

    fn met_by(&self, offer: &AgentOffer, bounds: &Bounds) -> Met {
        match self.kind {
            Kind::Capability => self.met_by_capability(offer, bounds),
            Kind::Tool if self.is_at_hand(offer) => match self.met_by_capability(offer, bounds) {
                // A server has no version that anybody states, and so meets none that is asked for.
                Met::Not if self.versions.is_none() => Met::Freely,
                met => met,
            },
            Kind::Access => self.met_by_capability(offer, bounds),
            Kind::Tool => Met::Not,
            Kind::Domain | Kind::Tag => match self.name.is_some_and(|name| offer.is_tagged(name)) {
                true => Met::Freely,
                false => Met::Not,
            },
        }
    }

    /// Whether it is a tool that the agent names and may use.
    fn is_at_hand(&self, offer: &AgentOffer) -> bool {
        self.name.is_some_and(|name| offer.has_tool(name))
    }

    /// The cheapest of those that fit.
    fn met_by_capability(&self, offer: &AgentOffer, bounds: &Bounds) -> Met {
        let skills = self.capability.map(|word| offer.skills(word)).unwrap_or_default();
        skills.iter().map(|skill| self.met_by_skill(skill, bounds)).max_by_key(Met::rank).unwrap_or(Met::Not)
    }

    fn met_by_skill(&self, skill: &OfferedSkill, bounds: &Bounds) -> Met {
        match &self.versions {
            Some(asked) if !skill.stated.fits(asked) => Met::NotInVersion,
            _ if !bounds.allow(skill) => Met::NotAllowed,
            _ if skill.trust < bounds.trust => Met::NotTrusted,
            _ => Met::With(skill.cost),
        }
    }

    fn points(&self, offer: &AgentOffer, bounds: &Bounds) -> u32 {
        match self.met_by(offer, bounds) {
            Met::With(_) | Met::Freely => self.kind.weight(),
            _ if self.is_a_tag_of(offer) => TAG,
            _ => 0,
        }
    }

    /// What somebody calls a skill, another may call a tag.
    fn is_a_tag_of(&self, offer: &AgentOffer) -> bool {
        let could_be = self.kind == Kind::Capability && self.versions.is_none();
        could_be && self.name.is_some_and(|name| offer.is_tagged(name))
    }
}

/// The first tool that is needed and not allowed.
fn barred(demand: &TaskDemand) -> Option<&str> {
    let allowed = demand.policy.tool_allowlist.as_ref()?;
    let required = demand.requires.iter().filter(|need| need.is_tool());
    let needed = demand.tools.iter().map(String::as_str).chain(required.map(|need| need.capability.as_str()));
    needed.into_iter().find(|tool| !allowed.iter().any(|entry| tool_name(entry) == tool_name(tool)))
}
