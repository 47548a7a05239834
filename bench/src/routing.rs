//! The time of a routing decision in this process, with growing numbers of agents.

use std::hint::black_box;

use rookery_core::eligibility::{Candidates, TaskDemand};
use rookery_core::model::agent::{Agent, AgentRole, AgentStatus, Membership, Profile};
use rookery_core::model::capabilities::Card;
use rookery_core::model::policy::Policy;
use rookery_core::model::requirement::Requirement;
use rookery_core::{AgentId, Seq, Timestamp};
use serde_json::json;

use crate::report::{Figure, Report};
use crate::sample::Spread;
use crate::stopwatch::Stopwatch;
use crate::{Plan, say};

const TEAMS: [usize; 3] = [10, 1_000, 10_000];
/// The promised limit for a team of a thousand.
const MOST_MICROS: f64 = 500.0;

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    for size in TEAMS {
        let team = team(size)?;
        for (name, demand) in [("everybody fits", anybody()?), ("one in four fits", picky()?)] {
            let choice = team.choose(&demand);
            anyhow::ensure!(choice.selected.is_some(), "nobody was chosen: {}", choice.reason);
            let spread = Spread::of((0..plan.rounds).map(|_| micros(plan, &team, &demand)));
            let figure = Figure::spread(format!("a decision among {size} agents, {name}"), spread, "µs");
            report.add(if size == 1_000 { figure.at_most(MOST_MICROS) } else { figure });
        }
        say::note(format_args!("{size} agents measured"));
    }
    Ok(())
}

/// The average time of a decision, over as many as fit into a slice.
fn micros(plan: &Plan, team: &Candidates, demand: &TaskDemand) -> f64 {
    let begun = Stopwatch::start();
    let mut decisions = 0_u32;
    while begun.elapsed() < plan.slice {
        black_box(team.choose(black_box(demand)));
        decisions += 1;
    }
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(decisions)
}

fn anybody() -> anyhow::Result<TaskDemand> {
    Ok(TaskDemand { requires: needs(&["skill:research@^1.0"])?, ..TaskDemand::default() })
}

/// A request with all kinds of requirements.
fn picky() -> anyhow::Result<TaskDemand> {
    Ok(TaskDemand {
        requires: needs(&["skill:research@^1.0", "tool:browser"])?,
        prefers: needs(&["tool:files", "domain:fintech", "skill:law", "tag:market"])?,
        policy: Policy {
            sandbox: Some(true),
            tool_allowlist: Some(vec!["mcp:browser".to_owned(), "mcp:files".to_owned()]),
            ..Policy::default()
        },
        tools: vec!["mcp:browser".to_owned()],
        ..TaskDemand::default()
    })
}

fn needs(texts: &[&str]) -> anyhow::Result<Vec<Requirement>> {
    texts.iter().map(|text| Requirement::parse(text).ok_or_else(|| anyhow::anyhow!("'{text}' is no need"))).collect()
}

fn team(size: usize) -> anyhow::Result<Candidates> {
    let mut candidates = Candidates::default();
    for number in 0..size {
        let id = AgentId::new(format!("agent-{number:05}"));
        let profile = card(&id, number)?.profile(None);
        candidates.put(agent(id, profile, number));
    }
    Ok(candidates)
}

fn card(id: &AgentId, number: usize) -> anyhow::Result<Card> {
    let card = json!({
        "v": "clutch/0.1",
        "agent_id": id,
        "capabilities": [
            { "id": "skill:research", "version": (["1.0", "1.4.2", "^1.2"][number % 3]),
              "tags": ["market", (["fintech", "health"][number % 2])], "tools": ["mcp:browser", "mcp:files"],
              "cost_hint": (["low", "medium", "high"][number % 3]) },
            { "id": format!("skill:special-{}", number % 100) },
            { "id": "tool:mcp", "servers": ["mcp:browser", "mcp:files"] },
        ],
        "limits": { "max_concurrency": 4 },
        "security": { "sandbox": number.is_multiple_of(4) },
    });
    Card::read(&card).map_err(|faults| anyhow::anyhow!("{faults}"))
}

fn agent(id: AgentId, profile: Profile, number: usize) -> Agent {
    Agent {
        id,
        profile: Profile { role: AgentRole::Worker, ..profile },
        status: AgentStatus::Idle,
        membership: Membership::Here,
        current_task: None,
        joined_at: Timestamp(0),
        joined: Seq(number as u64),
        seen_at: Timestamp(0),
        has_credential: false,
        credential_ends_with_team: false,
        holding: 0,
        claims_when_offline: Default::default(),
        said_goodbye: false,
        recent: Default::default(),
        last_assigned: Some(Seq(number as u64 * 7_919 % 10_007)),
        paused: None,
        allowed_endpoint: None,
    }
}
