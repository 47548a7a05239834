//! `rookery status`

use rookery_client::wire;
use rookery_core::Code;
use serde_json::{Value, json};

use crate::cli::clock::Clock;
use crate::cli::context::{self, Context, Running};
use crate::cli::output::{Cell, Table, TextStyle};

/// Show what is going on
///
/// Never starts a daemon: if none runs, the exit code is 3.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(context: &Context, _args: Args) -> anyhow::Result<()> {
    let running = context::find(&context.project()?).await?;
    let status = match running.client.get(&["status"], &[]).await {
        Err(error) if error.code() == Some(Code::StoreCorrupt.as_str()) => {
            // The probe says more: that nothing is written any more, and what to do.
            running.client.get(&["readyz"], &[]).await?;
            return Err(error.into());
        }
        answer => answer?,
    };
    // Details are for people with the key; the rest is worth showing without them.
    let info = running.client.get(&["admin", "info"], &[]).await.unwrap_or(Value::Null);
    let answer = json!({ "daemon": running.file, "status": status, "info": info });
    context.out.show(&answer, |clock| Ok(table(&running, &status, &info, clock)))
}

fn table(running: &Running, status: &Value, info: &Value, clock: &Clock) -> Table {
    let file = &running.file;
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (agents, tasks, resources) = (&status["agents"], &status["tasks"], &status["resources"]);
    let conflicted = number(&resources["conflicted"]);
    let pair = |name: &str, text: String| vec![Cell::new(name, TextStyle::Dim), Cell::from(text)];
    let mut rows = vec![
        pair("project", status["project"].as_str().unwrap_or_default().to_owned()),
        pair(
            "daemon",
            format!(
                "{}, process {}, version {}, started {}",
                file.url,
                file.pid,
                file.version,
                clock.age(file.started_at)
            ),
        ),
        pair(
            "agents",
            format!(
                "{} of {} active, lead {}",
                number(&agents["active"]),
                number(&agents["total"]),
                agents["lead"].as_str().unwrap_or("nobody")
            ),
        ),
        pair(
            "tasks",
            format!(
                "{}, {} in progress, {} done",
                number(&tasks["total"]),
                number(&tasks["in_progress"]),
                number(&tasks["done"])
            ),
        ),
        vec![
            Cell::new("resources", TextStyle::Dim),
            Cell::new(
                format!(
                    "{}, {} claimed, {conflicted} conflicted",
                    number(&resources["total"]),
                    number(&resources["claimed"])
                ),
                if conflicted > 0 { TextStyle::Bad } else { TextStyle::Plain },
            ),
        ],
        pair("events", number(&status["event_count"]).to_string()),
    ];
    rows.extend(node_rows(status, clock));
    rows.extend(info_rows(info));
    Table { headings: &[], rows, empty: "" }
}

/// A line for each node, where there is more than one.
fn node_rows(status: &Value, clock: &Clock) -> Vec<Vec<Cell>> {
    let nodes: Vec<wire::ListedNode> = wire::read(&status["nodes"]).unwrap_or_default();
    if nodes.len() < 2 {
        return vec![];
    }
    let row = |node: &wire::ListedNode| {
        let away = node.state == "offline";
        let mut text = format!("{} process {}, version {}, {}", node.host, node.pid, node.version, node.site.root);
        if away {
            text.push_str(&format!(", away, last seen {}", clock.age(node.last_seen)));
        }
        if !node.leader_roles.is_empty() {
            text.push_str(&format!(", {}", node.leader_roles.join(" ")));
        }
        if node.this {
            text.push_str(" (this one)");
        }
        vec![
            Cell::new("node", TextStyle::Dim),
            Cell::new(text, if away { TextStyle::Warning } else { TextStyle::Plain }),
        ]
    };
    nodes.iter().map(row).collect()
}

/// What the daemon says of itself that is worth a line, with the warnings last and marked.
fn info_rows(info: &Value) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    if let Some(store) = info["store"].as_str() {
        let writable = if info["writable"] == Value::Bool(false) { ", cannot be written" } else { "" };
        rows.push(vec![Cell::new("store", TextStyle::Dim), Cell::from(format!("{store}{writable}"))]);
    }
    if let (Some(log), Some(head)) = (info["log"].as_str(), info["head"].as_u64()) {
        rows.push(vec![Cell::new("position", TextStyle::Dim), Cell::from(format!("{log}:{head}"))]);
    }
    if let Some(streams) = info["subscriptions"].as_u64() {
        rows.push(vec![Cell::new("streams", TextStyle::Dim), Cell::from(format!("{streams} open"))]);
    }
    for warning in info["warnings"].as_array().into_iter().flatten() {
        rows.push(vec![Cell::new("warning", TextStyle::Warning), Cell::new(brief(warning), TextStyle::Warning)]);
    }
    rows
}

/// A JSON value in few words: `a 1, b two`.
pub(in crate::cli) fn brief(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(brief).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name} {}", brief(value))).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_where_there_is_more_than_one() {
        let node = |host: &str, this: bool, state: &str, duties: &[&str]| {
            json!({
                "id": "node_1", "host": host, "pid": 7, "url": "http://127.0.0.1:4700", "version": "0.1.0",
                "site": { "id": "site_1", "root": "/work" }, "started_at": 0, "last_seen": 0, "state": state,
                "this": this, "leader_roles": duties,
            })
        };
        let clock = Clock::fixed(1_000);
        let one = json!({ "nodes": [node("a", true, "online", &["sweeper"])] });
        assert!(node_rows(&one, &clock).is_empty());
        let two =
            json!({ "nodes": [node("a", true, "online", &["sweeper", "timers"]), node("b", false, "offline", &[])] });
        let texts: Vec<String> = node_rows(&two, &clock).iter().map(|row| format!("{row:?}")).collect();
        assert!(texts[0].contains("a process 7, version 0.1.0, /work, sweeper timers (this one)"), "{texts:?}");
        assert!(texts[1].contains("/work, away, last seen ") && texts[1].contains("Warning"), "{texts:?}");
    }

    #[test]
    fn details_are_shown_in_few_words_and_warnings_last() {
        let info = json!({
            "store": "sqlite:x.db", "writable": false, "log": "log_a", "head": 7, "subscriptions": 2,
            "warnings": ["disk nearly full"],
        });
        let texts: Vec<String> = info_rows(&info).iter().map(|row| format!("{row:?}")).collect();
        assert!(texts[0].contains("sqlite:x.db, cannot be written"), "{texts:?}");
        assert!(texts[1].contains("log_a:7"), "{texts:?}");
        assert!(texts[3].contains("disk nearly full") && texts[3].contains("Warning"), "{texts:?}");
    }
}
