//! `rookery relay`

use std::ffi::OsString;
use std::path::PathBuf;

use rookery_runner::process::ProcessLimits;
use rookery_runner::sandbox::{self, RelayedPort};

use super::exec::not_started;
use crate::cli::context::Context;

/// Run a program in a sandbox and lead it to what it may reach; for the runner's own use
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The socket of the proxy
    #[arg(long, value_name = "SOCKET")]
    egress: PathBuf,

    /// A port to listen on, and where it leads
    #[arg(long, value_name = "PORT=TO")]
    listen: Vec<RelayedPort>,

    /// Limits of each process: CPU_SECONDS,OPEN_FILES,FILE_BYTES,THREADS
    #[arg(long, value_name = "NUMBERS")]
    limits: Option<ProcessLimits>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    match sandbox::relay(args.egress, args.listen, args.limits, args.argv).await {
        Ok(code) => std::process::exit(code),
        Err(error) => not_started(context, &error),
    }
}
