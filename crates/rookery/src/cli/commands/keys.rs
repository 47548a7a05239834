//! `rookery keys`

use std::path::PathBuf;

use anyhow::Context as _;
use rookery_client::wire::{self, CardKeys};
use rookery_client::{Client, ClientError};
use rookery_core::model::capabilities::SigningKey;
use serde_json::{Value, json};

use super::envelope::key;
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::cli::output::Table;
use crate::project::random;

const AGENTS: [&str; 3] = ["clutch", "v0", "agents"];

/// Manage the keys that agents sign their messages with
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a key for an agent: the secret half goes into a file, the other onto the agent's card
    Create(Create),
    /// List the keys that agents sign with
    List {
        /// Only those of this agent
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// The agent, which has joined; the keys that it has stay
    #[arg(long, value_name = "ID")]
    agent: String,

    /// The file to write the key to, which must not exist; whoever can read it can sign
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// The key's name among those of its agent
    #[arg(long, default_value = "key_01")]
    kid: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    match args.command {
        Command::Create(create) => make(context, &client, &create).await,
        Command::List { agent } => {
            let cards = match agent {
                Some(agent) => json!([card(&client, &agent).await?]),
                None => client.get(&AGENTS, &[]).await?["agents"].take(),
            };
            let keys = keys_of(wire::read(&cards)?);
            context.out.show(&json!(keys), |_| Ok(table(&keys)))
        }
    }
}

/// A key is either on its agent's card and in its file, or nowhere.
async fn make(context: &Context, client: &Client, create: &Create) -> anyhow::Result<()> {
    let card = card(client, &create.agent).await?;
    let mut keys = card["security"]["keys"].as_array().cloned().unwrap_or_default();
    if keys.iter().any(|key| key["kid"] == create.kid.as_str()) {
        let message = format!("{} has a key '{}' already", create.agent, create.kid);
        return Err(Failure::new(message).hint("name this one otherwise, with --kid").into());
    }
    let public = key::keep_new(&create.key, &create.kid)?;
    keys.push(json!(public));
    if let Err(error) = client.post(&["clutch", "v0", "messages"], &update(context, &card, keys)?).await {
        // Where it is not known whether it was done, the file stays: it may be what the agent signs with.
        if matches!(error, ClientError::Refused { .. }) {
            let removed = std::fs::remove_file(&create.key);
            removed.with_context(|| format!("cannot remove {}, which is worth nothing", create.key.display()))?;
        }
        return Err(error.into());
    }
    let SigningKey { kid, public_key, .. } = &public;
    context.out.done(&public, &format!("{} can sign with {kid} now: {public_key}", create.agent))?;
    context.out.note(&format!(
        "keep {} secret: whoever can read it can sign as {}",
        create.key.display(),
        create.agent
    ));
    Ok(())
}

async fn card(client: &Client, agent: &str) -> Result<Value, ClientError> {
    let [clutch, version, agents] = AGENTS;
    client.get(&[clutch, version, agents, agent], &[]).await
}

/// The message that gives an agent these keys.
fn update(context: &Context, card: &Value, keys: Vec<Value>) -> anyhow::Result<Value> {
    let id: String = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({
        "v": "clutch/0.1", "id": format!("msg_{id}"), "ts": context.out.clock().moment(),
        "thread_id": "thr_default", "run_id": "run_default", "task_id": "task_keys",
        "from": { "agent_id": card["agent_id"] }, "to": [{ "agent_id": "agent:orchestrator" }],
        "type": "agent.update", "payload": { "security": { "keys": keys } },
    }))
}

/// Whose key it is, its name, and what of it everybody may know.
#[derive(Debug, serde::Serialize)]
struct Held {
    agent: String,
    #[serde(flatten)]
    key: SigningKey,
}

fn keys_of(cards: Vec<CardKeys>) -> Vec<Held> {
    let of_card = |card: CardKeys| {
        let agent = card.agent_id.strip_prefix("agent:").unwrap_or(&card.agent_id).to_owned();
        card.security.keys.into_iter().map(move |key| Held { agent: agent.clone(), key })
    };
    cards.into_iter().flat_map(of_card).collect()
}

fn table(keys: &[Held]) -> Table {
    let row = |held: &Held| {
        let Held { agent, key } = held;
        vec![agent.clone().into(), key.kid.clone().into(), key.public_key.clone().into()]
    };
    Table {
        headings: &["AGENT", "KEY", "PUBLIC KEY"],
        rows: keys.iter().map(row).collect(),
        empty: "no agent has a key",
    }
}
