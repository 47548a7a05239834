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
    match (args.shell, program) {
        (clap_complete::Shell::Bash, Program::AgentWorker) => script = for_bash(program)?,
        (shell, program) => clap_complete::generate(shell, &mut program.command(), program.name(), &mut script),
    }
    context.out.raw(&script)
}

/// In the script for bash the name of the program is part of the names of functions and states, which a hyphen breaks. So it
/// is made for a name without one, and then said to be for this one.
fn for_bash(program: Program) -> anyhow::Result<Vec<u8>> {
    let name = program.name();
    let plain = name.replace('-', "_");
    let mut script = Vec::new();
    clap_complete::generate(clap_complete::Shell::Bash, &mut program.command().bin_name(&plain), &plain, &mut script);
    let script = String::from_utf8(script)?;
    Ok(script.replace(&format!(" -o default {plain}\n"), &format!(" -o default {name}\n")).into_bytes())
}
