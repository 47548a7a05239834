//! `rookery backup`

use std::path::PathBuf;

use super::of_store::OfStore;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::offline;

/// Copy the whole store into one file, also while the daemon runs
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write, which must not exist
    file: PathBuf,

    #[command(flatten)]
    of: OfStore,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = args.of.settled(context)?;
    if args.file.exists() {
        let failure = Failure::new(format!("{} exists already", args.file.display()));
        return Err(failure.hint("name a new file: a backup never overwrites an older one").into());
    }
    let moved = offline::backup(&settings, &project, &args.file, context.out.progress("copying pages")).await?;
    let text =
        format!("backed up {} events and {} artifacts to {}", moved.events, moved.artifacts, args.file.display());
    context.out.missing(&moved.missing);
    context.out.done(&moved, &text)
}
