//! `rookery runs`

use rookery_client::wire::{self, ListedRun, ListedRuns};

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

/// List the runs that have tasks, newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let query = [("limit", args.limit.to_string())];
    let answer = context.client().await?.get(&["clutch", "v0", "runs"], &query).await?;
    let runs: ListedRuns = wire::read(&answer)?;
    let more = runs.next.is_some();
    context.out.show(&answer, |clock| Ok(table(runs.runs, clock)))?;
    if more {
        context.out.note("there are older ones; --limit shows more");
    }
    Ok(())
}

fn table(runs: Vec<ListedRun>, clock: &Clock) -> Table {
    let row = |run: ListedRun| {
        let tasks = match (run.task_count, run.unfinished_count) {
            (Some(all), Some(unfinished)) => format!("{} of {all} done", all.saturating_sub(unfinished)),
            _ => "many".to_owned(),
        };
        let tone = tone(&run.status);
        let age = clock.since(&run.updated_at).map_or_else(|| "-".to_owned(), |age| format!("{age} ago"));
        vec![run.run_id.into(), Cell::new(run.status, tone), tasks.into(), age.into(), run.title.into()]
    };
    Table {
        headings: &["RUN", "STATUS", "TASKS", "CHANGED", "TITLE"],
        rows: runs.into_iter().map(row).collect(),
        empty: "no runs",
    }
}

/// How the status of a run is to be taken.
pub(super) fn tone(status: &str) -> TextStyle {
    match status {
        "in_progress" => TextStyle::Good,
        "paused" => TextStyle::Warning,
        "failed" => TextStyle::Bad,
        "completed" | "abandoned" => TextStyle::Dim,
        _ => TextStyle::Plain,
    }
}
