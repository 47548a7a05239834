//! `rookery import`

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::Context as _;

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
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = context.settled()?;
    let file = File::open(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    project.prepare()?;
    let _lock = ProjectLock::acquire(&project)?;
    let moved = offline::import(&settings, &project, &mut BufReader::new(file)).await?;
    context.out.done(&moved, &format!("imported {} events as log {}", moved.events, moved.log_id))
}
