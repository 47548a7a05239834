//! `rookery context`

use super::configure_context::{self, Configure, Show};
use crate::cli::context::Context;

/// Channel, inbox and documents of an instance
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say what an instance's context is kept in: files, memory, or nothing
    Configure(Configure),
    /// Show what an instance's context is kept in, or that of all
    Show(Show),
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Configure(args) => configure_context::configure(context, args).await,
        Command::Show(args) => configure_context::show(context, args).await,
    }
}
