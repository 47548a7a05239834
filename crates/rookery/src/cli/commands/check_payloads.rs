//! `rookery check-payloads`

/// Check payloads against schemas, as standard input asks; for the daemon's own use
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {}

pub(super) fn run(_: &Args) -> anyhow::Result<()> {
    match rookery_engine::schemas::serve_checks() {
        Ok(()) => Ok(()),
        // A check that takes too long is still running in a thread.
        Err(_) => std::process::exit(1),
    }
}
