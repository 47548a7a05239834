//! `rookery agents`

use rookery_client::wire::{self, Agent};

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, Tone};

/// List the agents: what each is, does, and when it was last seen
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(context: &Context, _args: Args) -> anyhow::Result<()> {
    let agents = context.client().await?.get(&["agents"], &[]).await?;
    context.out.show(&agents, |clock| Ok(table(wire::read(&agents)?, clock)))
}

fn table(agents: Vec<Agent>, clock: &Clock) -> Table {
    let row = |agent: Agent| {
        let tone = match agent.status.as_str() {
            _ if agent.paused.is_some() => Tone::Warning,
            "working" => Tone::Good,
            "blocked" | "waiting_review" => Tone::Warning,
            "offline" => Tone::Dim,
            _ => Tone::Plain,
        };
        vec![
            agent.id.into(),
            agent.tool.into(),
            agent.role.into(),
            Cell::new(if agent.paused.is_some() { format!("{}, paused", agent.status) } else { agent.status }, tone),
            agent.current_task.unwrap_or_else(|| "-".into()).into(),
            clock.age(agent.last_heartbeat).into(),
            agent.capabilities.join(", ").into(),
        ]
    };
    Table {
        headings: &["AGENT", "TOOL", "ROLE", "STATUS", "TASK", "SEEN", "CAPABILITIES"],
        rows: agents.into_iter().map(row).collect(),
        empty: "no agent has joined yet",
    }
}
