//! `rookery peek`

use std::collections::BTreeMap;

use rookery_client::wire::{self, DeliveryList};
use rookery_client::{Client, ClientError};
use rookery_core::AgentId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};
use crate::cli::roster::{Left, Meant, Roster, recipient};

/// How far back is looked.
const LOOKED_AT: u32 = 1000;

/// Show the recent messages of an agent, read or not: those to it and those it sent
///
/// Marks nothing as read. Without --to, of the one agent that runs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent, such as reviewer or reviewer@pr-123
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,

    /// At most so many, the newest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    let agent = match args.to.as_deref() {
        // One that does not run has messages too.
        Some(to) => {
            let named = recipient(&Roster { teams: Vec::new() }, Some(to))?;
            let meant = Meant::read(&client, &named, Left::Included).await?;
            meant.as_ref().and_then(Meant::note).iter().for_each(|note| context.out.note(note));
            meant.map_or(named, |meant| meant.agent)
        }
        None => recipient(&Roster::read(&client).await?, None)?,
    };
    let mut sent = messages_of(&client, &agent).await?;
    sent.truncate(args.limit.into());
    sent.reverse();
    let open = open_messages(&client, &agent).await?;
    if context.out.format() == Format::Json {
        let shown: Vec<Value> = sent.iter().map(|message| message.json(&open, &agent)).collect();
        return context.out.json(&shown);
    }
    if sent.is_empty() {
        context.out.note(&format!("nothing was said to {agent} or by it"));
    }
    for message in &sent {
        let at = context.out.clock().local(message.at);
        let state = message.state(&open, &agent).map(|state| format!(" ({state})")).unwrap_or_default();
        let to = if message.is_direct() { format!(" to {}", message.to.join(", ")) } else { String::new() };
        context.out.line(&format!("### {at} [{}]{to}{state}", message.from), TextStyle::Good)?;
        message.text.lines().try_for_each(|line| context.out.line(line, TextStyle::Plain))?;
        context.out.line("", TextStyle::Plain)?;
    }
    Ok(())
}

/// A message as the log has it.
#[derive(Debug, Deserialize)]
struct Sent {
    message: String,
    at: i64,
    from: String,
    #[serde(default)]
    form: String,
    #[serde(default, deserialize_with = "named")]
    to: Vec<String>,
    #[serde(default)]
    text: String,
}

impl Sent {
    fn is_direct(&self) -> bool {
        self.form == "direct"
    }

    fn concerns(&self, agent: &AgentId) -> bool {
        self.from == agent.as_str() || self.to.iter().any(|to| to == agent.as_str())
    }

    /// Where it stands with the agent, if it is for it.
    fn state(&self, open: &BTreeMap<String, String>, agent: &AgentId) -> Option<&'static str> {
        let is_to = self.to.iter().any(|to| to == agent.as_str());
        is_to.then(|| match open.get(&self.message).map(String::as_str) {
            Some("pending") => "unread",
            Some("notified") => "being read",
            Some("dead") => "given up",
            _ => "read",
        })
    }

    fn json(&self, open: &BTreeMap<String, String>, agent: &AgentId) -> Value {
        json!({
            "id": self.message,
            "at": self.at,
            "from": self.from,
            "to": self.to,
            "direct": self.is_direct(),
            "state": self.state(open, agent),
            "message": self.text,
        })
    }
}

/// Recipients are a list of agents, or a word for everybody.
fn named<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let to = Value::deserialize(from)?;
    let list = to.get("agents").unwrap_or(&to);
    Ok(list.as_array().into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect())
}

/// The newest messages to the agent or by it, newest first.
async fn messages_of(client: &Client, agent: &AgentId) -> Result<Vec<Sent>, ClientError> {
    let query = [("action", "x.message.sent".to_owned()), ("limit", LOOKED_AT.to_string())];
    let events: Vec<wire::LoggedEvent> = wire::read(&client.get(&["events"], &query).await?)?;
    // A notification says nothing itself.
    let said = events.into_iter().filter(|event| !event.metadata.contains_key("announces"));
    let sent = said.filter_map(|event| serde_json::from_value(Value::Object(event.metadata)).ok());
    Ok(sent.filter(|message: &Sent| message.concerns(agent)).collect())
}

/// The messages that the agent has not acknowledged, and where they stand.
async fn open_messages(client: &Client, agent: &AgentId) -> Result<BTreeMap<String, String>, ClientError> {
    let mut open = BTreeMap::new();
    for state in ["pending", "notified", "dead"] {
        let query = [("agent_id", agent.to_string()), ("state", state.to_owned()), ("limit", LOOKED_AT.to_string())];
        let found: DeliveryList = wire::read(&client.get(&["clutch", "v0", "deliveries"], &query).await?)?;
        open.extend(found.deliveries.into_iter().map(|delivery| (delivery.message_id, delivery.state)));
    }
    Ok(open)
}
