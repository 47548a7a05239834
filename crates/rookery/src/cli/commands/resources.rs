//! `rookery resources`

use rookery_client::wire::{self, ListedResource};

use crate::cli::clock::Clock;
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

/// List the files that agents claimed or touched
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only files that an agent holds
    #[arg(long, conflicts_with = "conflicted")]
    claimed: bool,

    /// Only files that two agents changed
    #[arg(long)]
    conflicted: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let filter = match (args.claimed, args.conflicted) {
        (true, _) => vec![("filter", "claimed".to_owned())],
        (_, true) => vec![("filter", "conflicted".to_owned())],
        _ => Vec::new(),
    };
    let resources = context.client().await?.get(&["resources"], &filter).await?;
    context.out.show(&resources, |clock| Ok(table(wire::read(&resources)?, clock)))
}

fn table(resources: Vec<ListedResource>, clock: &Clock) -> Table {
    let row = |resource: ListedResource| {
        let tone = match resource.state.as_str() {
            "conflicted" => TextStyle::Bad,
            "locked" => TextStyle::Warning,
            "claimed" => TextStyle::Good,
            _ => TextStyle::Dim,
        };
        vec![
            resource.path.into(),
            Cell::new(resource.state, tone),
            resource.owner.unwrap_or_else(|| "-".into()).into(),
            resource.claimed_at.map_or_else(|| "-".into(), |at| clock.age(at)).into(),
            resource.last_modified_by.unwrap_or_else(|| "-".into()).into(),
        ]
    };
    Table {
        headings: &["PATH", "STATE", "OWNER", "CLAIMED", "LAST CHANGED BY"],
        rows: resources.into_iter().map(row).collect(),
        empty: "no files",
    }
}
