//! `rookery replay`

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::offline::{self, ReplayMode};

/// Fold the log again and say what it holds
///
/// Everything that agents and people did is in the log; the rest is derived from it. --verify proves that, row by row.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this run
    run: Option<String>,

    /// Compare every derived row with the store's
    #[arg(long)]
    verify: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = context.settled()?;
    let mode = if args.verify { ReplayMode::Verify } else { ReplayMode::Summarise };
    let replayed = offline::replay(&settings, &project, args.run.as_deref(), mode).await?;
    let verified = if args.verify { "; the store agrees" } else { "" };
    let text = match replayed.differences.len() {
        0 => format!("{} events up to {} make {} rows{verified}", replayed.events, replayed.head, replayed.rows),
        _ => replayed.differences.join("\n"),
    };
    for line in text.lines() {
        if replayed.differences.is_empty() {
            context.out.done(&replayed, line)?;
        } else {
            context.out.note(line);
        }
    }
    match replayed.differences.len() {
        0 => Ok(()),
        count => {
            let failure = Failure::new(format!("{count} rows of the store differ from what the log says"));
            Err(failure
                .hint("keep a copy with `rookery backup FILE`; the log is right, the rows can be rebuilt")
                .into())
        }
    }
}
