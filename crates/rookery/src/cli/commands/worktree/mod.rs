//! `rookery worktree`

mod list;
mod merge;
mod new;
mod remove;
mod session;
mod workspace;

use crate::cli::context::Context;

/// Give an agent a worktree of its own, and end it without losing work
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    New(new::Args),
    List(list::Args),
    Merge(merge::Args),
    Remove(remove::Args),
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::New(args) => new::run(context, args).await,
        Command::List(args) => list::run(context, args).await,
        Command::Merge(args) => merge::run(context, args).await,
        Command::Remove(args) => remove::run(context, args).await,
    }
}
