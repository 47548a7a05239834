//! `rookery adapters`

use rookery_client::wire::{self, Adapter, Adapters};
use serde_json::json;

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, Tone};

const ADAPTERS: [&str; 3] = ["clutch", "v0", "adapters"];

/// Show how webhooks that go out do, and see to what they could not pass on
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Try again what one put aside, and at once what waits
    Retry {
        /// The name as it is listed, like http:ci
        name: String,
    },
    /// Let go of what one put aside; it stays in the log
    Drop {
        /// The name as it is listed, like http:ci
        name: String,
    },
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    let [clutch, v0, adapters] = ADAPTERS;
    match args.command {
        None => {
            let answer = client.get(&ADAPTERS, &[]).await?;
            let Adapters { adapters } = wire::read(&answer)?;
            context.out.show(&answer, |clock| Ok(table(adapters, clock)))
        }
        Some(Command::Retry { name }) => {
            let answer = client.post(&[clutch, v0, adapters, &name, "retry"], &json!({})).await?;
            context.out.done(&answer, &format!("{name} tries again what it put aside"))
        }
        Some(Command::Drop { name }) => {
            let answer = client.post(&[clutch, v0, adapters, &name, "drop"], &json!({})).await?;
            context.out.done(&answer, &format!("{name} has let go of what it put aside"))
        }
    }
}

/// A line for each, and below it one for every message that was put aside.
fn table(adapters: Vec<Adapter>, clock: &Clock) -> Table {
    let row = |adapter: Adapter| {
        let tone = match adapter.state.as_str() {
            "ok" => Tone::Good,
            _ => Tone::Bad,
        };
        let (failing, error) = match adapter.failing {
            Some(failing) => (clock.since(&failing.since).unwrap_or_default(), failing.error),
            None => Default::default(),
        };
        let line = vec![
            Cell::new(adapter.state, tone),
            adapter.name.clone().into(),
            adapter.behind.to_string().into(),
            adapter.dead.len().to_string().into(),
            failing.into(),
            error.into(),
        ];
        let dead = adapter.dead.into_iter().map(move |letter| {
            let place = format!("#{}", letter.seq);
            let age = clock.since(&letter.at).unwrap_or_default();
            vec![Cell::new("dead", Tone::Warning), place.into(), "".into(), "".into(), age.into(), letter.error.into()]
        });
        std::iter::once(line).chain(dead).collect::<Vec<_>>()
    };
    Table {
        headings: &["STATE", "NAME", "BEHIND", "ASIDE", "SINCE", "LAST ERROR"],
        rows: adapters.into_iter().flat_map(row).collect(),
        empty: "messages are passed on to nobody; name a webhook with a url in rookery.toml",
    }
}
