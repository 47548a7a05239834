//! `rookery resume`

use serde_json::json;

use crate::cli::context::Context;

/// Let an agent go on that was paused
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent, as `rookery agents` shows it
    agent: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let answer = context.client().await?.post(&["agents", &args.agent, "resume"], &json!({})).await?;
    context.out.done(&answer, &format!("{} goes on", args.agent))
}
