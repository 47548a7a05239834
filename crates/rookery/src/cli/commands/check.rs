//! `rookery check`

use std::path::PathBuf;

use rookery_runner::file::Plan;

use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};
use crate::cli::workflow_file::{load, surroundings};

/// Check a workflow file and say what it would do, without doing it
///
/// Tells everything that is wrong with the file, each fault with its line and column. No daemon is needed. Exits with 2 if
/// something is wrong.
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
    let plan = Plan::of(&ready, &surroundings);
    match context.out.format() {
        Format::Json => context.out.json(&plan),
        Format::Human => plan.to_string().lines().try_for_each(|line| context.out.line(line, TextStyle::Plain)),
    }
}
