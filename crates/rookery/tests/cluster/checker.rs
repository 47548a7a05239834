//! Compares what every node shows and what every caller was told with the log.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use rookery_testkit::daemon::HttpReply;
use rookery_testkit::event_log::{check_single_holder, read_log, seq_of};
use serde_json::Value;

use crate::nodes::Nodes;
use crate::record::Recorder;

/// The log as all nodes tell it, by pages and by streams; fails if any of them tells it in another way.
pub async fn one_log(nodes: &Nodes, recorders: Vec<Recorder>) -> anyhow::Result<Log> {
    let events = read_log(&nodes[0]).await?;
    for daemon in nodes.iter() {
        let told = read_log(daemon).await?;
        // What comes after the first reading is compared by the next.
        ensure!(told.starts_with(&events), "{} tells another log", daemon.url());
    }
    for recorder in recorders {
        let sent = recorder.upto(events.len()).await?;
        for (sent, event) in sent.iter().zip(&events) {
            ensure!(sent.event()? == *event, "a stream sent {} and the log says {event}", sent.data);
        }
    }
    check_single_holder(&events)?;
    nodes[0].replay_verify()?;
    Log::new(events)
}

/// The log, with who held what at every place of it.
#[derive(Debug)]
pub struct Log {
    pub events: Vec<Value>,
    /// For each file and task: from which seq on somebody, or nobody, holds it.
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
            let what = event[name].as_str().context("an event about nothing")?;
            let holder = event["agent_id"].as_str().filter(|_| holds).map(str::to_owned);
            holders.entry(what.to_owned()).or_default().push((seq_of(event)?, holder));
        }
        Ok(Log { events, holders })
    }

    /// Who held this file or task at this place of the log.
    pub fn holder_at(&self, what: &str, seq: u64) -> Option<&str> {
        let changes = self.holders.get(what)?;
        changes.iter().take_while(|(at, _)| *at <= seq).last()?.1.as_deref()
    }

    /// How often anybody was given this file or task.
    pub fn grants(&self, what: &str) -> usize {
        self.holders.get(what).map_or(0, |changes| changes.iter().filter(|(_, holder)| holder.is_some()).count())
    }

    /// How often each text was told to the team, with the place of the last time.
    pub fn notes(&self) -> anyhow::Result<BTreeMap<&str, (usize, u64)>> {
        let mut found: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event["action"] == "x.note") {
            let told = found.entry(event["metadata"]["text"].as_str().context("a note without a text")?).or_default();
            *told = (told.0 + 1, seq_of(event)?);
        }
        Ok(found)
    }
}

/// The place of the log at which a reply is true.
pub fn position(reply: &HttpReply) -> anyhow::Result<u64> {
    Ok(reply.headers.get("x-rookery-seq").context("an answer without a position")?.to_str()?.parse()?)
}
