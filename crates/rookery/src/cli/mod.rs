//! The command line: parses what a person typed, runs one command, and turns its outcome into an exit code.
//!
//! 0 done, 1 failed, 2 usage, 3 daemon not reachable, 130 interrupted. Each command is a file in [`commands`], whose doc comments are
//! its help. Commands talk to the daemon through `rookery_client` and to the person through [`output`], never otherwise.

mod bridge;
pub mod clock;
pub mod commands;
pub mod context;
mod failure;
pub mod output;
mod program;
pub mod reference;
mod roster;
mod runners;
mod sentence;
mod team;
mod workflow_file;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::FalseyValueParser;
use clap::{FromArgMatches, Parser};

use commands::Command;
use context::{Context, Start};
pub use failure::{Exit, Failure, Report};
use output::{Format, Output, Talk};
use program::Program;

/// Run Claude Code, Codex and other agents as one team, and watch and steer them.
#[derive(Debug, Parser)]
#[command(name = "rookery", version, propagate_version = true, arg_required_else_help = true)]
#[command(subcommand_help_heading = "Commands", next_help_heading = "Options of every command")]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 daemon not reachable, 130 interrupted.")]
pub struct Cli {
    /// The project's folder, instead of the one that the current folder belongs to
    #[arg(long, global = true, value_name = "DIR", env = "ROOKERY_DIR", hide_env_values = true)]
    dir: Option<PathBuf>,

    /// Print JSON instead of text
    #[arg(long, global = true)]
    json: bool,

    /// Fail if no daemon runs, instead of starting one
    #[arg(long, global = true, env = "ROOKERY_NO_START", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new())]
    no_start: bool,

    /// Say nothing but data and errors
    #[arg(long, short, global = true)]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data on stdout with code 0; the rest is usage on stderr with code 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    let context = Context {
        out: Output::new(
            if cli.json { Format::Json } else { Format::Human },
            if cli.quiet { Talk::Quiet } else { Talk::Normal },
        ),
        dir: cli.dir,
        start: if cli.no_start { Start::Never } else { cli.command.start() },
    };
    match run(&context, cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let report = Report::of(&error);
            context.out.failure(&report);
            ExitCode::from(report.exit as u8)
        }
    }
}

/// Parses the arguments under the name that the program was called by.
fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&Program::called().command().try_get_matches()?)
}

fn run(context: &Context, command: Command) -> anyhow::Result<()> {
    // The daemon uses every core, and so does a team; a command that asks one question needs none of its own threads.
    let mut runtime = match command {
        Command::Up(_) | Command::Run(_) | Command::Start(_) | Command::New(_) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    runtime.enable_all().build()?.block_on(commands::run(context, command))
}

/// True if whoever read our output has seen enough, as in `rookery log | head`.
fn reader_left(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    // A connection that broke has such a cause too, and is no reason to be silent.
    let ours = error.chain().take_while(|cause| !cause.is::<reqwest::Error>());
    ours.into_iter().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(broken))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use rookery_client::{Address, Client, Proof};
    use rookery_testkit::stub_server::StubServer;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[tokio::test]
    async fn a_connection_that_broke_is_not_taken_for_a_reader_that_left() {
        let left = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(reader_left(&left));
        let body = reqwest::Body::wrap_stream(futures_util::stream::once(async {
            Err::<Vec<u8>, _>(io::Error::from(io::ErrorKind::BrokenPipe))
        }));
        let daemon = StubServer::start("200 OK\r\n\r\n{}").await.unwrap();
        let address = Address { url: daemon.url().to_owned(), socket: None, project: "prj_1".into() };
        let client = Client::new(address, Proof::Nothing).unwrap();
        let request = client.request(reqwest::Method::POST, &["x"], &[]).body(body);
        let broke = anyhow::Error::from(client.send(request).await.unwrap_err());
        assert!(broke.chain().any(|cause| cause.is::<io::Error>()), "{broke:?}");
        assert!(!reader_left(&broke));
    }

    #[test]
    fn help_is_as_committed() {
        let mut command = Cli::command().term_width(100);
        insta::assert_snapshot!("help", command.render_long_help());
        let mut worker = Program::AgentWorker.command().term_width(100);
        insta::assert_snapshot!("help_agent_worker", worker.render_long_help());
    }

    #[test]
    fn help_of_every_command_is_as_committed() {
        fn pages(command: &mut clap::Command) -> String {
            let own = format!("{}\n", command.render_long_help());
            let parts = command.get_subcommands_mut().filter(|part| !part.is_hide_set() && part.get_name() != "help");
            std::iter::once(own).chain(parts.map(pages)).collect::<Vec<_>>().join("\n----\n\n")
        }
        let mut cli = Cli::command().term_width(100);
        cli.build();
        for command in cli.get_subcommands_mut().filter(|one| !one.is_hide_set() && one.get_name() != "help") {
            insta::assert_snapshot!(format!("help_of_{}", command.get_name()), pages(command));
        }
    }

    #[test]
    fn every_command_and_argument_is_explained() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "`{}` has no help", command.get_name());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{} of `{}`", argument.get_id(), command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
