//! `rookery worktree list`

use rookery_client::Tools;
use serde_json::json;

use super::workspace::{self, Workspace};
use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};

/// List the worktrees, and whether there are changes in them that are not committed
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(context: &Context, _: Args) -> anyhow::Result<()> {
    let tools = Tools::new(context.client().await?, None);
    let all = workspace::all(&tools).await?;
    let shown: Vec<_> = all
        .iter()
        .map(|one| {
            json!({"context": one.name(), "branch": one.branch, "path": one.path, "status": one.changes,
                "workspace": one.id, "state": one.status, "created_by": one.created_by})
        })
        .collect();
    context.out.show(&shown, |_| Ok(table(all)))
}

fn table(all: Vec<Workspace>) -> Table {
    let row = |one: Workspace| {
        let tone = match one.changes.as_str() {
            "clean" => TextStyle::Good,
            "modified" => TextStyle::Warning,
            _ => TextStyle::Dim,
        };
        let path = one.path.display().to_string();
        vec![one.name().into(), one.branch.clone().into(), Cell::new(one.changes, tone), one.status.into(), path.into()]
    };
    Table {
        headings: &["NAME", "BRANCH", "FILES", "STATE", "PATH"],
        rows: all.into_iter().map(row).collect(),
        empty: "no worktrees",
    }
}
