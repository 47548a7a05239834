//! Compares the events of every node and stream, and the replies to callers, with the log.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use rookery_testkit::daemon::HttpReply;
use rookery_testkit::event_log::{check_single_holder, read_log, seq_of};
use serde_json::Value;

use crate::nodes::Nodes;
use crate::recorder::Recorder;

/// Reads the log, and fails unless all nodes and streams have the same events.
pub async fn read_common_log(nodes: &Nodes, recorders: Vec<Recorder>) -> anyhow::Result<Log> {
    let events = read_log(&nodes[0]).await?;
    for daemon in nodes.iter() {
        let same_log = read_log(daemon).await?;
        // The log may have grown since the first reading.
        ensure!(same_log.starts_with(&events), "{} has another log", daemon.url());
    }
    for recorder in recorders {
        let sent = recorder.events_up_to(events.len()).await?;
        for (sent, event) in sent.iter().zip(&events) {
            ensure!(sent.event()? == *event, "a stream sent {}, the log has {event}", sent.data);
        }
    }
    check_single_holder(&events)?;
    nodes[0].replay_verify()?;
    Log::new(events)
}

/// The log, with the holders of files and tasks at every seq.
#[derive(Debug)]
pub struct Log {
    pub events: Vec<Value>,
    /// The changes of the holder of each file and task, with their seq.
    holders: BTreeMap<String, Vec<(u64, Option<String>)>>,
}

impl Log {
    fn new(events: Vec<Value>) -> anyhow::Result<Log> {
        let mut holders: BTreeMap<String, Vec<(u64, Option<String>)>> = BTreeMap::new();
        for event in &events {
            let (name, holds) = match event["action"].as_str() {
                Some("resource.claimed") => ("resource", true),
                Some("resource.released") => ("resource", false),
                Some("task.assigned") => ("task_id", true),
                Some("task.completed") => ("task_id", false),
                _ => continue,
            };
            let item = event[name].as_str().context("an event without a file or task")?;
            let holder = event["agent_id"].as_str().filter(|_| holds).map(str::to_owned);
            holders.entry(item.to_owned()).or_default().push((seq_of(event)?, holder));
        }
        Ok(Log { events, holders })
    }

    /// The holder of a file or task at a seq.
    pub fn holder_at(&self, item: &str, seq: u64) -> Option<&str> {
        let changes = self.holders.get(item)?;
        changes.iter().take_while(|(at, _)| *at <= seq).last()?.1.as_deref()
    }

    /// The number of claims of a file or task.
    pub fn grants(&self, item: &str) -> usize {
        self.holders.get(item).map_or(0, |changes| changes.iter().filter(|(_, holder)| holder.is_some()).count())
    }

    /// The number of notes with each text, and the seq of the last one.
    pub fn notes(&self) -> anyhow::Result<BTreeMap<&str, (usize, u64)>> {
        let mut found: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event["action"] == "x.note") {
            let note = found.entry(event["metadata"]["text"].as_str().context("a note without a text")?).or_default();
            *note = (note.0 + 1, seq_of(event)?);
        }
        Ok(found)
    }
}

/// The position of a reply in the log.
pub fn position(reply: &HttpReply) -> anyhow::Result<u64> {
    Ok(reply.headers.get("x-rookery-seq").context("the answer has no position")?.to_str()?.parse()?)
}
