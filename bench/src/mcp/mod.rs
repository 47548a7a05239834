//! Tools called over MCP, by clients that keep a session: a read beside a bare server of the same SDK and a bare HTTP
//! server, a durable write beside the same one over REST, and the share of a model's context that the lists of tools take.

pub(crate) mod echo;
pub(crate) mod session;
mod sizes;
mod writes;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::daemon::Daemon;
use crate::report::{Figure, Report};
use crate::rest::HttpClient;
use crate::sample::{Client, closed_loop};
use crate::turns::{Runner, rotate, share, slices};
use crate::{Plan, work};

use session::{Calls, Session, ToolClient};
use writes::RestClaims;

/// The numbers of clients, each of which waits for its answer.
const CLIENTS: [usize; 2] = [1, 32];
const MOST: usize = 32;
/// Every client sends at least one request before the measurement.
const WARM_UP: Duration = Duration::from_millis(20);

const AXUM: &str = "bare axum, JSON echoed";
const RMCP: &str = "bare rmcp, a tool that echoes";
const READ: &str = "a read by MCP (agent_get)";
const REST_READ: &str = "the same read by REST";
const CLAIM: &str = "file claims by MCP";
const REST: &str = "file claims by REST";

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (axum, rmcp) = (Daemon::echo()?, Daemon::mcp_echo()?);
    let daemon = load.block_on(Daemon::start(scratch.path()))?;
    load.block_on(daemon.announce(MOST))?;

    let (load, address) = (&load, daemon.address);
    let mut runners = Vec::new();
    for clients in CLIENTS {
        runners.push(http_runner(AXUM, load, clients, move |at| HttpClient::creating(axum.address, at)));
        runners.push(tool_runner(RMCP, load, rmcp.address, clients, |_| Calls::echo())?);
        runners.push(tool_runner(READ, load, address, clients, |at| Calls::reading(&work::agent(at)))?);
        runners.push(http_runner(REST_READ, load, clients, move |at| HttpClient::reading(address, at)));
        runners.push(tool_runner(CLAIM, load, address, clients, move |at| Calls::claiming(&path(CLAIM, clients, at)))?);
        let claims = move |at| RestClaims::open(address, at, path(REST, clients, at));
        runners.push(http_runner(REST, load, clients, claims));
    }
    rotate(&mut runners, plan)?;
    figures(&runners, report);
    load.block_on(sizes::add(address, report))
}

/// A file that only one client claims.
pub(crate) fn path(name: &str, clients: usize, at: usize) -> String {
    format!("src/{}-{clients}/{at}.rs", name.replace(' ', "-"))
}

/// Clients that keep their sessions from slice to slice. Their connections are new each time, since a daemon would close
/// connections that are idle for a whole round.
pub(crate) fn tool_runner<'a>(
    name: &'static str,
    load: &'a Runtime,
    address: SocketAddr,
    clients: usize,
    calls: impl Fn(usize) -> Calls + 'a,
) -> anyhow::Result<Runner<'a>> {
    let mut crowd = Vec::new();
    for at in 0..clients {
        let session = load.block_on(Session::open(address, "/mcp", &work::agent(at)))?;
        crowd.push(ToolClient::new(session, calls(at)));
    }
    Ok(Runner::new(name, clients, move |length| {
        load.block_on(async {
            for client in &mut crowd {
                client.reconnect().await?;
            }
            closed_loop(&mut crowd, WARM_UP).await?;
            closed_loop(&mut crowd, length).await
        })
    }))
}

fn http_runner<'a, C, F>(
    name: &'static str,
    load: &'a Runtime,
    clients: usize,
    open: impl Fn(usize) -> F + 'a,
) -> Runner<'a>
where
    C: Client + 'a,
    F: Future<Output = anyhow::Result<C>>,
{
    Runner::new(name, clients, move |length| {
        load.block_on(async {
            let mut crowd = Vec::new();
            for at in 0..clients {
                crowd.push(open(at).await?);
            }
            closed_loop(&mut crowd, WARM_UP).await?;
            closed_loop(&mut crowd, length).await
        })
    })
}

fn figures(runners: &[Runner<'_>], report: &mut Report) {
    for runner in runners {
        let label = runner.label();
        report.add(Figure::spread(&label, runner.spread(|slice| slice.per_second), "/s"));
        report.add(Figure::spread(format!("{label}: p50"), runner.spread(|slice| slice.p50_ms), "ms"));
    }
    for clients in CLIENTS {
        let compare = |one, other| share(slices(runners, one, clients), slices(runners, other, clients));
        let figure = |name: &str, spread| Figure::spread(format!("{name}, {clients} clients"), spread, "%");
        report.add(figure("a read by MCP / bare axum", compare(READ, AXUM)));
        report.add(figure("a read by MCP / bare rmcp", compare(READ, RMCP)).at_least(80.0));
        report.add(figure("a read by MCP / by REST", compare(READ, REST_READ)));
        report.add(figure("file claims by MCP / by REST", compare(CLAIM, REST)).at_least(60.0));
    }
}
