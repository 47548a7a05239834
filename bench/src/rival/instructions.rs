//! Instructions per request of two builds, counted by callgrind in the daemon.
//!
//! Each path is run in fresh daemons, with few and with many requests. The difference leaves out start, set-up and stop. Other
//! work of the daemon can only increase a count, so the lowest of several counts is used.

use std::path::Path;

use anyhow::{Context, bail};

use super::{Build, Builds};
use crate::daemon::Daemon;
use crate::mcp::session::{Calls, Session, ToolClient};
use crate::report::{Figure, Report};
use crate::rest::HttpClient;
use crate::sample::Client;
use crate::{Plan, say, work};

const FEW: usize = 100;
const MANY: usize = 600;
const REPEATS: usize = 3;
/// No path may need more instructions than this many percent of the other build's.
const AT_MOST: f64 = 103.0;

#[derive(Clone, Copy, Debug)]
enum Measured {
    Create,
    McpRead,
    McpClaim,
}

impl Measured {
    const ALL: [Measured; 3] = [Measured::Create, Measured::McpRead, Measured::McpClaim];

    fn name(self) -> &'static str {
        match self {
            Measured::Create => "task creation over REST",
            Measured::McpRead => "a read by MCP",
            Measured::McpClaim => "a file claim by MCP",
        }
    }
}

pub(super) fn run(plan: &Plan, builds: &Builds, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scratch = plan.scratch()?;
    for path in Measured::ALL {
        let mut per_request = [0.0; 2];
        for (build, counted) in builds.iter().zip(&mut per_request) {
            let few = runtime.block_on(least(build, scratch.path(), path, FEW))?;
            let many = runtime.block_on(least(build, scratch.path(), path, MANY))?;
            *counted = (many - few) / (MANY - FEW) as f64;
            let name = format!("{}, {}: instructions", path.name(), build.name);
            report.add(Figure::new(name, *counted / 1000.0, "thousand"));
        }
        let [ours, theirs] = per_request;
        let figure = Figure::new(format!("{}: instructions, this / other", path.name()), ours / theirs * 100.0, "%");
        report.add(figure.at_most(AT_MOST));
        say::note(format_args!("counted: {}", path.name()));
    }
    Ok(())
}

async fn least(build: &Build, scratch: &Path, path: Measured, requests: usize) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for repeat in 0..REPEATS {
        let root = build.root(scratch, &format!("{path:?}-{requests}-{repeat}"))?;
        least = least.min(count(build, &root, path, requests).await?);
    }
    Ok(least)
}

/// The instructions of one daemon from its start to its end, with this many requests in between.
async fn count(build: &Build, root: &Path, path: Measured, requests: usize) -> anyhow::Result<f64> {
    let counts = root.join("callgrind.out");
    let daemon = Daemon::start_counted(&build.program, root, &counts).await?;
    daemon.announce(1).await?;
    match path {
        Measured::Create => repeat(HttpClient::creating(daemon.address, 0).await?, requests).await?,
        Measured::McpRead => repeat(tools(&daemon, Calls::reading(&work::agent(0))).await?, requests).await?,
        Measured::McpClaim => repeat(tools(&daemon, Calls::claiming("src/lib.rs")).await?, requests).await?,
    }
    daemon.stop()?;
    total(&counts)
}

async fn tools(daemon: &Daemon, calls: Calls) -> anyhow::Result<ToolClient> {
    Ok(ToolClient::new(Session::open(daemon.address, "/mcp", &work::agent(0)).await?, calls))
}

async fn repeat(mut client: impl Client, requests: usize) -> anyhow::Result<()> {
    for _ in 0..requests {
        client.act().await?;
    }
    Ok(())
}

/// The sum that callgrind wrote at the daemon's end.
fn total(counts: &Path) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(counts).with_context(|| format!("{} was not written", counts.display()))?;
    let Some(total) = text.lines().find_map(|line| line.strip_prefix("totals: ")) else {
        bail!("{} has no totals", counts.display());
    };
    Ok(total.trim().parse()?)
}
