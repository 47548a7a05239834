//! `rookery retry`

use rookery_client::Client;
use serde_json::{Value, json};

use crate::cli::context::Context;

/// Put a failed task back into the queue
///
/// With --reopen, the task may have ended in any way: completed, failed, cancelled or skipped. Its subtasks and all tasks that
/// depend on one of them are reopened too, each as its next attempt, and a run that has ended resumes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The task's id
    task: String,

    /// Reopen a task that has ended, with its subtasks and all tasks that depend on it
    #[arg(long)]
    reopen: bool,
}

const EXAMPLES: &str = "Examples:
  rookery retry tk_1
  rookery retry tk_1 --reopen";

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    if args.reopen {
        return reopen(context, &client, &args.task).await;
    }
    let answer = client.post(&["tasks", &args.task, "retry"], &json!({})).await?;
    context.out.done(&answer, &format!("{} is back in the queue", args.task))
}

async fn reopen(context: &Context, client: &Client, task: &str) -> anyhow::Result<()> {
    let known = client.get(&["tasks", task], &[]).await?;
    let run = known["run_id"].as_str().unwrap_or_default();
    let answer = client.post(&["clutch", "v0", "runs", run, "retry"], &json!({ "task_id": task })).await?;
    context.out.done(&answer, &reopened(task, &answer))
}

fn reopened(task: &str, answer: &Value) -> String {
    let attempt = answer["attempt"].as_u64().map(|attempt| format!(" for attempt {attempt}")).unwrap_or_default();
    format!("{task} is open again{attempt}, with its subtasks and the tasks that depend on it")
}
