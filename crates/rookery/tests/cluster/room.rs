//! A database with no room for us: tables that somebody else has locked, and no connection left.

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, read};
use rookery_testkit::event_log::read_log;
use rookery_testkit::postgres::{Options, Schema, Server};
use rookery_testkit::wait::eventually;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::nodes::{Nodes, code, note, setup};

/// As many as a node has for reads.
const CONNECTIONS: usize = 8;
const READERS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_somebody_locks_costs_patience_and_no_restart() -> anyhow::Result<()> {
    let schema = std::sync::Arc::new(Schema::new()?);
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    let create =
        |at: usize| nodes[at].request(Method::POST, "/tasks").json(&json!({"title": "t", "assigned_by": "anna"}));
    ensure!(read(create(0)).await?.status == 201);
    // Longer than anybody waits for a lock.
    let locking = tokio::task::spawn_blocking({
        let schema = schema.clone();
        move || schema.psql("BEGIN; LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(14); COMMIT")
    });
    let of_tasks = format!("relation = '{}.tasks'::regclass", schema.name());
    eventually("the table is locked", async || {
        let locks =
            format!("SELECT count(*) FROM pg_locks WHERE {of_tasks} AND mode = 'AccessExclusiveLock' AND granted");
        Ok((answer(&schema, &locks)? == "1").then_some(()))
    })
    .await?;
    let reading: Vec<_> = (0..READERS).map(|_| tokio::spawn(read(nodes[0].request(Method::GET, "/tasks")))).collect();
    eventually("every connection for reads waits for the table", async || {
        let waiting = answer(&schema, &format!("SELECT count(*) FROM pg_locks WHERE {of_tasks} AND NOT granted"))?;
        Ok((waiting.parse::<usize>()? >= CONNECTIONS).then_some(()))
    })
    .await?;
    // The one for writes does not: what is recorded now cannot be shown, and is called anything but undone.
    let recorded = note(&nodes[0], "lead", "meanwhile").await?;
    ensure!(recorded.status == 201 || code(&recorded) == "OUTCOME_UNKNOWN", "{recorded:?}");
    let mut replies: Vec<HttpReply> =
        <[HttpReply; 2]>::from(tokio::try_join!(read(create(0)), read(create(1)))?).into();
    for read in reading {
        replies.push(read.await??);
    }
    let refused = replies.iter().filter(|reply| !reply.status.is_success()).count();
    ensure!(refused > 0, "the lock was in nobody's way");
    replies.iter().try_for_each(is_done_or_to_be_repeated)?;
    // Whoever waits keeps its place all the same: a node that cannot attend would lose its duties to another.
    ensure!(answer(&schema, "SELECT max(epoch) FROM duties")? == "1", "the duties changed hands");
    locking.await??;
    let notes = read_log(&nodes[1]).await?.iter().filter(|event| event["action"] == "x.note").count();
    ensure!(notes == 1, "it was recorded {notes} times");
    for at in 0..2 {
        eventually("tasks are created again", async || Ok((read(create(at)).await?.status == 201).then_some(())))
            .await?;
        ensure!(nodes[at].get("/tasks").await?.status == 200);
        ensure!(nodes[at].get("/readyz").await?.status == 200);
    }
    Ok(())
}

/// The one value that a query tells.
fn answer(schema: &Schema, sql: &str) -> anyhow::Result<String> {
    Ok(schema.psql(sql)?.lines().last().unwrap_or_default().trim().to_owned())
}

fn is_done_or_to_be_repeated(reply: &HttpReply) -> anyhow::Result<()> {
    let repeat = reply.status == 503 && code(reply) == "STORE_UNAVAILABLE" && reply.headers.contains_key("retry-after");
    ensure!(reply.status.is_success() || repeat, "{reply:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_a_free_connection_is_said() -> anyhow::Result<()> {
    let server = Options::fast().setting("max_connections", "24").start()?;
    let daemon = setup().store(server.url()).start()?;
    let create = || daemon.post("/tasks", json!({"title": "t", "assigned_by": "anna"}));
    ensure!(create().await?.status == 201);
    let taken = take_all(&server).await?;
    // At the start.
    let refused = setup().store(server.url()).start().err().context("it started without a connection")?;
    ensure!(format!("{refused:#}").contains("too many clients"), "{refused:#}");
    // At work: those for whom there is a connection are answered, the others know why not.
    let looks = (0..READERS).map(|_| read(daemon.request(Method::GET, "/tasks")));
    let replies = futures_util::future::try_join_all(looks).await?;
    replies.iter().try_for_each(is_done_or_to_be_repeated)?;
    let told = replies.iter().filter(|reply| !reply.status.is_success());
    for reply in told {
        ensure!(reply.body["error"].as_str().is_some_and(|error| error.contains("too many clients")), "{reply:?}");
    }
    // What is open already goes on.
    ensure!(create().await?.status == 201, "the writer has a connection of its own");
    drop(taken);
    eventually("there is room for all", async || {
        let looks = (0..READERS).map(|_| read(daemon.request(Method::GET, "/tasks")));
        let replies = futures_util::future::try_join_all(looks).await?;
        Ok(replies.iter().all(|reply| reply.status == 200).then_some(()))
    })
    .await?;
    drop(setup().store(server.url()).start()?);
    Ok(())
}

/// Opens sessions until the server refuses one.
async fn take_all(server: &Server) -> anyhow::Result<Vec<TcpStream>> {
    let mut taken = Vec::new();
    loop {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await?;
        stream.write_all(&hello()).await?;
        match stream.read_u8().await? {
            // Authenticated; the session is ours until we close it.
            b'R' => taken.push(stream),
            b'E' => return Ok(taken),
            other => anyhow::bail!("the server said {other}"),
        }
    }
}

/// The first message of a session: its length, the version of the protocol, who wants what.
fn hello() -> Vec<u8> {
    let words = b"user\0rookery\0database\0rookery\0\0";
    let length = u32::try_from(8 + words.len()).unwrap_or_default();
    [&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), words].concat()
}
