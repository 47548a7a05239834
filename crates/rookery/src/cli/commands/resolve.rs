//! `rookery resolve`

use serde_json::json;

use crate::cli::context::Context;

/// End a conflict about a file by giving it to one agent
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file, as `rookery resources` shows it
    path: String,

    /// The agent whose claim stands
    #[arg(long, value_name = "AGENT")]
    pick: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let body = json!({ "path": args.path, "winner": args.pick });
    let answer = context.client().await?.post(&["resources", "resolve"], &body).await?;
    context.out.done(&answer, &format!("{} belongs to {}", args.path, args.pick))
}
