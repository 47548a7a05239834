//! `rookery endpoints`

use rookery_client::wire::{self, EndpointList, ListedEndpoint};
use serde_json::json;

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

const ENDPOINTS: [&str; 3] = ["clutch", "v0", "endpoints"];

/// List the endpoints of outgoing webhooks; retry or discard their dead letters
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Retry the dead letters of an endpoint, and at once the messages that wait
    Retry {
        /// The name as it is listed, like http:ci
        name: String,
    },
    /// Discard the dead letters of an endpoint; they stay in the log
    Discard {
        /// The name as it is listed, like http:ci
        name: String,
    },
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    let [clutch, v0, endpoints] = ENDPOINTS;
    match args.command {
        None => {
            let answer = client.get(&ENDPOINTS, &[]).await?;
            let EndpointList { endpoints } = wire::read(&answer)?;
            context.out.show(&answer, |clock| Ok(table(endpoints, clock)))
        }
        Some(Command::Retry { name }) => {
            let answer = client.post(&[clutch, v0, endpoints, &name, "retry"], &json!({})).await?;
            context.out.done(&answer, &format!("{name} tries again what it put aside"))
        }
        Some(Command::Discard { name }) => {
            let answer = client.post(&[clutch, v0, endpoints, &name, "discard"], &json!({})).await?;
            context.out.done(&answer, &format!("{name} has let go of what it put aside"))
        }
    }
}

/// A line for each, and below it one for every message that was put aside.
fn table(endpoints: Vec<ListedEndpoint>, clock: &Clock) -> Table {
    let row = |endpoint: ListedEndpoint| {
        let tone = match endpoint.state.as_str() {
            "ok" => TextStyle::Good,
            _ => TextStyle::Bad,
        };
        let (failing, error) = match endpoint.failing {
            Some(failing) => (clock.since(&failing.since).unwrap_or_default(), failing.error),
            None => Default::default(),
        };
        let line = vec![
            Cell::new(endpoint.state, tone),
            endpoint.name.clone().into(),
            endpoint.behind.to_string().into(),
            endpoint.dead.len().to_string().into(),
            failing.into(),
            error.into(),
        ];
        let dead = endpoint.dead.into_iter().map(move |letter| {
            let place = format!("#{}", letter.seq);
            let age = clock.since(&letter.at).unwrap_or_default();
            vec![
                Cell::new("dead", TextStyle::Warning),
                place.into(),
                "".into(),
                "".into(),
                age.into(),
                letter.error.into(),
            ]
        });
        std::iter::once(line).chain(dead).collect::<Vec<_>>()
    };
    Table {
        headings: &["STATE", "NAME", "BEHIND", "ASIDE", "SINCE", "LAST ERROR"],
        rows: endpoints.into_iter().flat_map(row).collect(),
        empty: "messages are passed on to nobody; name a webhook with a url in rookery.toml",
    }
}
