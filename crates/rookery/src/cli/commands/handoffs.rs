//! `rookery handoffs`

use rookery_client::wire::{self, ListedHandoff};

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

/// List the handoffs between agents
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only handoffs with this status
    #[arg(long, value_parser = ["pending", "accepted", "rejected"])]
    status: Option<String>,

    /// Only handoffs to this agent
    #[arg(long)]
    to: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let wanted = [("status", args.status), ("to_agent", args.to)];
    let query: Vec<_> = wanted.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let handoffs = context.client().await?.get(&["handoffs"], &query).await?;
    context.out.show(&handoffs, |clock| Ok(table(wire::read(&handoffs)?, clock)))
}

fn table(handoffs: Vec<ListedHandoff>, clock: &Clock) -> Table {
    let row = |handoff: ListedHandoff| {
        let tone = match handoff.status.as_str() {
            "pending" => TextStyle::Warning,
            "rejected" => TextStyle::Bad,
            _ => TextStyle::Plain,
        };
        vec![
            handoff.id.into(),
            Cell::new(handoff.status, tone),
            handoff.from_agent.into(),
            handoff.to_agent.unwrap_or_else(|| "anyone".into()).into(),
            handoff.task_id.into(),
            clock.age(handoff.created_at).into(),
            handoff.summary.into(),
        ]
    };
    Table {
        headings: &["HANDOFF", "STATUS", "FROM", "TO", "TASK", "CREATED", "SUMMARY"],
        rows: handoffs.into_iter().map(row).collect(),
        empty: "no handoffs",
    }
}
