//! A saturated database: a table that another session has locked, and no free connection.

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

/// A node's connections for reads.
const READ_CONNECTIONS: usize = 8;
const READERS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_table_delays_or_rejects_requests_without_restart() -> anyhow::Result<()> {
    let schema = std::sync::Arc::new(Schema::new()?);
    let nodes = Nodes::start(&[schema.url(), schema.url()]).await?;
    let create =
        |at: usize| nodes[at].request(Method::POST, "/tasks").json(&json!({"title": "t", "assigned_by": "anna"}));
    ensure!(read(create(0)).await?.status == 201);
    // Longer than the timeout of a lock.
    let locking = tokio::task::spawn_blocking({
        let schema = schema.clone();
        move || schema.psql("BEGIN; LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(14); COMMIT")
    });
    let of_tasks = format!("relation = '{}.tasks'::regclass", schema.name());
    eventually("the table to be locked", async || {
        let locks =
            format!("SELECT count(*) FROM pg_locks WHERE {of_tasks} AND mode = 'AccessExclusiveLock' AND granted");
        Ok((query_value(&schema, &locks)? == "1").then_some(()))
    })
    .await?;
    // Pages are read for each reader; the whole list would be read once for all of them.
    let page = |_| tokio::spawn(read(nodes[0].request(Method::GET, "/tasks?limit=1000")));
    let reading: Vec<_> = (0..READERS).map(page).collect();
    eventually("every read connection to wait for the table", async || {
        let waiting = query_value(&schema, &format!("SELECT count(*) FROM pg_locks WHERE {of_tasks} AND NOT granted"))?;
        Ok((waiting.parse::<usize>()? >= READ_CONNECTIONS).then_some(()))
    })
    .await?;
    // The write connection does not wait. A write now may have an unknown outcome, but must not be reported as not applied.
    let recorded = note(&nodes[0], "lead", "meanwhile").await?;
    ensure!(recorded.status == 201 || code(&recorded) == "OUTCOME_UNKNOWN", "{recorded:?}");
    let mut replies: Vec<HttpReply> =
        <[HttpReply; 2]>::from(tokio::try_join!(read(create(0)), read(create(1)))?).into();
    for read in reading {
        replies.push(read.await??);
    }
    let rejected = replies.iter().filter(|reply| !reply.status.is_success()).count();
    ensure!(rejected > 0, "the lock affected no request");
    replies.iter().try_for_each(check_success_or_retry_advice)?;
    // A waiting node keeps its leader roles. One that could not renew its lease would lose them.
    ensure!(query_value(&schema, "SELECT max(epoch) FROM duties")? == "1", "the leader roles changed their holder");
    locking.await??;
    let notes = read_log(&nodes[1]).await?.iter().filter(|event| event["action"] == "x.note").count();
    ensure!(notes == 1, "the note was logged {notes} times");
    for at in 0..2 {
        eventually("tasks to be created again", async || Ok((read(create(at)).await?.status == 201).then_some(())))
            .await?;
        ensure!(nodes[at].get("/tasks").await?.status == 200);
        ensure!(nodes[at].get("/readyz").await?.status == 200);
    }
    Ok(())
}

/// The single value of a query.
fn query_value(schema: &Schema, sql: &str) -> anyhow::Result<String> {
    Ok(schema.psql(sql)?.lines().last().unwrap_or_default().trim().to_owned())
}

fn check_success_or_retry_advice(reply: &HttpReply) -> anyhow::Result<()> {
    let is_retryable =
        reply.status == 503 && code(reply) == "STORE_UNAVAILABLE" && reply.headers.contains_key("retry-after");
    ensure!(reply.status.is_success() || is_retryable, "{reply:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_connections_are_reported_and_recover() -> anyhow::Result<()> {
    let server = Options::fast().setting("max_connections", "24").start()?;
    let daemon = setup().store(server.url()).start()?;
    let create = || daemon.post("/tasks", json!({"title": "t", "assigned_by": "anna"}));
    ensure!(create().await?.status == 201);
    let taken = exhaust_connections(&server).await?;
    // A daemon that starts.
    let error = setup().store(server.url()).start().err().context("the daemon started without a connection")?;
    ensure!(format!("{error:#}").contains("too many clients"), "{error:#}");
    // A daemon that runs: requests with a connection are answered, the others get the reason.
    let reads = (0..READERS).map(|_| read(daemon.request(Method::GET, "/tasks")));
    let replies = futures_util::future::try_join_all(reads).await?;
    replies.iter().try_for_each(check_success_or_retry_advice)?;
    let rejected = replies.iter().filter(|reply| !reply.status.is_success());
    for reply in rejected {
        ensure!(reply.body["error"].as_str().is_some_and(|error| error.contains("too many clients")), "{reply:?}");
    }
    // Open connections continue.
    ensure!(create().await?.status == 201, "the writer must have its own connection");
    drop(taken);
    eventually("connections for all requests", async || {
        let reads = (0..READERS).map(|_| read(daemon.request(Method::GET, "/tasks")));
        let replies = futures_util::future::try_join_all(reads).await?;
        Ok(replies.iter().all(|reply| reply.status == 200).then_some(()))
    })
    .await?;
    drop(setup().store(server.url()).start()?);
    Ok(())
}

/// Opens sessions until the server rejects one.
async fn exhaust_connections(server: &Server) -> anyhow::Result<Vec<TcpStream>> {
    let mut taken = Vec::new();
    loop {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await?;
        stream.write_all(&startup_message()).await?;
        match stream.read_u8().await? {
            // Authenticated: the session stays open until its stream is dropped.
            b'R' => taken.push(stream),
            b'E' => return Ok(taken),
            other => anyhow::bail!("unexpected message {other} from the server"),
        }
    }
}

/// The startup message of a session: its length, the protocol version, the user and the database.
fn startup_message() -> Vec<u8> {
    let parameters = b"user\0rookery\0database\0rookery\0\0";
    let length = u32::try_from(8 + parameters.len()).unwrap_or_default();
    [&length.to_be_bytes()[..], &196_608_u32.to_be_bytes(), parameters].concat()
}
