//! Channel and inbox.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Room, list, names, text, typed};
use crate::cli::output::{Cell, Table, TextStyle};
use crate::config::parse_duration;

/// What answering takes when the waiting is over.
const SLACK: Duration = Duration::from_secs(30);

/// Say something to the team; @name puts it into that agent's inbox
#[derive(Debug, clap::Args)]
pub struct Send {
    /// What to say; - reads it from stdin
    #[arg(allow_hyphen_values = true)]
    message: String,

    /// Send to this agent alone, not to the channel
    #[arg(long, value_name = "ID")]
    to: Option<String>,
}

/// Read the channel and acknowledge the mentions of you that are shown
#[derive(Debug, clap::Args)]
pub struct Read {
    /// Only what was said after this time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Only what was said before this time
    #[arg(long, value_name = "TIME")]
    before: Option<String>,

    /// At most so many entries, the newest
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
}

/// Look at the channel without acknowledging anything
#[derive(Debug, clap::Args)]
pub struct Peek {
    /// Only what was said before this time
    #[arg(long, value_name = "TIME")]
    before: Option<String>,

    /// At most so many entries, the newest
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub struct Inbox {
    /// Leave them unread
    #[arg(long)]
    peek: bool,

    /// At most so many, those that you have not seen first
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<u32>,
}

/// Acknowledge the messages of your inbox that you were shown
#[derive(Debug, clap::Args)]
pub struct Ack {
    /// Up to this time or message id, inclusive
    until: String,
}

/// Wait until there is a message for you, and show it
#[derive(Debug, clap::Args)]
pub struct Wait {
    /// At most so long; ten minutes at most
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    timeout: Duration,
}

/// Show where each recipient of a message stands
#[derive(Debug, clap::Args)]
pub struct Status {
    /// The message's id
    id: String,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a time such as 30s or 5m".into())
}

pub(super) async fn send(room: &Room<'_>, send: Send) -> anyhow::Result<()> {
    let message = typed(send.message)?;
    let arguments = json!({"message": message.trim_end_matches(['\r', '\n']), "to": send.to});
    room.said(&room.call("channel_send", arguments).await?)
}

pub(super) async fn read(room: &Room<'_>, read: Read) -> anyhow::Result<()> {
    entries(room, "channel_read", json!({"since": read.since, "before": read.before, "limit": read.limit})).await
}

pub(super) async fn peek(room: &Room<'_>, peek: Peek) -> anyhow::Result<()> {
    entries(room, "channel_peek", json!({"before": peek.before, "limit": peek.limit})).await
}

async fn entries(room: &Room<'_>, tool: &str, arguments: Value) -> anyhow::Result<()> {
    let answer = room.call(tool, arguments).await?;
    room.show(&answer, || {
        let entries = list(&answer.value["entries"]);
        if entries.is_empty() {
            room.context.out.note("nothing was said");
        }
        entries.iter().try_for_each(|entry| shown(room, entry, ""))
    })
}

pub(super) async fn inbox(room: &Room<'_>, inbox: Inbox) -> anyhow::Result<()> {
    let tool = if inbox.peek { "inbox_peek" } else { "inbox_check" };
    let answer = room.call(tool, json!({"limit": inbox.limit})).await?;
    room.show(&answer, || waiting(room, &answer.value, "nothing waits for you"))
}

pub(super) async fn wait(room: &Room<'_>, wait: Wait) -> anyhow::Result<()> {
    let arguments = json!({"timeout_seconds": wait.timeout.as_secs_f64()});
    let answer = room.tools.call_within(wait.timeout.saturating_add(SLACK), "inbox_wait", arguments).await?;
    room.notes(&answer);
    room.show(&answer, || waiting(room, &answer.value, "nothing came"))
}

fn waiting(room: &Room<'_>, value: &Value, nothing: &str) -> anyhow::Result<()> {
    let messages = list(&value["messages"]);
    if messages.is_empty() {
        room.context.out.note(nothing);
    }
    messages.iter().try_for_each(|message| {
        let urgent = if message["priority"] == "high" { " high priority" } else { "" };
        let envelope = &message["envelope"];
        let about = [&envelope["type"], &envelope["task_id"]].into_iter().filter_map(Value::as_str);
        let besides: String = about.fold(urgent.to_owned(), |besides, word| format!("{besides} {word}"));
        shown(room, &message["entry"], &besides)?;
        envelope["next"].as_str().into_iter().for_each(|next| room.context.out.note(next));
        Ok(())
    })
}

/// An entry as the channel's file shows it, with what one needs to acknowledge it.
fn shown(room: &Room<'_>, entry: &Value, besides: &str) -> anyhow::Result<()> {
    let (at, from, id) = (text(&entry["timestamp"]), text(&entry["from"]), text(&entry["id"]));
    let to = entry.get("to").map(|to| format!(" to {}", names(to))).unwrap_or_default();
    room.block(&format!("### {at} [{from}]{to}{besides} {id}"), text(&entry["message"]))
}

pub(super) async fn ack(room: &Room<'_>, ack: Ack) -> anyhow::Result<()> {
    room.said(&room.call("inbox_ack", json!({"until": ack.until})).await?)
}

pub(super) async fn status(room: &Room<'_>, status: Status) -> anyhow::Result<()> {
    let answer = room.call("message_status", json!({"id": status.id})).await?;
    room.context.out.show(&answer.value, |_| Ok(standings(&answer.value)))
}

fn standings(status: &Value) -> Table {
    let row = |one: &Value| {
        let word = text(&one["status"]);
        let tone = match word {
            "acked" => TextStyle::Good,
            "held" | "expired" | "discarded" => TextStyle::Bad,
            _ => TextStyle::Plain,
        };
        let time = |name: &str| one[name].as_str().unwrap_or("-").to_owned();
        vec![
            text(&one["agent_id"]).into(),
            Cell::new(word, tone),
            one["notified"].to_string().into(),
            time("read_at").into(),
            time("acked_at").into(),
        ]
    };
    Table {
        headings: &["AGENT", "STATUS", "NOTIFIED", "READ", "ACKED"],
        rows: list(&status["recipients"]).iter().map(row).collect(),
        empty: "it is for nobody in particular",
    }
}
