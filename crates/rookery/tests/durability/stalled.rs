//! Clients that do not do their part are let go, and every limit says which one it was.

use anyhow::{Context, ensure};
use rookery_testkit::daemon::Daemon;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::wire::{
    Follower, ReceiveBuffer, announce, code, connect, create_task, eventually, half_a_request, read_to_end, report,
    within,
};

/// How many streams are open, as the daemon counts them.
async fn subscriptions(daemon: &Daemon) -> anyhow::Result<u64> {
    daemon.get("/admin/info").await?.body["subscriptions"].as_u64().context("no count of streams")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_reads_is_cut_off() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_WRITE_TIMEOUT", "1s").start()?;
    announce(&daemon, "writer").await?;
    let mut reader = Follower::open(daemon.url(), "", None).await?;
    let mut never = Vec::new();
    for _ in 0..3 {
        never.push(Follower::request(daemon.url(), "", None, ReceiveBuffer::Small).await?);
    }
    let all = |count| async move { (count == 4).then_some(()) };
    eventually("four streams", || async { Ok(all(subscriptions(&daemon).await?).await) }).await?;
    // More than the system's buffers of a connection hold.
    let writing = async {
        for _ in 0..200 {
            ensure!(report(&daemon, "writer", 60_000).await?.status.as_u16() == 201);
        }
        anyhow::Ok(())
    };
    let reading = async {
        for _ in 0..200 {
            reader.next().await?.context("the reader was cut off")?;
        }
        anyhow::Ok(())
    };
    within("all is written and read", async { tokio::try_join!(writing, reading) }).await??;
    let one_left = || async { Ok((subscriptions(&daemon).await? == 1).then_some(())) };
    eventually("those who never read are gone", one_left).await?;
    drop(never);
    Ok(())
}

#[tokio::test]
async fn who_does_not_send_its_request_is_let_go() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_HEADER_TIMEOUT", "300ms").start()?;
    // Nothing, the beginning of a head, and the beginning of what opens HTTP/2.
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
async fn a_body_that_never_comes_is_not_waited_for() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_REQUEST_TIMEOUT", "300ms").start()?;
    let mut stream = half_a_request(daemon.url(), "a").await?;
    let mut answer = vec![0; 4_096];
    let length = within("an answer", stream.read(&mut answer)).await??;
    let answer = String::from_utf8_lossy(&answer[..length]);
    ensure!(answer.starts_with("HTTP/1.1 408") && answer.contains("TIMEOUT"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn streams_are_counted_and_the_fourth_is_told_so() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_MAX_SUBSCRIPTIONS", "3").start()?;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(Follower::open(daemon.url(), "", None).await?);
    }
    let refused = daemon.get("/events/stream").await?;
    ensure!(refused.status.as_u16() == 503 && code(&refused) == "TOO_MANY_SUBSCRIBERS", "{refused:?}");
    ensure!(refused.headers.contains_key("retry-after"), "{refused:?}");
    open.pop();
    let room = || async { Ok(Follower::open(daemon.url(), "", None).await.ok()) };
    eventually("a place that was given back", room).await?;
    Ok(())
}

#[tokio::test]
async fn connections_are_counted_and_one_too_many_is_told_so() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_MAX_CONNECTIONS", "2").start()?;
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(Follower::open(daemon.url(), "", None).await?);
    }
    let refused = daemon.get("/status").await.context("a refusal is an answer")?;
    ensure!(refused.status.as_u16() == 503 && code(&refused) == "TOO_MANY_CONNECTIONS", "{refused:?}");
    ensure!(refused.headers.contains_key("retry-after"), "{refused:?}");
    open.pop();
    let served = || async { Ok(daemon.get("/status").await.ok().filter(|reply| reply.status.is_success())) };
    eventually("a connection that was given back", served).await?;
    Ok(())
}

#[tokio::test]
async fn an_agent_has_so_many_requests_under_way_and_others_are_not_concerned() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_MAX_IN_FLIGHT_PER_AGENT", "2").start()?;
    let ask = |agent: &'static str| daemon.request(reqwest::Method::GET, "/status").header("X-Agent-Id", agent);
    let open = tokio::sync::Mutex::new(Vec::new());
    let limited = || async {
        // The question takes a place, too, and may be the reason that one of these got none.
        open.lock().await.push(half_a_request(daemon.url(), "busy").await?);
        let reply = rookery_testkit::daemon::read(ask("busy")).await?;
        Ok((reply.status.as_u16() == 429).then_some(reply))
    };
    let refused = eventually("so many requests are under way", limited).await?;
    ensure!(code(&refused) == "TOO_MANY_REQUESTS" && refused.headers.contains_key("retry-after"), "{refused:?}");
    let other = rookery_testkit::daemon::read(ask("calm")).await?;
    ensure!(other.status.is_success(), "{other:?}");
    drop(open);
    let served = || async {
        Ok(Some(rookery_testkit::daemon::read(ask("busy")).await?).filter(|reply| reply.status.is_success()))
    };
    eventually("the places are given back", served).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_said_and_nothing_is_done() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_QUEUE_COMMANDS", "1").start()?;
    let (mut created, mut busy, mut round) = (0, 0, 0);
    while busy == 0 || created == 0 {
        round += 1;
        ensure!(round <= 50, "{created} were created and none found the queue full");
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
    ensure!(listed.as_array().map(Vec::len) == Some(created), "{created} were acknowledged, there are {listed}");
    Ok(())
}

/// Events that a filter keeps back are no sign of life on its stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filtered_stream_shows_that_it_is_alive_while_others_are_busy() -> anyhow::Result<()> {
    let daemon = crate::daemon().env("ROOKERY_STREAM_KEEP_ALIVE", "500ms").start()?;
    announce(&daemon, "writer").await?;
    let mut follower = Follower::open(daemon.url(), "?agent_id=nobody-like-this", None).await?;
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
        alive = within("a sign of life", alive) => alive?,
    }
}
