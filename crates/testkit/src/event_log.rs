//! Reads a daemon's log as a client does, and checks it: complete and in order, with at most one holder of everything.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, ensure};
use rookery_core::kernel::event_id;
use serde_json::Value;

use crate::daemon::Daemon;

const PAGE_SIZE: usize = 1_000;

/// Returns all events, oldest first, read page by page. Fails if a seq is missing or appears twice.
pub async fn read_log(daemon: &Daemon) -> anyhow::Result<Vec<Value>> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let reply = daemon.get(&format!("/events?after={}&limit={PAGE_SIZE}", events.len())).await?;
        ensure!(reply.status.is_success(), "cannot read the log: {reply:?}");
        let page = reply.body.as_array().context("the answer is not a list of events")?.clone();
        for event in &page {
            events.push(event.clone());
            let seq = seq_of(event)?;
            ensure!(seq == events.len() as u64, "expected event {}, got {seq}", events.len());
        }
        if page.len() < PAGE_SIZE {
            return Ok(events);
        }
    }
}

/// The seq in an event's id.
pub fn seq_of(event: &Value) -> anyhow::Result<u64> {
    let id = event["id"].as_str().context("an event has no id")?;
    Ok(event_id::parse(id).with_context(|| format!("{id} is not the id of an event"))?.0)
}

/// Fails unless every path and task has at most one holder at every seq, and only its holder releases or completes it.
pub fn check_single_holder(events: &[Value]) -> anyhow::Result<()> {
    let mut holders: HashMap<&str, &str> = HashMap::new();
    for event in events {
        let (Some(path), Some(agent)) = (event["resource"].as_str(), event["agent_id"].as_str()) else { continue };
        match event["action"].as_str() {
            Some("resource.claimed") => {
                let before = holders.insert(path, agent);
                ensure!(before.is_none(), "{path} was claimed by {agent} while {before:?} held it: {event}");
            }
            Some("resource.released") => {
                let before = holders.remove(path);
                ensure!(before == Some(agent), "{agent} released {path}, which {before:?} held: {event}");
            }
            _ => {}
        }
    }
    let mut holders: HashMap<&str, &str> = HashMap::new();
    for event in events {
        let (Some(task), Some(agent)) = (event["task_id"].as_str(), event["agent_id"].as_str()) else { continue };
        match event["action"].as_str() {
            Some("task.assigned") => {
                let before = holders.insert(task, agent);
                ensure!(before.is_none(), "{task} was assigned to {agent} while {before:?} held it: {event}");
            }
            Some("task.completed") => {
                let before = holders.remove(task);
                ensure!(before == Some(agent), "{agent} completed {task}, which {before:?} held: {event}");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Counts the events of one action by the value of a field.
pub fn count_by<'a>(
    events: &'a [Value],
    action: &str,
    field: impl Fn(&'a Value) -> Option<String>,
) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| event["action"] == action) {
        if let Some(value) = field(event) {
            *counts.entry(value).or_default() += 1;
        }
    }
    counts
}
