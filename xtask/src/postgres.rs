//! `cargo xtask postgres`: the server that the tests share, for running them by hand.

use anyhow::{Result, bail};
use clap::Args;
use rookery_testdb::{Options, Server};

use crate::say;

/// The variable by which tests find the server.
pub(crate) const SHARED: &str = "ROOKERY_TEST_POSTGRES";

/// Start a private PostgreSQL for the tests and keep it until Ctrl-C
#[derive(Debug, Args)]
pub(crate) struct Postgres {
    /// Write through to the disk, as in production; otherwise it is fast and forgets in a power cut
    #[arg(long)]
    durable: bool,
}

impl Postgres {
    pub(crate) fn run(&self) -> Result<()> {
        let options = if self.durable { Options::durable() } else { Options::fast() };
        let mut server = options.start()?;
        say::data(format_args!("export {SHARED}={}", server.url()));
        say::note("Ctrl-C ends it and removes its files");
        let status = server.wait()?;
        bail!("the server has ended by itself ({status})\n{}", server.log())
    }
}

/// One for the length of a test run: it ends when this is dropped, and also when we are killed.
pub(crate) fn for_tests() -> Result<Server> {
    let server = Server::start()?;
    say::note(format_args!("PostgreSQL for the tests: {}", server.url()));
    Ok(server)
}
