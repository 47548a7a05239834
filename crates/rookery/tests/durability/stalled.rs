//! Timeouts and limits for clients that stall or send too much. Every rejection names its limit.

use anyhow::{Context, ensure};
use rookery_testkit::daemon::Daemon;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::wire::{
    Follower, ReceiveBuffer, announce, code, connect, create_task, eventually, read_to_end, report,
    send_unfinished_request, within,
};

/// The daemon's count of open streams.
async fn subscriptions(daemon: &Daemon) -> anyhow::Result<u64> {
    daemon.get("/admin/info").await?.body["subscriptions"].as_u64().context("no count of streams")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_reader_is_disconnected_after_write_timeout() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_WRITE_TIMEOUT", "1s").start()?;
    announce(&daemon, "writer").await?;
    let mut reader = Follower::open(daemon.url(), "", None).await?;
    let mut never = Vec::new();
    for _ in 0..3 {
        never.push(Follower::request(daemon.url(), "", None, ReceiveBuffer::Small).await?);
    }
    let all = |count| async move { (count == 4).then_some(()) };
    eventually("four streams", || async { Ok(all(subscriptions(&daemon).await?).await) }).await?;
    // More than the system's socket buffers hold.
    let writing = async {
        for _ in 0..200 {
            ensure!(report(&daemon, "writer", 60_000).await?.status.as_u16() == 201);
        }
        anyhow::Ok(())
    };
    let reading = async {
        for _ in 0..200 {
            reader.next().await?.context("the reader was disconnected")?;
        }
        anyhow::Ok(())
    };
    within("all events to be written and read", async { tokio::try_join!(writing, reading) }).await??;
    let one_left = || async { Ok((subscriptions(&daemon).await? == 1).then_some(())) };
    eventually("the stalled readers to be disconnected", one_left).await?;
    drop(never);
    Ok(())
}

#[tokio::test]
async fn client_without_request_is_closed_after_header_timeout() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_HEADER_TIMEOUT", "300ms").start()?;
    // Nothing, an unfinished head, and an unfinished HTTP/2 preface.
    for sent in ["", "GET /status HTTP/1.1\r\nHost: 127", "PRI * HTTP/2"] {
        let mut stream = connect(daemon.url(), ReceiveBuffer::Default).await?;
        stream.write_all(sent.as_bytes()).await?;
        let answer = read_to_end(&mut stream).await.with_context(|| format!("after {sent:?}"))?;
        ensure!(!answer.contains("200 OK"), "{answer}");
    }
    ensure!(daemon.get("/status").await?.status.is_success());
    Ok(())
}

#[tokio::test]
async fn unfinished_body_is_answered_after_request_timeout() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_REQUEST_TIMEOUT", "300ms").start()?;
    let mut stream = send_unfinished_request(daemon.url(), "a").await?;
    let mut answer = vec![0; 4_096];
    let length = within("an answer", stream.read(&mut answer)).await??;
    let answer = String::from_utf8_lossy(&answer[..length]);
    ensure!(answer.starts_with("HTTP/1.1 408") && answer.contains("TIMEOUT"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn stream_above_limit_is_rejected() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_MAX_SUBSCRIPTIONS", "3").start()?;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(Follower::open(daemon.url(), "", None).await?);
    }
    let rejected = daemon.get("/events/stream").await?;
    ensure!(rejected.status.as_u16() == 503 && code(&rejected) == "TOO_MANY_SUBSCRIBERS", "{rejected:?}");
    ensure!(rejected.headers.contains_key("retry-after"), "{rejected:?}");
    open.pop();
    let reopened = || async { Ok(Follower::open(daemon.url(), "", None).await.ok()) };
    eventually("a free stream", reopened).await?;
    Ok(())
}

#[tokio::test]
async fn connection_above_limit_is_rejected() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_MAX_CONNECTIONS", "2").start()?;
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(Follower::open(daemon.url(), "", None).await?);
    }
    let rejected = daemon.get("/status").await.context("the rejection must be an answer")?;
    ensure!(rejected.status.as_u16() == 503 && code(&rejected) == "TOO_MANY_CONNECTIONS", "{rejected:?}");
    ensure!(rejected.headers.contains_key("retry-after"), "{rejected:?}");
    open.pop();
    let served = || async { Ok(daemon.get("/status").await.ok().filter(|reply| reply.status.is_success())) };
    eventually("a free connection", served).await?;
    Ok(())
}

#[tokio::test]
async fn agent_above_limit_of_concurrent_requests_is_rejected_alone() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_MAX_IN_FLIGHT_PER_AGENT", "2").start()?;
    let ask = |agent: &'static str| daemon.request(reqwest::Method::GET, "/status").header("X-Agent-Id", agent);
    let open = tokio::sync::Mutex::new(Vec::new());
    let limited = || async {
        // The request that asks counts too, and may have taken the place of one of these.
        open.lock().await.push(send_unfinished_request(daemon.url(), "busy").await?);
        let reply = rookery_testkit::daemon::read(ask("busy")).await?;
        Ok((reply.status.as_u16() == 429).then_some(reply))
    };
    let rejected = eventually("the limit of concurrent requests", limited).await?;
    ensure!(code(&rejected) == "TOO_MANY_REQUESTS" && rejected.headers.contains_key("retry-after"), "{rejected:?}");
    let other = rookery_testkit::daemon::read(ask("calm")).await?;
    ensure!(other.status.is_success(), "{other:?}");
    drop(open);
    let served = || async {
        Ok(Some(rookery_testkit::daemon::read(ask("busy")).await?).filter(|reply| reply.status.is_success()))
    };
    eventually("the requests to end", served).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_queue_rejects_without_a_trace() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_QUEUE_COMMANDS", "1").start()?;
    let (mut created, mut busy, mut round) = (0, 0, 0);
    while busy == 0 || created == 0 {
        round += 1;
        ensure!(round <= 50, "{created} were created, and the queue was never full");
        let titles: Vec<String> = (0..32).map(|number| format!("{round}-{number}")).collect();
        let many = titles.iter().map(|title| create_task(&daemon, title));
        for reply in within("answers", futures_util::future::join_all(many)).await? {
            let reply = reply?;
            match (reply.status.as_u16(), code(&reply)) {
                (201, _) => created += 1,
                (503, "BUSY") if reply.headers.contains_key("retry-after") => busy += 1,
                other => anyhow::bail!("{other:?}: {reply:?}"),
            }
        }
    }
    let listed = daemon.get("/tasks").await?.body;
    ensure!(listed.as_array().map(Vec::len) == Some(created), "{created} were acknowledged, the tasks are {listed}");
    Ok(())
}

/// Events that a filter excludes do not replace the keep-alive of the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filtered_stream_sends_keep_alive_under_load() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_STREAM_KEEP_ALIVE", "500ms").start()?;
    announce(&daemon, "writer").await?;
    let mut follower = Follower::open(daemon.url(), "?agent_id=unknown-agent", None).await?;
    let writing = async {
        loop {
            report(&daemon, "writer", 10).await?;
        }
    };
    let alive = async {
        loop {
            let line = follower.line().await?.context("the stream ended")?;
            if line == ": keep-alive\n" {
                return anyhow::Ok(());
            }
        }
    };
    let writing: std::pin::Pin<Box<dyn Future<Output = anyhow::Result<Value>> + Send + '_>> = Box::pin(writing);
    tokio::select! {
        ended = writing => ended.map(drop),
        alive = within("a keep-alive", alive) => alive?,
    }
}
