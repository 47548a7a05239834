//! `rookery pause`

use serde_json::json;

use crate::cli::context::Context;

/// Give an agent nothing new to do
///
/// It finishes what it has, takes no task, is passed over by the router, and its runner does not wake it. What is said to it
/// waits. `rookery resume` lets it go on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent, as `rookery agents` shows it
    agent: String,

    /// Why, for the agent and everybody else
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let body = json!({ "reason": args.reason });
    let answer = context.client().await?.post(&["agents", &args.agent, "pause"], &body).await?;
    context.out.done(&answer, &format!("{} is paused; `rookery resume {}` lets it go on", args.agent, args.agent))
}
