//! `rookery export`

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::of_store::OfStore;
use crate::cli::context::Context;
use crate::offline;

/// Write the log as JSON lines, oldest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write; - or nothing for stdout
    file: Option<PathBuf>,

    #[command(flatten)]
    of: OfStore,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (project, settings) = args.of.settled(context)?;
    let Some(path) = args.file.filter(|file| file != Path::new("-")) else {
        // Nothing to say if whoever reads has seen enough.
        if let Some(moved) = offline::export(&settings, &project, io::stdout()).await? {
            context.out.missing(&moved.missing);
            context.out.note(&format!("exported {} events", moved.events));
        }
        return Ok(());
    };
    // Written beside its place and moved there when it is whole: a failed export leaves an older one alone.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file =
        tempfile::NamedTempFile::new_in(folder).with_context(|| format!("cannot write in {}", folder.display()))?;
    let out = io::BufWriter::new(file.as_file().try_clone()?);
    let Some(moved) = offline::export(&settings, &project, out).await? else { return Ok(()) };
    file.as_file().sync_all()?;
    file.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
    context.out.missing(&moved.missing);
    context.out.done(&moved, &format!("exported {} events to {}", moved.events, path.display()))
}
