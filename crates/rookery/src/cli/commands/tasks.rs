//! `rookery tasks`

use rookery_client::wire::{self, ListedTask};

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

/// List the tasks
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only tasks with this status
    #[arg(long, value_parser = ["queued", "assigned", "in_progress", "review", "done", "blocked", "failed"])]
    status: Option<String>,

    /// Only tasks of this agent
    #[arg(long)]
    agent: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let wanted = [("status", args.status), ("assigned_to", args.agent)];
    let query: Vec<_> = wanted.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let tasks = context.client().await?.get(&["tasks"], &query).await?;
    context.out.show(&tasks, |clock| Ok(table(wire::read(&tasks)?, clock)))
}

fn table(tasks: Vec<ListedTask>, clock: &Clock) -> Table {
    let row = |task: ListedTask| {
        let tone = match task.status.as_str() {
            "in_progress" => TextStyle::Good,
            "review" => TextStyle::Warning,
            "blocked" | "failed" => TextStyle::Bad,
            "done" => TextStyle::Dim,
            _ => TextStyle::Plain,
        };
        // The state, where it says more than the status: done (cancelled), blocked (paused).
        let status = match task.state.as_deref() {
            Some("failed") => "failed".to_owned(),
            Some(state @ ("cancelled" | "skipped" | "paused")) => format!("{} ({state})", task.status),
            _ => task.status,
        };
        vec![
            task.id.into(),
            Cell::new(status, tone),
            task.assigned_to.unwrap_or_else(|| "-".into()).into(),
            clock.age(task.created_at).into(),
            task.title.into(),
        ]
    };
    Table {
        headings: &["TASK", "STATUS", "AGENT", "CREATED", "TITLE"],
        rows: tasks.into_iter().map(row).collect(),
        empty: "no tasks",
    }
}
