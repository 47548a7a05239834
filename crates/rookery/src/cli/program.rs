//! The two names of this program.

use std::path::Path;

use clap::{Command, CommandFactory};

use super::Cli;

/// What the program is called by, which says what its help is about. It does the same by either name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// Everything
    Rookery,
    /// What runs teams of agents
    AgentWorker,
}

/// The commands of `agent-worker`, and those that a shell needs for it.
const OF_WORKER: [&str; 11] =
    ["run", "start", "stop", "list", "new", "send", "peek", "context", "check", "completions", "man"];

impl Program {
    pub const ALL: [Program; 2] = [Program::Rookery, Program::AgentWorker];

    /// The name by which this process was started.
    pub fn called() -> Program {
        let called = std::env::args_os().next();
        let name = called.as_deref().map(Path::new).and_then(Path::file_stem);
        if name.is_some_and(|name| name == Program::AgentWorker.name()) {
            Program::AgentWorker
        } else {
            Program::Rookery
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Program::Rookery => "rookery",
            Program::AgentWorker => "agent-worker",
        }
    }

    /// The command line under this name.
    pub fn command(self) -> Command {
        let command = Cli::command().name(self.name()).bin_name(self.name());
        match self {
            Program::Rookery => command,
            Program::AgentWorker => {
                command.about("Runs teams of AI agents from workflow files").mut_subcommands(|command| {
                    if OF_WORKER.contains(&command.get_name()) { command } else { command.hide(true) }
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_worker_shows_is_there() {
        let command = Program::AgentWorker.command();
        for name in OF_WORKER {
            let shown = command.get_subcommands().find(|command| command.get_name() == name);
            assert!(shown.is_some_and(|command| !command.is_hide_set()), "{name}");
        }
        assert!(command.find_subcommand("tasks").is_some_and(Command::is_hide_set), "it works, and is not shown");
        assert!(command.find_subcommand("ls").is_some());
    }
}
