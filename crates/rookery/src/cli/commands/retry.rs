//! `rookery retry`

use serde_json::json;

use crate::cli::context::Context;

/// Put a failed task back into the queue
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The task's id
    task: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let answer = context.client().await?.post(&["tasks", &args.task, "retry"], &json!({})).await?;
    context.out.done(&answer, &format!("{} is back in the queue", args.task))
}
