//! Benchmarks: the limits of the machine, our figures beside them, and the promised ratios.
//!
//! | part | question |
//! |---|---|
//! | `create` | the cost of durable task creation beside a bare SQLite writer and a bare HTTP server |
//! | `ingest` | the cost of an envelope beside a bare SQLite writer, alone and 500 at a time |
//! | `fanout` | whether a thousand subscribers receive everything in time, and their cost for the writers |
//! | `stream` | the same over sockets, with 200 event streams |
//! | `websocket` | the same by WebSocket, beside a bare server that stores nothing |
//! | `replay` | how quickly a long log is read back as messages |
//! | `reads` | whether a long log is as quick to read as a short one |
//! | `state` | whether `/state` of 50,000 tasks is sent as quickly as a bare server sends the same bytes, and the memory for 64 readers |
//! | `daemon` | the daemon's start time and memory |
//! | `mcp` | the cost of tool calls beside a bare server of the same SDK, and a durable write beside REST |
//! | `routing` | the time of a routing decision among 10, 1,000 and 10,000 agents |
//! | `runner` | how quickly scripted agents answer each other, in ever larger teams |
//! | `postgres` | PostgreSQL beside SQLite, with one, two and four daemons |
//!
//! Absolute figures are this machine's. Compared parts run interleaved in short slices, and ratios are taken within a
//! round: see `docs/performance.md`.

mod create;
mod daemon;
mod data;
mod fanout;
mod follower;
mod http;
mod ingest;
mod machine;
mod mcp;
mod memory;
mod postgres;
mod raw;
mod reads;
mod replay;
mod report;
mod rest;
mod rival;
mod routing;
mod runner;
mod sample;
mod say;
mod state;
mod stopwatch;
mod stream;
mod turns;
mod websocket;
mod work;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};

use crate::report::Report;

#[derive(Debug, Parser)]
#[command(about = "Measures Rookery beside what this machine can do at best")]
struct Args {
    /// A short run, to see that everything works; its figures mean little
    #[arg(long)]
    quick: bool,

    /// How many interleaved rounds to measure
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// Run only this part
    #[arg(long, value_name = "NAME")]
    only: Option<Part>,

    /// Only compare the daemon with another build of it: rates, start and memory
    #[arg(long, value_name = "PROGRAM", conflicts_with = "only")]
    rival: Option<PathBuf>,

    /// With `--rival`: count instructions under valgrind instead of measuring time
    #[arg(long, requires = "rival")]
    instructions: bool,

    /// Leave the results folder as it is
    #[arg(long)]
    no_save: bool,

    #[command(subcommand)]
    helper: Option<Helper>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Create,
    Ingest,
    Fanout,
    Stream,
    Websocket,
    Replay,
    Reads,
    State,
    Daemon,
    Mcp,
    Routing,
    Runner,
    Postgres,
}

/// The helper processes of a run.
#[derive(Debug, Subcommand)]
enum Helper {
    /// Serve the bare HTTP server that is compared with
    #[command(hide = true)]
    Echo,

    /// Serve the bare MCP server that is compared with
    #[command(hide = true)]
    McpEcho,

    /// Serve the bare WebSocket server that is compared with
    #[command(hide = true)]
    WsEcho,

    /// Serve the bytes of a file, to compare with
    #[command(hide = true)]
    Bytes { file: PathBuf },
}

/// The extent of the measurement.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// The duration of one slice of a round.
    pub(crate) slice: Duration,
    /// The duration of a steady load.
    pub(crate) steady: Duration,
    /// The number of events in the long log.
    pub(crate) events: u64,
    /// The folder for files, on the measured disk.
    pub(crate) folder: PathBuf,
}

impl Plan {
    fn of(args: &Args) -> Plan {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data");
        let millis = Duration::from_millis;
        if args.quick {
            let rounds = args.rounds.unwrap_or(3);
            return Plan { rounds, slice: millis(150), steady: millis(1_000), events: 100_000, folder };
        }
        let rounds = args.rounds.unwrap_or(9);
        Plan { rounds, slice: millis(400), steady: millis(3_000), events: 1_000_000, folder }
    }

    /// Creates a folder on the measured disk that is removed in the end.
    pub(crate) fn scratch(&self) -> anyhow::Result<tempfile::TempDir> {
        std::fs::create_dir_all(&self.folder)?;
        tempfile::Builder::new().prefix("run-").tempdir_in(&self.folder).context("cannot make a scratch folder")
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match &args.helper {
        Some(Helper::Echo) => return create::echo::serve(),
        Some(Helper::McpEcho) => return mcp::echo::serve(),
        Some(Helper::WsEcho) => return websocket::bare::serve(),
        Some(Helper::Bytes { file }) => return state::serve(file),
        None => {}
    }
    let plan = Plan::of(&args);
    let mut report = Report::default();
    if let Some(program) = &args.rival {
        match args.instructions {
            true => rival::count_instructions(&plan, program, &mut report)?,
            false => rival::run(&plan, program, &mut report)?,
        }
        say::data(report.table());
        return Ok(());
    }
    let wanted = |part| args.only.is_none_or(|only| only == part);
    if wanted(Part::Create) {
        say::heading("durable task creation");
        create::run(&plan, &mut report)?;
    }
    if wanted(Part::Ingest) {
        say::heading("taking in envelopes");
        ingest::run(&plan, &mut report)?;
    }
    if wanted(Part::Fanout) {
        say::heading("fan-out in the process");
        fanout::run(&plan, &mut report)?;
    }
    if wanted(Part::Stream) {
        say::heading("event streams");
        stream::run(&plan, &mut report)?;
    }
    if wanted(Part::Websocket) {
        say::heading("WebSockets");
        websocket::run(&plan, &mut report)?;
    }
    if wanted(Part::Replay) {
        say::heading("replay of a long log");
        replay::run(&plan, &mut report)?;
    }
    if wanted(Part::Reads) {
        say::heading("reads in a long log");
        reads::run(&plan, &mut report)?;
    }
    if wanted(Part::State) {
        say::heading("the state of a large team");
        state::run(&plan, &mut report)?;
    }
    if wanted(Part::Daemon) {
        say::heading("start and memory");
        memory::run(&plan, &mut report)?;
    }
    if wanted(Part::Mcp) {
        say::heading("tools over MCP");
        mcp::run(&plan, &mut report)?;
    }
    if wanted(Part::Routing) {
        say::heading("choosing who does a task");
        routing::run(&plan, &mut report)?;
    }
    if wanted(Part::Runner) {
        say::heading("teams of scripted agents");
        runner::run(&plan, &mut report)?;
    }
    if wanted(Part::Postgres) {
        say::heading("PostgreSQL beside SQLite");
        match postgres::available() {
            Ok(()) => postgres::run(&plan, &mut report)?,
            Err(missing) if args.only.is_none() => say::note(format_args!("skipped: {missing}")),
            Err(missing) => return Err(missing),
        }
    }
    say::data(report.table());
    if !args.no_save {
        let results = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("results");
        let saved = report.save(&results, &machine::read_info(&plan.folder)?)?;
        say::note(format_args!("saved as results/{saved}"));
    }
    Ok(())
}
