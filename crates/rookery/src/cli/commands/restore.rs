//! `rookery restore`

use std::path::PathBuf;

use super::of_store::OfStore;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::offline::{self, Existing};
use crate::project::ProjectLock;

/// Put a backup in the store's place
///
/// The daemon must not run. The log gets a new id, so that agents and viewers notice and read the state anew.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file that `rookery backup` wrote
    file: PathBuf,

    /// Replace a log that is already there
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    of: OfStore,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = args.of.settled(context)?;
    if !args.file.is_file() {
        let failure = Failure::new(format!("there is no file {}", args.file.display()));
        return Err(failure.hint("name a file that `rookery backup` wrote").into());
    }
    project.prepare()?;
    let _lock = ProjectLock::acquire(&project)?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let moved = offline::restore(&settings, &project, &args.file, existing).await?;
    if let Some(path) = &moved.set_aside {
        context.out.note(&format!("the log that was there is kept as {path}"));
    }
    context.out.done(&moved, &format!("restored {} events as log {}", moved.events, moved.log_id))
}
