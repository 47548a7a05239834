//! `rookery import`

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use super::of_store::OfStore;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::offline;
use crate::project::ProjectLock;

/// Read an exported log into a project that has none yet
///
/// The daemon must not run. The log gets a new id, so that readers of the old one notice.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file that `rookery export` wrote
    file: PathBuf,

    #[command(flatten)]
    of: OfStore,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = args.of.settled(context)?;
    let file = File::open(&args.file).map_err(|error| {
        let failure = Failure::new(format!("cannot read {}: {error}", args.file.display()));
        failure.hint("name a file that `rookery export` wrote")
    })?;
    project.prepare()?;
    let _lock = ProjectLock::acquire(&project)?;
    let moved = offline::import(&settings, &project, BufReader::new(file)).await?;
    context.out.done(&moved, &format!("imported {} events as log {}", moved.events, moved.log_id))
}
