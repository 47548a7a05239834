//! What a choice says, case by case.

use serde_json::{Value, json};

use crate::agents::{EndpointGrant, RegisterAgent};
use crate::eligibility::{Among, Candidates, TaskDemand};
use crate::model::agent::AgentRole;
use crate::model::capabilities::Card;
use crate::model::policy::{Network, Policy, TrustLevel};
use crate::model::requirement::Requirement;
use crate::model::routing::{RejectionFilter, RoutingDecision};
use crate::testing::{World, by, complete};

/// A team whose members sent these cards, each beside an id.
fn world(cards: &[(&str, Value)]) -> World {
    let mut w = World::default();
    for (id, more) in cards {
        let mut card = json!({ "v": "clutch/0.1", "agent_id": id });
        card.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        w.does(&by(id), RegisterAgent::with_card(Card::read(&card).unwrap(), EndpointGrant::Unchanged));
    }
    w
}

fn candidates(w: &World) -> Candidates {
    let mut candidates = Candidates::default();
    for row in &w.log {
        candidates.follow(row);
    }
    candidates
}

fn choose(w: &World, demand: &TaskDemand) -> RoutingDecision {
    candidates(w).choose(demand)
}

fn needs(texts: &[&str]) -> Vec<Requirement> {
    texts.iter().map(|text| Requirement::parse(text).unwrap()).collect()
}

fn requiring(texts: &[&str]) -> TaskDemand {
    TaskDemand { requires: needs(texts), ..TaskDemand::default() }
}

fn preferring(texts: &[&str]) -> TaskDemand {
    TaskDemand { prefers: needs(texts), ..TaskDemand::default() }
}

fn research() -> Value {
    json!({ "capabilities": [
        { "id": "skill:research", "version": "1.0", "tags": ["fintech"], "tools": ["mcp:browser"] },
        { "id": "tool:mcp", "servers": ["mcp:files"] },
        { "id": "tool:shell" },
    ] })
}

#[test]
fn words_of_a_request_are_met_as_they_are_written() {
    let w = world(&[("a", research())]);
    for (text, met) in [
        ("skill:research", true),
        ("research", true),
        ("skill:research@^1.0", true),
        ("skill:research@^2.0", false),
        ("skill:law", false),
        ("tool:browser", true),
        ("mcp:browser", true),
        ("tool:files", true),
        ("tool:shell", true),
        ("tool:mcp", true),
        ("tool:search", false),
        ("tool:browser@^1.0", false),
        ("domain:fintech", true),
        ("tag:fintech", true),
        ("domain:health", false),
    ] {
        assert_eq!(choose(&w, &requiring(&[text])).selected.is_some(), met, "{text}");
    }
}

#[test]
fn everybody_who_is_rejected_is_told_why() {
    let own = |more: Value| {
        let mut card = research();
        card.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        card
    };
    let policy = |policy: Policy| TaskDemand { policy, ..requiring(&["skill:research"]) };
    let tools = |tools: &[&str]| tools.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (card, demand, filter, reason) in [
        (json!({}), requiring(&["skill:research"]), RejectionFilter::Requires, "lacks skill:research"),
        (
            research(),
            requiring(&["skill:research@^2"]),
            RejectionFilter::Requires,
            "lacks skill:research@^2: it has another version",
        ),
        (
            research(),
            policy(Policy { sandbox: Some(true), ..Policy::default() }),
            RejectionFilter::Security,
            "is not sandboxed",
        ),
        (
            research(),
            policy(Policy { trust_level: Some(TrustLevel::Prod), ..Policy::default() }),
            RejectionFilter::Security,
            "is not trusted at level prod",
        ),
        (
            json!({ "capabilities": [{ "id": "skill:research" }, { "id": "skill:law", "trust_level": "prod" }] }),
            policy(Policy { trust_level: Some(TrustLevel::Prod), ..Policy::default() }),
            RejectionFilter::Requires,
            "lacks skill:research at trust level prod",
        ),
        (
            research(),
            policy(Policy { network: Some(Network::EgressAllowed), ..Policy::default() }),
            RejectionFilter::Network,
            "reaches egress-restricted of the network, not egress-allowed",
        ),
        (
            research(),
            TaskDemand { tools: tools(&["mcp:browser", "mcp:mail"]), ..TaskDemand::default() },
            RejectionFilter::Tools,
            "does not offer mcp:mail",
        ),
        (
            own(json!({ "security": { "tool_allowlist": ["mcp:files"] } })),
            TaskDemand { tools: tools(&["mcp:browser"]), ..TaskDemand::default() },
            RejectionFilter::Tools,
            "does not offer mcp:browser",
        ),
        (
            research(),
            TaskDemand {
                tools: tools(&["mcp:browser"]),
                policy: Policy { tool_allowlist: Some(tools(&["mcp:files"])), ..Policy::default() },
                ..TaskDemand::default()
            },
            RejectionFilter::Tools,
            "may not use mcp:browser, which the allowlist leaves out",
        ),
        (
            research(),
            TaskDemand {
                policy: Policy { tool_allowlist: Some(tools(&["mcp:files"])), ..Policy::default() },
                ..requiring(&["skill:research"])
            },
            RejectionFilter::Tools,
            "has skill:research only with tools that the allowlist leaves out",
        ),
        (
            research(),
            TaskDemand { tools: tools(&["tool:mail"]), ..requiring(&["tool:mail", "skill:law"]) },
            RejectionFilter::Tools,
            "does not offer tool:mail",
        ),
        (
            research(),
            TaskDemand { tried: vec!["a".into()], ..TaskDemand::default() },
            RejectionFilter::Tried,
            "was tried already",
        ),
    ] {
        let choice = choose(&world(&[("a", card)]), &demand);
        assert_eq!(choice.selected, None);
        let told: Vec<_> = choice.rejected.iter().map(|one| (one.filter, one.reason.as_str())).collect();
        assert_eq!(told, [(filter, reason)]);
        assert_eq!(choice.counts, [(filter, 1)].into());
        assert_eq!(choice.reason, format!("no agent fits; rejected: 1 by {}", filter.as_str()));
    }
}

#[test]
fn whoever_is_busy_or_away_is_not_asked() {
    let mut w = world(&[("a", json!({ "limits": { "max_concurrency": 1 } })), ("b", json!({}))]);
    w.reserves("t", "a");
    w.goes_offline("b");
    let choice = choose(&w, &TaskDemand::default());
    let told: Vec<_> = choice.rejected.iter().map(|one| (one.agent.as_str(), one.reason.as_str())).collect();
    assert_eq!(told, [("a", "has 1 of 1 tasks"), ("b", "is offline")]);
    w.starts("a", "t");
    assert_eq!(choose(&w, &TaskDemand::default()).selected, None, "claimed, it is the same task still");
    w.does(&by("a"), complete("t"));
    assert_eq!(choose(&w, &TaskDemand::default()).selected, Some("a".into()));
    w.does(&by("a"), crate::agents::LeaveTeam { agent: "a".into() });
    assert_eq!(
        choose(&w, &TaskDemand::default()).counts,
        [(RejectionFilter::Offline, 1)].into(),
        "one that left is nobody"
    );
    assert_eq!(choose(&World::default(), &TaskDemand::default()).reason, "no agent is registered");
}

#[test]
fn only_those_who_are_asked_for_are_looked_at() {
    let mut w = world(&[("a", research()), ("b", research()), ("c", json!({}))]);
    w.joins("d", AgentRole::Specialist);
    let among = |among: Among| choose(&w, &TaskDemand { among, ..requiring(&["skill:research"]) });
    let named = among(Among::Agents(vec!["b".into()]));
    assert_eq!(named.selected, Some("b".into()));
    assert_eq!((named.eligible, named.counts.len()), (1, 0));
    assert_eq!(named.reason, "matched requires[skill:research], the only candidate");
    let unknown = among(Among::Agents(vec!["x".into(), "c".into()]));
    let told: Vec<_> = unknown.rejected.iter().map(|one| (one.agent.as_str(), one.reason.as_str())).collect();
    assert_eq!(told, [("c", "lacks skill:research"), ("x", "is not registered")]);
    let specialists = among(Among::Groups { roles: vec![AgentRole::Specialist], members: vec![] });
    assert_eq!(specialists.counts, [(RejectionFilter::Requires, 1)].into());
    let groups = among(Among::Groups { roles: vec![AgentRole::Specialist], members: vec!["b".into(), "x".into()] });
    assert_eq!(groups.selected, Some("b".into()));
    let told: Vec<_> = groups.rejected.iter().map(|one| (one.agent.as_str(), one.reason.as_str())).collect();
    assert_eq!(told, [("d", "lacks skill:research"), ("x", "is not registered")]);
}

/// What a request says by whom it is to, and by the tools among what it requires.
#[test]
fn a_request_is_to_all_the_groups_it_names_and_needs_the_tools_it_requires() {
    let mut w = World::of(&["lead"]);
    w.joins("spec", AgentRole::Specialist);
    let list =
        |name: &str, member: &str| crate::groups::SetGroup { group: name.to_owned(), members: vec![member.into()] };
    w.does(&by("lead"), list("cooks", "ada"));
    w.does(&by("lead"), list("tax", "ben"));
    let mut demand = |id: &str, more: Value| {
        crate::testing::sends(&mut w, id, "task.request", "ui", &more);
        TaskDemand::of(w.task(more["task_id"].as_str().unwrap()).origin.terms.as_ref().unwrap(), &[])
    };
    let to = |names: &[&str]| names.iter().map(|name| json!({ "agent_id": name })).collect::<Vec<_>>();
    let groups = ["group:cooks", "group:specialists", "group:tax", "agent:orchestrator"];
    let all = demand("m1", json!({ "task_id": "t1", "to": to(&groups) }));
    let members = vec!["ada".into(), "ben".into()];
    assert_eq!(all.among, Among::Groups { roles: vec![AgentRole::Specialist], members });
    let everybody = demand("m2", json!({ "task_id": "t2", "to": to(&["group:cooks", "group:everyone"]) }));
    assert_eq!(everybody.among, Among::Anyone);
    let named = demand("m3", json!({ "task_id": "t3", "to": to(&["group:cooks", "agent:spec"]) }));
    assert_eq!(named.among, Among::Agents(vec!["spec".into()]));
    let requires = json!(["skill:x", "tool:browser", "mcp:files", "tool:mcp", "tool:shell@^1"]);
    let tools = demand("m4", json!({ "task_id": "t4", "requires": requires, "prefers": ["tool:mail"] })).tools;
    assert_eq!(tools, ["tool:browser", "mcp:files", "tool:shell"]);
}

#[test]
fn scores_are_shares_of_what_is_preferred() {
    let w = world(&[("a", research())]);
    let score = |texts: &[&str]| choose(&w, &preferring(texts)).candidates[0].score;
    for (texts, expected) in [
        (&[][..], 1.0),
        (&["tool:browser", "domain:fintech"], 1.0),
        (&["skill:research", "skill:law"], 0.5),
        (&["tool:browser", "domain:health"], 0.7 / 1.2),
        (&["skill:law", "tool:browser", "domain:fintech", "tag:none"], 1.2 / 2.5),
        (&["fintech"], 0.3),
        (&["domain:health"], 0.0),
    ] {
        assert!((score(texts) - expected).abs() < 1e-9, "{texts:?}: {}", score(texts));
    }
    let about = |domain: &str| TaskDemand { domain: Some(domain.to_owned()), ..TaskDemand::default() };
    assert_eq!(choose(&w, &about("fintech")).candidates[0].score, 1.0);
    assert_eq!(choose(&w, &about("health")).candidates[0].score, 0.0);
    let both = TaskDemand { prefers: needs(&["tool:browser"]), ..about("health") };
    assert_eq!(choose(&w, &both).candidates[0].score, 1.0, "preferences that are stated are all that counts");
}

#[test]
fn what_decided_is_told() {
    let skill = |cost: &str| json!({ "capabilities": [{ "id": "skill:x", "cost_hint": cost }] });
    let mut w = world(&[("a", skill("high")), ("b", skill("low"))]);
    let decided = |w: &World, demand: &TaskDemand| {
        let choice = choose(w, demand);
        (choice.selected.unwrap().to_string(), choice.reason)
    };
    let said = |agent: &str, word: &str| (agent.to_owned(), format!("matched requires[skill:x], {word}"));
    let demand = requiring(&["skill:x"]);
    assert_eq!(decided(&w, &demand), said("b", "lowest cost"));
    w.creates("t", &[]);
    w.starts("b", "t");
    assert_eq!(decided(&w, &demand), said("a", "lowest load"));
    w.does(&by("b"), complete("t"));
    assert_eq!(decided(&w, &demand), said("b", "best success rate"));
    let w = world(&[("a", skill("low")), ("b", skill("low"))]);
    assert_eq!(decided(&w, &demand), said("a", "round-robin"));
    let mut w = world(&[("a", skill("low")), ("b", skill("low"))]);
    w.reserves("t", "a");
    w.does(&by("a"), crate::testing::release("t"));
    assert_eq!(decided(&w, &demand), said("b", "round-robin"));
    let mut w = world(&[("a", json!({})), ("b", research())]);
    w.reserves("t", "b");
    let preferred = decided(&w, &preferring(&["skill:research"]));
    assert_eq!(preferred, ("b".to_owned(), "nothing required, highest score".to_owned()));
}

#[test]
fn a_choice_that_is_kept_names_twenty_and_an_explanation_names_all() {
    let skilled: Vec<(String, Value)> =
        (0..60).map(|number| (format!("a{number:02}"), if number % 2 == 0 { research() } else { json!({}) })).collect();
    let cards: Vec<(&str, Value)> = skilled.iter().map(|(id, card)| (id.as_str(), card.clone())).collect();
    let w = world(&cards);
    let demand = requiring(&["skill:research"]);
    let kept = choose(&w, &demand);
    assert_eq!((kept.candidates.len(), kept.rejected.len(), kept.eligible), (20, 20, 30));
    assert_eq!(kept.counts, [(RejectionFilter::Requires, 30)].into());
    let all = candidates(&w).explain(&demand);
    assert_eq!((all.candidates.len(), all.rejected.len()), (30, 30));
    assert_eq!((&all.candidates[..20], &all.rejected[..20]), (&kept.candidates[..], &kept.rejected[..]));
}

#[test]
fn a_choice_is_shown_as_the_protocol_says() {
    let w = world(&[("ken", research()), ("ada", json!({}))]);
    assert_eq!(
        choose(&w, &requiring(&["skill:research"])).payload(),
        json!({
            "selected": "agent:ken",
            "candidates": ["agent:ken"],
            "eligible": 1,
            "reason": "matched requires[skill:research], the only candidate",
            "scores": { "agent:ken": 1.0 },
            "rejected": { "agent:ada": "lacks skill:research" },
            "rejected_counts": { "requires": 1 },
        })
    );
    let nobody = choose(&w, &requiring(&["skill:law"])).payload();
    assert_eq!(nobody.get("selected"), None);
    assert_eq!(nobody["rejected_counts"], json!({ "requires": 2 }));
}
