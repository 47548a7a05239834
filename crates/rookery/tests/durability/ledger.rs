//! What a log must be, whatever happened to the daemon: complete, in order, and the ground of every derived row.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, ensure};
use rookery_core::log::event_id;
use rookery_core::{Seq, Table};
use rookery_store::replay::Fold;
use rookery_store::sqlite::Reader;
use rookery_store::{ListQuery, LogQuery};
use rookery_testkit::daemon::Daemon;
use serde_json::Value;

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

/// The derived rows and tallies of a store that nobody writes are the fold of its log.
pub async fn verify(root: &Path) -> anyhow::Result<()> {
    let reader = Reader::open(&root.join(".rookery/rookery.db"), 1)?;
    let mut fold = Fold::default();
    let head = loop {
        let (rows, head) = reader.log(LogQuery::after(fold.upto(), 1_000)).await?;
        if rows.is_empty() {
            break head;
        }
        for row in &rows {
            ensure!(row.seq == fold.upto().next(), "{} stands where {} belongs", row.seq, fold.upto().next());
            fold.add(row);
        }
    };
    ensure!(head.head == fold.upto() && head.floor == Seq(1), "the head row says {head:?}");
    let keys: Vec<_> = fold.rows().keys().cloned().collect();
    let (stored, _) = reader.rows(keys.clone()).await?;
    let stored: HashMap<_, _> = keys.into_iter().zip(stored).filter_map(|(key, row)| Some((key, row?))).collect();
    let (tallies, _) = reader.tallies().await?;
    let differences = fold.differences(&stored, &tallies);
    ensure!(differences.is_empty(), "the rows are not the fold of the log: {differences:#?}");
    for table in Table::ALL {
        let (rows, _) = reader.list(ListQuery::all(table)).await?;
        let folded = fold.rows().keys().filter(|key| key.table() == table).count();
        ensure!(rows.len() == folded, "{table:?} has {} rows and should have {folded}", rows.len());
    }
    verify_by_command(root)
}

/// The same by the program's own word.
fn verify_by_command(root: &Path) -> anyhow::Result<()> {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    let output = command.args(["replay", "--verify", "--dir"]).arg(root).env_remove("ROOKERY_DIR").output()?;
    ensure!(output.status.success(), "rookery replay --verify: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
