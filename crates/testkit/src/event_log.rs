//! What a log must be, whatever happened to the daemon: complete and in order, with one holder for everything.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, ensure};
use rookery_core::kernel::event_id;
use serde_json::Value;

use crate::daemon::Daemon;

const PAGE: usize = 1_000;

/// Every event, oldest first, read page by page as a client would. Fails if a seq is missing or comes twice.
pub async fn whole_log(daemon: &Daemon) -> anyhow::Result<Vec<Value>> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let reply = daemon.get(&format!("/events?after={}&limit={PAGE}", events.len())).await?;
        ensure!(reply.status.is_success(), "the log cannot be read: {reply:?}");
        let page = reply.body.as_array().context("no list of events")?.clone();
        for event in &page {
            events.push(event.clone());
            let seq = seq_of(event)?;
            ensure!(seq == events.len() as u64, "event {seq} stands where {} belongs", events.len());
        }
        if page.len() < PAGE {
            return Ok(events);
        }
    }
}

pub fn seq_of(event: &Value) -> anyhow::Result<u64> {
    let id = event["id"].as_str().context("an event without an id")?;
    Ok(event_id::parse(id).with_context(|| format!("{id} leads to no place in the log"))?.0)
}

/// At every seq a path has at most one holder, and only the holder gives it back.
pub fn one_holder_at_a_time(events: &[Value]) -> anyhow::Result<()> {
    let mut holders: HashMap<&str, &str> = HashMap::new();
    for event in events {
        let (Some(path), Some(agent)) = (event["resource"].as_str(), event["agent_id"].as_str()) else { continue };
        match event["action"].as_str() {
            Some("resource.claimed") => {
                let before = holders.insert(path, agent);
                ensure!(before.is_none(), "{path} was given to {agent} while {before:?} held it: {event}");
            }
            Some("resource.released") => {
                let before = holders.remove(path);
                ensure!(before == Some(agent), "{agent} gave {path} back, which {before:?} held: {event}");
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
                ensure!(before.is_none(), "{task} was given to {agent} while {before:?} held it: {event}");
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

/// How often each value of a field occurs among the events of one action.
pub fn counts<'a>(
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
