//! `GET /state` of a large team, beside a bare server that sends the same bytes, and its memory with many readers: all at one
//! position, and while others write.

use std::path::Path;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;
use futures_util::future::try_join_all;

use crate::daemon::Daemon;
use crate::http::{self, Connection};
use crate::report::{Figure, Report};
use crate::rest::HttpClient;
use crate::sample::Client;
use crate::turns::{Runner, rotate, share, slices};
use crate::{Plan, say};

const PATH: &str = "/state";
const CLIENTS: [usize; 2] = [1, 16];
/// The number of readers at once when memory is measured.
const READERS: usize = 64;
/// The number of clients that create the tasks.
const CREATORS: usize = 64;
/// The number of clients that write while memory is measured, their pause between two writes, which keeps the team about as
/// large as it is, and how often each reader reads meanwhile.
const WRITERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(25);
const READS: usize = 4;

const STATE: &str = "GET /state";
const BARE: &str = "bare axum, the same bytes";

/// Serves the bytes of a file until the process ends.
pub(crate) fn serve(file: &Path) -> anyhow::Result<()> {
    let bytes = Bytes::from(std::fs::read(file)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        say::data(format_args!("listening on http://{}", listener.local_addr()?));
        let send = move || {
            let bytes = bytes.clone();
            async { ([(header::CONTENT_TYPE, "application/json")], bytes) }
        };
        axum::serve(listener, axum::Router::new().route(PATH, get(send))).await?;
        Ok(())
    })
}

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scratch = plan.scratch()?;
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = usize::try_from(plan.events / 20)?;
    let root = scratch.path().join("state");
    let daemon = load.block_on(daemon_with(tasks, &root))?;
    let file = scratch.path().join("state.json");
    std::fs::write(&file, load.block_on(read(&daemon))?)?;
    let bare = Daemon::bytes(&file)?;

    let mut runners = Vec::new();
    for clients in CLIENTS {
        runners.push(Runner::crowd(STATE, &load, load.block_on(readers(&daemon, clients))?));
        runners.push(Runner::crowd(BARE, &load, load.block_on(readers(&bare, clients))?));
    }
    rotate(&mut runners, plan)?;
    for runner in &runners {
        report.add(Figure::spread(
            format!("{tasks} tasks, {}", runner.label()),
            runner.spread(|slice| slice.per_second),
            "/s",
        ));
    }
    for clients in CLIENTS {
        let share = share(slices(&runners, STATE, clients), slices(&runners, BARE, clients));
        report.add(Figure::spread(format!("{STATE} / bare axum, {clients} clients"), share, "%").at_least(50.0));
    }
    drop(runners);
    let label = format!("{tasks} tasks: memory added by {READERS} readers of {STATE}");
    let (daemon, added) = load.block_on(memory_with_readers(daemon, &root, Writers::Idle))?;
    report.add(Figure::new(&label, added, "MiB").at_most(150.0));
    let (daemon, added) = load.block_on(memory_with_readers(daemon, &root, Writers::Busy))?;
    report.add(Figure::new(format!("{label} while {WRITERS} clients write"), added, "MiB").at_most(150.0));
    daemon.stop()
}

async fn daemon_with(tasks: usize, root: &Path) -> anyhow::Result<Daemon> {
    std::fs::create_dir(root)?;
    let daemon = Daemon::start(root).await?;
    daemon.announce(CREATORS).await?;
    let mut creators = Vec::new();
    for at in 0..CREATORS {
        creators.push(HttpClient::creating(daemon.address, at).await?);
    }
    let each = tasks / CREATORS + 1;
    let creating = creators.into_iter().map(async |mut creator| {
        for _ in 0..each {
            creator.act().await?;
        }
        anyhow::Ok(())
    });
    try_join_all(creating).await?;
    Ok(daemon)
}

async fn read(daemon: &Daemon) -> anyhow::Result<Vec<u8>> {
    let mut connection = Connection::open(daemon.address).await?;
    Ok(connection.ask(&http::request("GET", PATH, None)).await?.body)
}

async fn readers(daemon: &Daemon, count: usize) -> anyhow::Result<Vec<HttpClient>> {
    let mut readers = Vec::new();
    for _ in 0..count {
        readers.push(HttpClient::getting(daemon.address, PATH).await?);
    }
    Ok(readers)
}

/// Whether others write while readers read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writers {
    Idle,
    /// Readers read several times, nearly always at another position.
    Busy,
}

/// Starts the daemon again, so that nothing is rendered yet, and lets many readers ask at once. Returns the peak of resident
/// memory above its size before.
async fn memory_with_readers(daemon: Daemon, root: &Path, writers: Writers) -> anyhow::Result<(Daemon, f64)> {
    daemon.stop()?;
    let daemon = Daemon::start(root).await?;
    let mut readers = readers(&daemon, READERS).await?;
    let mut creators = Vec::new();
    for at in 0..WRITERS {
        let mut creator = HttpClient::creating(daemon.address, at).await?;
        creator.act().await?;
        creators.push(creator);
    }
    let (before, _) = daemon.memory_mib()?;
    daemon.reset_peak_memory()?;
    match writers {
        Writers::Idle => drop(try_join_all(readers.iter_mut().map(Client::act)).await?),
        Writers::Busy => {
            let writing = try_join_all(creators.iter_mut().map(repeat));
            let reading = try_join_all(readers.iter_mut().map(async |reader| {
                for _ in 0..READS {
                    reader.act().await?;
                }
                anyhow::Ok(())
            }));
            tokio::select! {
                written = writing => drop(written?),
                read = reading => drop(read?),
            }
        }
    }
    let added = daemon.peak_memory_mib()? - before;
    Ok((daemon, added))
}

/// Ends only if the daemon fails.
async fn repeat(creator: &mut HttpClient) -> anyhow::Result<()> {
    loop {
        creator.act().await?;
        tokio::time::sleep(PAUSE).await;
    }
}
