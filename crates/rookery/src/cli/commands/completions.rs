//! `rookery completions`

use crate::cli::context::Context;
use crate::cli::program::Program;

/// Print a completion script for a shell
///
/// For bash: rookery completions bash > ~/.local/share/bash-completion/completions/rookery, and with --program agent-worker
/// for that name.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,

    /// The name of the program that they are for, instead of the one it was called by
    #[arg(long, value_name = "NAME", value_enum)]
    program: Option<Program>,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    let program = args.program.unwrap_or_else(Program::called);
    clap_complete::generate(args.shell, &mut program.command(), program.name(), &mut script);
    context.out.raw(&script)
}
