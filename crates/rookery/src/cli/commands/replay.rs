//! `rookery replay`

use super::of_store::OfStore;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::offline::{self, Replayed};

/// Print the log again from the start, or prove that the state follows from it
///
/// Each event is printed as one line of JSON, in the envelope that every part of the log can be shown in. With --verify
/// nothing is printed: the whole log is folded again and every derived row is compared with the store's.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this run
    #[arg(conflicts_with = "verify")]
    run: Option<String>,

    /// Compare every derived row with the store's
    #[arg(long)]
    verify: bool,

    #[command(flatten)]
    of: OfStore,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = args.of.settled(context)?;
    if !args.verify {
        let each = |envelope| context.out.json_line(&envelope);
        let count = offline::envelopes(&settings, &project, args.run.as_deref(), each).await?;
        context.out.note(&format!("{count} events"));
        return Ok(());
    }
    let replayed = offline::replay(&settings, &project, context.out.progress("folding events")).await?;
    verdict(context, &replayed)
}

fn verdict(context: &Context, replayed: &Replayed) -> anyhow::Result<()> {
    if replayed.differences.is_empty() {
        let text =
            format!("{} events up to {} make {} rows; the store agrees", replayed.events, replayed.head, replayed.rows);
        return context.out.done(replayed, &text);
    }
    replayed.differences.iter().for_each(|line| context.out.note(line));
    let count = replayed.differences.len();
    Err(Failure::new(format!("{count} rows of the store differ from what the log says"))
        .hint("keep a copy with `rookery backup FILE`; the log is right, the rows can be rebuilt from it")
        .into())
}
