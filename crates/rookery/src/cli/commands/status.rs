//! `rookery status`

use serde_json::{Value, json};

use crate::cli::clock::{Clock, span};
use crate::cli::context::{self, Context, Running};
use crate::cli::output::{Cell, Table, Tone};

/// Show what is going on
///
/// Never starts a daemon: if none runs, the exit code is 3.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(context: &Context, _args: Args) -> anyhow::Result<()> {
    let running = context::find(&context.project()?).await?;
    let status = running.client.get(&["status"], &[]).await?;
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
    let pair = |name: &str, text: String| vec![Cell::new(name, Tone::Dim), Cell::from(text)];
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
            Cell::new("resources", Tone::Dim),
            Cell::new(
                format!(
                    "{}, {} claimed, {conflicted} conflicted",
                    number(&resources["total"]),
                    number(&resources["claimed"])
                ),
                if conflicted > 0 { Tone::Bad } else { Tone::Plain },
            ),
        ],
        pair("events", number(&status["event_count"]).to_string()),
    ];
    rows.extend(info_rows(info));
    Table { headings: &[], rows, empty: "" }
}

/// Whatever details the daemon gives, in its order, with the warnings last and marked.
fn info_rows(info: &Value) -> Vec<Vec<Cell>> {
    let Some(details) = info.as_object() else { return Vec::new() };
    let mut rows = Vec::new();
    for (name, value) in details.iter().filter(|(name, _)| *name != "warnings") {
        let text = match (name.as_str(), value.as_i64()) {
            ("uptime" | "uptime_seconds", Some(seconds)) => span(seconds),
            ("uptime_ms", Some(millis)) => span(millis / 1_000),
            _ => brief(value),
        };
        rows.push(vec![Cell::new(name.replace('_', " "), Tone::Dim), Cell::from(text)]);
    }
    for warning in info["warnings"].as_array().into_iter().flatten() {
        rows.push(vec![Cell::new("warning", Tone::Warning), Cell::new(brief(warning), Tone::Warning)]);
    }
    rows
}

/// A JSON value in few words: `a 1, b two`.
pub(super) fn brief(value: &Value) -> String {
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
    fn details_are_shown_in_few_words_and_warnings_last() {
        let info = json!({
            "store": {"kind": "sqlite", "readonly": false},
            "uptime_seconds": 7_300,
            "warnings": ["disk nearly full"],
            "watcher": null,
        });
        let texts: Vec<String> = info_rows(&info).iter().map(|row| format!("{row:?}")).collect();
        assert_eq!(texts.len(), 4);
        assert!(texts[0].contains("kind sqlite, readonly false"), "{texts:?}");
        assert!(texts[1].contains("2h"), "{texts:?}");
        assert!(texts[3].contains("disk nearly full") && texts[3].contains("Warning"), "{texts:?}");
    }
}
