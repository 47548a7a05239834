//! `rookery launch`

use std::ffi::OsString;

use rookery_runner::process::launch;

use crate::cli::context::Context;
use crate::cli::failure::{Failure, Report};

/// Become another program that ends when whoever started this one does; for the runner's own use
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The process that started this one
    #[arg(long, value_name = "PID")]
    parent: u32,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let failure = Failure::new(launch::launch(args.parent, &args.argv).to_string())
        .hint("check that the program is installed and may be started");
    context.out.failure(&Report::of(&failure.into()));
    std::process::exit(launch::NOT_STARTED)
}
