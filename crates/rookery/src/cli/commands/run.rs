//! `rookery run`

use std::path::PathBuf;
use std::time::Duration;

use rookery_client::teams::Mode;
use rookery_runner::team::Leftovers;

use crate::cli::context::Context;
use crate::cli::team::{self, TeamRunOptions};
use crate::cli::workflow_file::{load, surroundings};

/// Run a workflow file and exit when nobody has anything left to do
///
/// Runs its setup commands, sends the kickoff, and lets the agents work until none of them works, nobody has unread messages
/// and nothing is about to be tried again. Then it prints the entry document. A run that was killed goes on where it was when
/// it is started again. Without --instance, documents and channel that another workflow or a finished run left in `default` are
/// archived as `default.1`, `default.2` and so on first. Scheduled wake-ups do not keep a run alive: `rookery start` is for those.
///
/// Exit codes: 0 every agent's last turn succeeded, 1 failed, 2 something is wrong with the file, 3 no daemon, 130 interrupted.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workflow file
    file: PathBuf,

    /// Name of the team's instance, to run a file several times side by side; `default` if left out
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Keep what the run before left in the instance `default`, instead of archiving it
    #[arg(long = "continue", conflicts_with = "instance")]
    keep_leftovers: bool,

    /// Show what agents do and say in their turns
    #[arg(long, short)]
    verbose: bool,

    /// How long it may take at most: 30s, 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = team::duration)]
    timeout: Option<Duration>,

    /// Values for the parameters of the file, as `--name value`
    #[arg(last = true, value_name = "PARAMS")]
    params: Vec<String>,
}

impl Args {
    /// A file without parameters, for an instance.
    pub(super) fn of(file: PathBuf, instance: &str) -> Args {
        let instance = Some(instance.to_owned());
        Args { file, instance, keep_leftovers: false, verbose: false, timeout: None, params: Vec::new() }
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let leftovers = if args.instance.is_some() || args.keep_leftovers { Leftovers::Keep } else { Leftovers::Archive };
    let instance = args.instance.as_deref().unwrap_or("default");
    let ready = load(context, &args.file, instance, &args.params, &surroundings(context))?;
    let hindrances = ready.blockers();
    team::hindered(&hindrances)?;
    let (verbose, timeout) = (args.verbose, args.timeout);
    team::drive(context, TeamRunOptions { ready, mode: Mode::Run, verbose, timeout, leftovers }).await
}
