//! Coordination messages and presence.

use serde_json::{Value, json};

use super::{Room, list, text, typed};
use crate::cli::output::{Cell, Table, TextStyle};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the messages that you have not acknowledged
    Check {
        /// At most so many, those that you have not seen first
        #[arg(long, short = 'n', value_name = "N")]
        limit: Option<u32>,
    },
    /// Acknowledge a message that you have dealt with
    Ack {
        /// The message's id
        id: String,
    },
    Publish(Publish),
}

/// Send a message that stays pending for each recipient until it acknowledges it
#[derive(Debug, clap::Args)]
pub struct Publish {
    /// What kind of message it is, such as BLOCKING_ISSUE
    #[arg(value_name = "TYPE")]
    topic: String,

    /// What it is about, in a line
    subject: String,

    /// What the recipients need to know; - reads it from stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,

    /// Whom it is for: an agent's id, more than once for several, or all
    #[arg(long, value_name = "ID", default_value = "all")]
    to: Vec<String>,

    /// Nobody has to acknowledge it
    #[arg(long)]
    no_ack: bool,
}

pub(super) async fn run(room: &Room<'_>, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Check { limit } => check(room, limit).await,
        Command::Ack { id } => {
            let answer = room.call("coord_ack_message", json!({"message_id": id})).await?;
            room.context.out.done(&answer.value, &format!("{id} is acknowledged"))
        }
        Command::Publish(publish) => send(room, publish).await,
    }
}

async fn check(room: &Room<'_>, limit: Option<u32>) -> anyhow::Result<()> {
    let answer = room.call("coord_check_messages", json!({"limit": limit})).await?;
    room.show(&answer, || {
        let pending = list(&answer.value["pending"]);
        if pending.is_empty() {
            room.context.out.note("nothing is pending");
        }
        pending.iter().try_for_each(|message| {
            let field = |name: &str| text(&message[name]);
            let heading = format!("### {} [{}] {} {}", field("timestamp"), field("from"), field("type"), field("id"));
            room.block(&heading, &format!("{}\n{}", field("subject"), field("body")))
        })
    })
}

async fn send(room: &Room<'_>, publish: Publish) -> anyhow::Result<()> {
    let arguments = json!({
        "type": publish.topic,
        "subject": publish.subject,
        "body": publish.body.map(typed).transpose()?,
        "to": publish.to,
        "requires_ack": publish.no_ack.then_some(false),
    });
    let answer = room.call("coord_publish_message", arguments).await?;
    for unknown in list(&answer.value["unknown"]) {
        room.context.out.note(&format!("nobody is called {}; it gets the message if it joins in a day", text(unknown)));
    }
    if let Some(held) = answer.value["held"].as_str() {
        room.context.out.note(held);
    }
    room.context.out.done(&answer.value, text(&answer.value["message_id"]))
}

pub(super) async fn presence(room: &Room<'_>) -> anyhow::Result<()> {
    let answer = room.call("coord_get_presence", json!({})).await?;
    let row = |one: &Value| {
        let word = text(&one["status"]);
        let tone = match word {
            "active" => TextStyle::Good,
            "stale" => TextStyle::Warning,
            _ => TextStyle::Dim,
        };
        vec![text(&one["instance_id"]).into(), Cell::new(word, tone), text(&one["last_heartbeat"]).into()]
    };
    room.context.out.show(&answer.value, |_| {
        Ok(Table {
            headings: &["AGENT", "STATUS", "LAST SEEN"],
            rows: list(&answer.value["instances"]).iter().map(row).collect(),
            empty: "nobody is here",
        })
    })
}
