//! `rookery cancel`

use serde_json::json;

use crate::cli::context::Context;

/// Cancel a task; whoever works on it is told
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The task's id
    task: String,

    /// Why, for those who read the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let body = match args.reason {
        Some(reason) => json!({ "reason": reason }),
        None => json!({}),
    };
    let answer = context.client().await?.post(&["tasks", &args.task, "cancel"], &body).await?;
    context.out.done(&answer, &format!("{} is cancelled", args.task))
}
