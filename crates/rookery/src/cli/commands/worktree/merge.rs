//! `rookery worktree merge`

use rookery_client::Tools;
use serde_json::json;

use super::workspace::{self, LASTS, parse_name};
use crate::cli::context::Context;

/// Merge the branch of a worktree into the branch that it came from; the worktree stays
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The worktree's name, or the workspace's id
    #[arg(value_parser = parse_name)]
    name: String,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let root = context.project()?.root().to_owned();
    let tools = Tools::new(context.client().await?, None);
    let known = workspace::known(&tools, &root, &args.name).await?;
    let merged = tools.call_within(LASTS, "workspace_merge", json!({"id": known.id})).await?.value;
    let commit = merged["merge_commit"].as_str().unwrap_or_default();
    context.out.done(&merged, &format!("merged {} ({commit})", known.branch))
}
