//! `rookery worktree remove`

use rookery_client::Tools;
use serde_json::{Value, json};

use super::session::{self, Reason};
use super::workspace::{self, LASTS, Workspace, parse_name};
use crate::cli::Failure;
use crate::cli::context::Context;

/// Remove a worktree and tell the others that its session ended; work that is not merged is saved first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The worktree's name, or the workspace's id
    #[arg(value_parser = parse_name)]
    name: String,

    /// Commit what is not committed and merge the branch first
    #[arg(long, conflicts_with = "abandon")]
    merge: bool,

    /// Do not merge, whatever is in it
    #[arg(long)]
    abandon: bool,
}

/// What is to become of the work in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    Merge,
    Abandon,
    Cancel,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let root = context.project()?.root().to_owned();
    let client = context.client().await?;
    let known = workspace::known(&Tools::new(client.clone(), None), &root, &args.name).await?;
    let name = known.name();
    let tools = Tools::new(client, Some(name.clone()));
    let choice = match (args.merge, args.abandon) {
        (true, _) => Choice::Merge,
        (_, true) => Choice::Abandon,
        _ if known.changes != "modified" => Choice::Abandon,
        _ => asked(context, &name)?,
    };
    match choice {
        Choice::Cancel => {
            let message = session::end(&tools, &name, Reason::UserExit).await?;
            let done = json!({"name": name, "worktree_removed": false, "message_id": message});
            context
                .out
                .done(&done, &format!("the session of {name} ended; its worktree stays at {}", known.path.display()))
        }
        Choice::Merge => {
            // Nothing ends by a merge that failed: whoever works there has to resolve it.
            let merging = json!({"id": known.id, "commit_changes": true});
            tools.call_within(LASTS, "workspace_merge", merging).await?;
            end(context, &tools, &known, "merged", Reason::TaskComplete).await
        }
        Choice::Abandon => {
            let status = if known.status == "merged" { "merged" } else { "abandoned" };
            end(context, &tools, &known, status, Reason::UserExit).await
        }
    }
}

/// Asks a person, where one is there to ask.
fn asked(context: &Context, name: &str) -> anyhow::Result<Choice> {
    let question = format!("{name} has changes that are not committed: [m]erge, [a]bandon or [c]ancel?");
    match context.out.ask(&question)?.map(|answer| answer.to_lowercase()).as_deref() {
        Some("m" | "merge") => Ok(Choice::Merge),
        Some("a" | "abandon") => Ok(Choice::Abandon),
        Some(_) => Ok(Choice::Cancel),
        None => Err(Failure::new(format!("{name} has changes that are not committed"))
            .hint("say --merge to commit and merge them, or --abandon to save them aside and remove the worktree")
            .into()),
    }
}

/// Removes the worktree, then tells the others how the session ended.
async fn end(context: &Context, tools: &Tools, known: &Workspace, status: &str, reason: Reason) -> anyhow::Result<()> {
    let removing = json!({"id": known.id, "status": status, "cleanup_worktree": true});
    let mut answer = tools.call_within(LASTS, "workspace_update", removing).await?.value;
    let removed = answer["worktree_removed"] == true;
    let name = known.name();
    let message = session::end(tools, &name, if removed { reason } else { Reason::Error }).await?;
    if !removed {
        let why = answer["kept_because"].as_str().unwrap_or("the daemon does not say why");
        return Err(Failure::new(format!("the worktree of {name} stays: {why}"))
            .hint("mend that, then run the command again")
            .into());
    }
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("message_id".to_owned(), message);
        fields.insert("name".to_owned(), json!(name));
    }
    context.out.done(&answer, &told(&answer, known))?;
    if let (Some(kept), Some(restore)) = (answer["backup_ref"].as_str(), answer["restore_with"].as_str()) {
        context.out.note(&format!("what was not merged is kept in {kept}; get it back with:"));
        context.out.note(&format!("  {restore}"));
    }
    Ok(())
}

fn told(answer: &Value, known: &Workspace) -> String {
    let branch = match answer["branch"].as_str() {
        Some("deleted") => format!("branch {} is deleted, all of it is merged", known.branch),
        Some("kept") => format!("branch {} is kept", known.branch),
        _ => format!("there was no branch {}", known.branch),
    };
    format!("removed {}; {branch}", known.path.display())
}
