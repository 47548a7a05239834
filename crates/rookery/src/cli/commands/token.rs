//! `rookery token`

use std::time::Duration;

use rookery_client::Client;
use rookery_client::wire::{self, ListedToken};
use serde_json::json;

use crate::cli::Failure;
use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};
use crate::config::parse_duration;

/// Manage the tokens that prove who an agent is
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a token and print its secret, which is shown only this once
    Create(Create),
    /// List the tokens, without their secrets
    List,
    /// Make a token worthless
    Revoke {
        /// The token's id
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// The agent that the token is for
    #[arg(long, value_name = "ID")]
    agent: String,

    /// What its holder may do
    #[arg(long, value_enum, default_value_t = Role::Agent)]
    role: Role,

    /// When it ends by itself, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires: Option<Duration>,

    /// A note to recognise it by
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
}

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// Also lock, force, resolve, reassign
    Lead,
    /// Its own claims, tasks and messages
    Agent,
    /// Read only
    Observer,
    /// Everything
    Person,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::Agent => "agent",
            Self::Observer => "observer",
            Self::Person => "person",
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a time such as 12h or 30d".into())
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    match args.command {
        Command::Create(create) => make(context, &client, create).await,
        Command::List => {
            let tokens = client.get(&["admin", "tokens"], &[]).await?;
            context.out.show(&tokens, |clock| Ok(table(wire::read(&tokens)?, clock)))
        }
        Command::Revoke { id } => {
            let answer = client.delete(&["admin", "tokens", &id]).await?;
            context.out.done(&answer, &format!("{id} is revoked"))
        }
    }
}

async fn make(context: &Context, client: &Client, create: Create) -> anyhow::Result<()> {
    let mut body = json!({ "agent": create.agent, "role": create.role.word() });
    if let Some(expires) = create.expires {
        body["expires_in_seconds"] = json!(expires.as_secs().max(1));
    }
    if let Some(label) = create.label {
        body["label"] = json!(label);
    }
    let answer = client.post(&["admin", "tokens"], &body).await?;
    let Some(secret) = answer["token"].as_str() else {
        let failure = Failure::new("the daemon made a token and did not show its secret");
        return Err(failure.hint("revoke it: `rookery token list` shows its id").into());
    };
    context.out.done(&answer, secret)?;
    context.out.note("keep it now: it is stored as a hash only and cannot be shown again");
    Ok(())
}

fn table(tokens: Vec<ListedToken>, clock: &Clock) -> Table {
    let row = |token: ListedToken| {
        let state = match token.expires_at {
            Some(end) if clock.is_past(end) => Cell::new("expired", TextStyle::Dim),
            _ => Cell::new("valid", TextStyle::Good),
        };
        vec![
            token.id.into(),
            token.agent.into(),
            token.role.into(),
            state,
            token.created_at.map_or_else(|| "-".into(), |at| clock.age(at)).into(),
            token.expires_at.map_or_else(|| "never".into(), |at| clock.local(at)).into(),
            token.label.unwrap_or_else(|| "-".into()).into(),
        ]
    };
    Table {
        headings: &["TOKEN", "AGENT", "ROLE", "STATE", "CREATED", "EXPIRES", "LABEL"],
        rows: tokens.into_iter().map(row).collect(),
        empty: "no tokens",
    }
}
