//! `rookery reference`

use crate::cli::context::Context;
use crate::cli::reference;

/// Print the reference of the command line as Markdown
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {}

pub(super) fn run(context: &Context, _args: Args) -> anyhow::Result<()> {
    context.out.raw(reference::markdown().as_bytes())
}
