//! `rookery release`

use rookery_client::wire::{self, ListedResource};
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::context::Context;

/// Free a file that an agent holds
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file, as `rookery resources` shows it
    path: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let client = context.client().await?;
    let segments: Vec<&str> = ["resources"].into_iter().chain(args.path.split('/')).collect();
    let resource: ListedResource = wire::read(&client.get(&segments, &[]).await?)?;
    let Some(owner) = resource.owner else {
        let failure = Failure::new(format!("nobody holds {}", resource.path));
        return Err(failure.hint("`rookery resources --claimed` lists what is held").into());
    };
    let body = json!({ "path": resource.path, "agent_id": owner });
    let answer = client.post(&["resources", "release"], &body).await?;
    if answer["released"] == Value::Bool(false) {
        let reason = answer["reason"].as_str().unwrap_or("the daemon gives no reason");
        let failure = Failure::new(format!("{} was not released: {reason}", resource.path));
        return Err(failure.hint("its holder may have changed just now: look with `rookery resources`").into());
    }
    context.out.done(&answer, &format!("{} is free; {owner} held it", resource.path))
}
