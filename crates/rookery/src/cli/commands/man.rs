//! `rookery man`

use std::path::PathBuf;

use anyhow::Context as _;

use crate::cli::context::Context;
use crate::cli::program::Program;

/// Print the manual page, or write those of all commands into a folder
///
/// The folder gets those of agent-worker too.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder for all pages
    folder: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let Some(folder) = args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Program::called().command()).render(&mut page)?;
        return context.out.raw(&page);
    };
    let failed = || format!("cannot write the manual pages into {}", folder.display());
    std::fs::create_dir_all(&folder).with_context(failed)?;
    for program in Program::ALL {
        clap_mangen::generate_to(program.command(), &folder).with_context(failed)?;
    }
    context.out.note(&format!("wrote the manual pages into {}", folder.display()));
    Ok(())
}
