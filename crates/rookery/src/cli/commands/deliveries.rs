//! `rookery deliveries`

use rookery_client::Client;
use rookery_client::wire::{self, DeliveryList, ListedDelivery};
use rookery_core::AgentId;
use rookery_engine::endpoints::delivery_key;
use rookery_engine::messages::DeliveryId;
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

const DELIVERIES: [&str; 3] = ["clutch", "v0", "deliveries"];

/// List where messages stand with their recipients, and try again what was given up on
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<State>,

    /// Only those to this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Try deliveries again that were given up on
    Retry {
        /// The ids of the deliveries
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Acknowledge messages for their recipients, so that they wait no longer
    Ack {
        /// The ids of the deliveries
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Print the key that messages to an agent's endpoint are signed with
    Key {
        /// The agent that has the endpoint
        agent: String,
    },
}

/// Where a message stands with one of its recipients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum State {
    /// Nobody has told the recipient of it yet
    Pending,
    /// It was handed or posted to the recipient, who has not acknowledged it
    Notified,
    /// The recipient has acknowledged it
    Acked,
    /// It was given up on
    Dead,
    /// What it asks for is somebody else's by now, or nobody's
    #[value(name = "superseded")]
    Superseded,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Notified => "notified",
            Self::Acked => "acked",
            Self::Dead => "dead",
            Self::Superseded => "superseded",
        }
    }
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    match args.command {
        Some(Command::Retry { ids }) => retry(context, &context.client().await?, &ids).await,
        Some(Command::Ack { ids }) => ack(context, &context.client().await?, &ids).await,
        Some(Command::Key { agent }) => key(context, &agent),
        None => list(context, &args).await,
    }
}

async fn list(context: &Context, args: &Args) -> anyhow::Result<()> {
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend(args.state.map(|state| ("state", state.word().to_owned())));
    query.extend(args.agent.clone().map(|agent| ("agent_id", agent)));
    let answer = context.client().await?.get(&DELIVERIES, &query).await?;
    let DeliveryList { deliveries, next } = wire::read(&answer)?;
    context.out.show(&answer, |clock| Ok(table(deliveries, clock)))?;
    if next.is_some() {
        context.out.note("there are more; --limit shows them, --state and --agent only some");
    }
    Ok(())
}

fn table(deliveries: Vec<ListedDelivery>, clock: &Clock) -> Table {
    let row = |delivery: ListedDelivery| {
        let tone = match delivery.state.as_str() {
            "dead" => TextStyle::Bad,
            "notified" => TextStyle::Warning,
            "acked" | "superseded" => TextStyle::Dim,
            _ => TextStyle::Plain,
        };
        let age = clock.since(&delivery.queued_at).unwrap_or_else(|| "-".to_owned());
        vec![
            Cell::new(delivery.state, tone),
            delivery.agent_id.into(),
            delivery.message_id.into(),
            age.into(),
            delivery.attempts.to_string().into(),
            delivery.last_error.unwrap_or_default().into(),
            delivery.id.into(),
        ]
    };
    Table {
        headings: &["STATE", "TO", "MESSAGE", "AGE", "TRIES", "LAST ERROR", "ID"],
        rows: deliveries.into_iter().map(row).collect(),
        empty: "no deliveries",
    }
}

async fn retry(context: &Context, client: &Client, ids: &[String]) -> anyhow::Result<()> {
    let mut retried = Vec::with_capacity(ids.len());
    for id in ids {
        let [clutch, v0, deliveries] = DELIVERIES;
        retried.push(client.post(&[clutch, v0, deliveries, id, "retry"], &json!({})).await?);
    }
    context.out.done(&json!({ "deliveries": retried }), &format!("{} to be tried again", counted(ids.len())))
}

async fn ack(context: &Context, client: &Client, ids: &[String]) -> anyhow::Result<()> {
    let named = ids.iter().map(|id| DeliveryId::parse(id).ok_or_else(|| unknown(id)));
    let named: Vec<DeliveryId> = named.collect::<Result<_, _>>()?;
    for DeliveryId { message, agent } in &named {
        let path = ["clutch", "v0", "agents", agent.as_str(), "inbox", "ack"];
        client.post(&path, &json!({ "ids": [message] })).await?;
    }
    let acked: Vec<Value> = named.iter().map(|id| json!(id.to_string())).collect();
    context.out.done(&json!({ "acked": acked }), &format!("{} acknowledged", counted(ids.len())))
}

fn key(context: &Context, agent: &str) -> anyhow::Result<()> {
    let Some(person_key) = context.project()?.person_key()? else {
        let failure = Failure::new("this project has no key file");
        return Err(failure.hint("start its daemon with `rookery up`, which makes one").into());
    };
    let agent = AgentId::from(agent.strip_prefix("agent:").unwrap_or(agent));
    let key = delivery_key(&person_key, &agent);
    context.out.done(&json!({ "agent_id": format!("agent:{agent}"), "key": key }), &key)
}

fn counted(count: usize) -> String {
    format!("{count} {}", if count == 1 { "delivery" } else { "deliveries" })
}

fn unknown(id: &str) -> Failure {
    Failure::new(format!("'{id}' is not the id of a delivery")).hint("`rookery deliveries` lists them")
}
