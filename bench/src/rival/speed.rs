//! Rates of two builds: task creation over REST, a read and file claims over MCP, and creation on PostgreSQL.

use tokio::runtime::Runtime;

use super::{Build, Builds, TOLERATED};
use crate::daemon::Daemon;
use crate::mcp::session::Calls;
use crate::mcp::{path, tool_runner};
use crate::postgres::{self, Databases};
use crate::report::{Figure, Report};
use crate::rest::Rest;
use crate::turns::{Runner, rotate, share, slices};
use crate::{Plan, say, work};

const REST_CLIENTS: [usize; 2] = [1, 64];
const MCP_CLIENTS: [usize; 2] = [1, 32];
const AGENTS: usize = 64;

/// A path through the daemon, with the name of its runner in each build.
struct Measured {
    name: &'static str,
    runners: [&'static str; 2],
    clients: [usize; 2],
}

const CREATE: Measured = Measured {
    name: "task creation over REST",
    runners: ["task creation over REST, this build", "task creation over REST, the other build"],
    clients: REST_CLIENTS,
};
const READ: Measured = Measured {
    name: "a read by MCP",
    runners: ["a read by MCP, this build", "a read by MCP, the other build"],
    clients: MCP_CLIENTS,
};
const CLAIM: Measured = Measured {
    name: "file claims by MCP",
    runners: ["file claims by MCP, this build", "file claims by MCP, the other build"],
    clients: MCP_CLIENTS,
};
const POSTGRES: Measured = Measured {
    name: "task creation on PostgreSQL",
    runners: ["task creation on PostgreSQL, this build", "task creation on PostgreSQL, the other build"],
    clients: REST_CLIENTS,
};

pub(super) fn run(plan: &Plan, builds: &Builds, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = |build: &Build| {
        load.block_on(async {
            let daemon = build.start(scratch.path(), "sqlite").await?;
            daemon.announce(AGENTS).await?;
            anyhow::Ok(Rest { daemons: vec![daemon] })
        })
    };
    let sqlite = [start(&builds[0])?, start(&builds[1])?];
    // Declared before its daemons: the server outlives them.
    let databases = match postgres::available() {
        Ok(()) => Some(Databases::start()?),
        Err(missing) => {
            say::note(format_args!("PostgreSQL skipped: {missing}"));
            None
        }
    };
    let shared = |databases: &Databases, build: &Build, schema| {
        let store = databases.create(schema)?;
        load.block_on(async {
            let daemon =
                Daemon::start_program(&build.program, &build.root(scratch.path(), "postgres")?, &store).await?;
            daemon.announce(AGENTS).await?;
            anyhow::Ok(Rest { daemons: vec![daemon] })
        })
    };
    let postgres = match &databases {
        Some(databases) => Some([shared(databases, &builds[0], "ours")?, shared(databases, &builds[1], "theirs")?]),
        None => None,
    };

    let mut runners = Vec::new();
    for at in 0..REST_CLIENTS.len() {
        for build in 0..builds.len() {
            runners.push(Runner::rest(CREATE.runners[build], &load, &sqlite[build], CREATE.clients[at]));
            runners.push(read(&load, &sqlite[build], build, READ.clients[at])?);
            runners.push(claim(&load, &sqlite[build], build, CLAIM.clients[at])?);
            if let Some(postgres) = &postgres {
                runners.push(Runner::rest(POSTGRES.runners[build], &load, &postgres[build], POSTGRES.clients[at]));
            }
        }
    }
    rotate(&mut runners, plan)?;
    figures(&runners, postgres.is_some(), report);
    Ok(())
}

fn read<'a>(load: &'a Runtime, rest: &Rest, build: usize, clients: usize) -> anyhow::Result<Runner<'a>> {
    tool_runner(READ.runners[build], load, rest.daemons[0].address, clients, |at| Calls::reading(&work::agent(at)))
}

fn claim<'a>(load: &'a Runtime, rest: &Rest, build: usize, clients: usize) -> anyhow::Result<Runner<'a>> {
    let name = CLAIM.runners[build];
    tool_runner(name, load, rest.daemons[0].address, clients, move |at| Calls::claiming(&path(name, clients, at)))
}

fn figures(runners: &[Runner<'_>], with_postgres: bool, report: &mut Report) {
    for runner in runners {
        report.add(Figure::spread(runner.label(), runner.spread(|slice| slice.per_second), "/s"));
    }
    let measured = [CREATE, READ, CLAIM].into_iter().chain(with_postgres.then_some(POSTGRES));
    for Measured { name, runners: names, clients } in measured {
        for clients in clients {
            let [ours, theirs] = names.map(|name| slices(runners, name, clients));
            let figure = Figure::spread(format!("{name}, {clients} clients: this / other"), share(ours, theirs), "%");
            report.add(figure.at_least(100.0 - TOLERATED));
        }
    }
}
