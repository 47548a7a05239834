//! A reader that resumes from its last id sees every event once and in order, across crashes of the daemon.

use std::time::Duration;

use anyhow::ensure;
use rookery_testkit::daemon;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::store_checks::read_log;
use crate::wire::{Follower, StreamEvent, announce, within};

const CRASHES: u64 = 6;
const WRITERS: usize = 4;
/// New events between two crashes.
const EVENTS_PER_CRASH: u64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_resumes_after_crash_without_gap_or_duplicate() -> anyhow::Result<()> {
    let mut daemon = crate::daemon().start()?;
    let (address, url) = watch::channel(daemon.url().to_owned());
    let (seen, mut progress) = watch::channel(0_u64);
    let stop = watch::Sender::new(false);
    for writer in 0..WRITERS {
        announce(&daemon, &format!("writer-{writer}")).await?;
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(writer, url.clone(), stop.subscribe()));
    }
    let (end, ends_at) = watch::channel(None);
    let following = tokio::spawn(follow(url, seen, ends_at));
    for crash in 1..=CRASHES {
        within("the follower to catch up", progress.wait_for(|seq| *seq >= crash * EVENTS_PER_CRASH)).await??;
        daemon.kill()?;
        daemon.restart()?;
        address.send_replace(daemon.url().to_owned());
    }
    within("the follower to catch up", progress.wait_for(|seq| *seq >= (CRASHES + 1) * EVENTS_PER_CRASH)).await??;
    stop.send_replace(true);
    while let Some(ended) = within("the writers to end", writers.join_next()).await? {
        ended??;
    }
    let log = read_log(&daemon).await?;
    end.send_replace(Some(log.len() as u64));
    let followed = within("the follower to finish", following).await???;
    ensure!(followed.len() == log.len(), "{} events were received, the log has {}", followed.len(), log.len());
    for (sent, event) in followed.iter().zip(&log) {
        ensure!(sent.event()? == *event, "the stream sent {}, the log has {event}", sent.data);
    }
    Ok(())
}

/// Follows the stream from the beginning up to the seq in `end`, which is set last.
async fn follow(
    mut url: watch::Receiver<String>,
    seen: watch::Sender<u64>,
    mut end: watch::Receiver<Option<u64>>,
) -> anyhow::Result<Vec<StreamEvent>> {
    let mut followed: Vec<StreamEvent> = Vec::new();
    loop {
        let address = url.borrow_and_update().clone();
        let last = followed.last().map_or_else(|| "0".to_owned(), |sent| sent.id.clone());
        let Ok(mut follower) = Follower::open(&address, "", Some(&last)).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        loop {
            let here = followed.len() as u64;
            if *end.borrow_and_update() == Some(here) {
                return Ok(followed);
            }
            let sent = tokio::select! {
                sent = follower.next() => sent?,
                _ = end.changed() => continue,
            };
            let Some(sent) = sent else { break };
            ensure!(sent.seq == here + 1, "got {} after {here}", sent.seq);
            seen.send_replace(sent.seq);
            followed.push(sent);
        }
    }
}

async fn write(writer: usize, url: watch::Receiver<String>, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let http = daemon::client()?;
    let body = json!({"agent_id": format!("writer-{writer}"), "action": "x.tick"});
    while !*stop.borrow() {
        let request = http.post(format!("{}/events", *url.borrow())).json(&body);
        if daemon::read(request).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(())
}
