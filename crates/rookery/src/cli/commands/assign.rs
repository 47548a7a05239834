//! `rookery assign`

use serde_json::json;

use crate::cli::context::Context;

/// Give a task to an agent
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The task's id
    task: String,

    /// The agent's id
    agent: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let body = json!({ "agent_id": args.agent });
    let answer = context.client().await?.post(&["tasks", &args.task, "assign"], &body).await?;
    context.out.done(&answer, &format!("{} is assigned to {}", args.task, args.agent))
}
