//! `rookery completions`

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::context::Context;

/// Print a completion script for a shell
///
/// For bash: rookery completions bash > ~/.local/share/bash-completion/completions/rookery
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rookery", &mut script);
    context.out.raw(&script)
}
