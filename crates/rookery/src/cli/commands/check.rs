//! `rookery check`

use std::path::PathBuf;

use rookery_runner::file::RunPreview;

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};
use crate::cli::workflow_file::{load, surroundings};

/// Check a workflow file and say what it would do, without doing it
///
/// Names everything that is wrong with the file, each fault with its line and column, and everything that is missing to run it
/// on this machine: parameters (given after `--`, as for `run`), programs, keys of models. A missing sandbox is a note, because
/// agents run without one there. No daemon is needed.
///
/// Exit codes: 0 it can be started here, 1 something is missing here, 2 something is wrong with the file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workflow file
    file: PathBuf,

    /// The instance to check it for
    #[arg(long, value_name = "NAME", default_value = "default")]
    instance: String,

    /// Values for the parameters of the file, as `--name value`
    #[arg(last = true, value_name = "PARAMS")]
    params: Vec<String>,
}

pub(super) fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let surroundings = surroundings(context);
    let ready = load(context, &args.file, &args.instance, &args.params, &surroundings)?;
    let plan = RunPreview::of(&ready, &surroundings);
    match context.out.format() {
        Format::Json => context.out.json(&plan)?,
        Format::Human => plan.to_string().lines().try_for_each(|line| context.out.line(line, TextStyle::Plain))?,
    }
    if plan.can_be_started() {
        return Ok(());
    }
    let missing: Vec<String> = plan.blockers.iter().filter(|one| one.blocks_start()).map(ToString::to_string).collect();
    let failure = Failure::new(format!("{} cannot be run here: {}", args.file.display(), missing.join("; ")));
    Err(failure.hint("give the parameters after `--`, and install what is missing; then check again").into())
}
