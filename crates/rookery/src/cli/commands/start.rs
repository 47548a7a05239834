//! `rookery start`

use std::ffi::OsString;
use std::path::PathBuf;

use rookery_client::teams::Mode;
use rookery_runner::file::Blocker;
use rookery_runner::team::Leftovers;

use crate::cli::context::Context;
use crate::cli::team::{self, TeamRunOptions};
use crate::cli::workflow_file::{load, surroundings};

/// Start a workflow file and keep its team running until it is stopped
///
/// Like `run`, but the agents stay and wait for whatever comes: messages (`rookery send`) and their schedules. It ends by
/// `rookery stop`, by Ctrl-C, or when a limit of the file is reached. After a crash or a reboot, start it again: it goes on where
/// it was, and nobody is told anything twice.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workflow file
    file: PathBuf,

    /// Name of the team's instance, to start a file several times side by side
    #[arg(long, value_name = "NAME", default_value = "default")]
    instance: String,

    /// Run in the background, also after the terminal is closed
    #[arg(long)]
    background: bool,

    /// Show what agents do and say in their turns
    #[arg(long, short)]
    verbose: bool,

    /// This process is the one in the background
    #[arg(long, hide = true)]
    detached: bool,

    /// Values for the parameters of the file, as `--name value`
    #[arg(last = true, value_name = "PARAMS")]
    params: Vec<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    if args.detached {
        crate::process::detach()?;
    }
    let ready = load(context, &args.file, &args.instance, &args.params, &surroundings(context))?;
    let (hinders, waits): (Vec<_>, Vec<_>) = ready.blockers().into_iter().partition(Blocker::blocks_start);
    team::hindered(&hinders)?;
    for hindrance in waits {
        context.out.note(&format!("{hindrance}: the team waits for messages (`rookery send`)"));
    }
    let wanted =
        TeamRunOptions { ready, mode: Mode::Start, verbose: args.verbose, timeout: None, leftovers: Leftovers::Keep };
    if args.background {
        team::background(context, &wanted, arguments(&args)?).await
    } else {
        team::drive(context, wanted).await
    }
}

/// What the process in the background is started with: the same, from wherever it is.
fn arguments(args: &Args) -> anyhow::Result<Vec<OsString>> {
    let file = std::path::absolute(&args.file)?;
    let mut all: Vec<OsString> = vec!["start".into(), file.into(), "--instance".into(), (&args.instance).into()];
    all.push("--detached".into());
    if args.verbose {
        all.push("--verbose".into());
    }
    if !args.params.is_empty() {
        all.push("--".into());
        all.extend(args.params.iter().map(OsString::from));
    }
    Ok(all)
}
