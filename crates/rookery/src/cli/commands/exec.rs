//! `rookery exec`

use std::ffi::OsString;
use std::path::PathBuf;

use rookery_runner::process::exec_shim;

use crate::cli::context::Context;
use crate::cli::failure::{Failure, Report};

/// Become another program that ends when whoever started this one does; for the runner's own use
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The process that started this one
    #[arg(long, value_name = "PID")]
    parent: u32,

    /// The file by which a process enters the control group that the program runs in
    #[arg(long, value_name = "FILE")]
    group: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

pub(super) fn run(context: &Context, args: &Args) -> ! {
    not_started(context, &exec_shim::exec(args.parent, args.group.as_deref(), &args.argv))
}

/// Says why a program was not started, and ends as a shell does then.
pub(super) fn not_started(context: &Context, error: &std::io::Error) -> ! {
    let failure = Failure::new(error.to_string()).hint("check that the program is installed and may be started");
    context.out.failure(&Report::of(&failure.into()));
    std::process::exit(exec_shim::NOT_STARTED)
}
