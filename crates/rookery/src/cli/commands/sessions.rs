//! `rookery sessions`

use rookery_client::Client;
use rookery_client::wire::{self, ListedBrowserSession};
use serde_json::json;

use crate::cli::Failure;
use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::Table;

/// List the browsers that are signed in, or sign them out
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Sign a browser out at once
    Revoke {
        /// The session's id
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,

        /// Sign all browsers out
        #[arg(long)]
        all: bool,
    },
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    match args.command {
        None => {
            let sessions = client.get(&["sessions"], &[]).await?;
            context.out.show(&sessions, |clock| Ok(table(wire::read(&sessions)?, clock)))
        }
        Some(Command::Revoke { id: Some(id), .. }) => {
            let answer = client.delete(&["sessions", &id]).await?;
            context.out.done(&answer, &format!("signed out {id}"))
        }
        Some(Command::Revoke { id: None, .. }) => revoke_all(context, &client).await,
    }
}

async fn revoke_all(context: &Context, client: &Client) -> anyhow::Result<()> {
    let sessions: Vec<ListedBrowserSession> = wire::read(&client.get(&["sessions"], &[]).await?)?;
    let mut revoked = Vec::new();
    for session in sessions {
        client.delete(&["sessions", &session.id]).await.map_err(|error| {
            Failure::new(format!("cannot sign out {}: {error}", session.id)).hint("run the command again")
        })?;
        revoked.push(session.id);
    }
    let text = format!("signed out {} browser{}", revoked.len(), if revoked.len() == 1 { "" } else { "s" });
    context.out.done(&json!({ "revoked": revoked }), &text)
}

fn table(sessions: Vec<ListedBrowserSession>, clock: &Clock) -> Table {
    let row = |session: ListedBrowserSession| {
        vec![
            session.id.into(),
            session.person.into(),
            session.browser.into(),
            clock.age(session.created_at).into(),
            clock.age(session.last_used).into(),
            session.expires_at.map_or_else(|| "never".into(), |at| clock.local(at)).into(),
        ]
    };
    Table {
        headings: &["SESSION", "PERSON", "BROWSER", "SIGNED IN", "LAST USED", "EXPIRES"],
        rows: sessions.into_iter().map(row).collect(),
        empty: "no browser is signed in",
    }
}
