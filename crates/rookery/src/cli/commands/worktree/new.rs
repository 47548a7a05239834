//! `rookery worktree new`

use rookery_client::Tools;
use serde_json::json;

use super::session::{self, Presence};
use super::workspace::{self, LASTS, parse_name};
use crate::cli::context::Context;
use crate::cli::output::{Format, TextStyle};

/// Make a worktree in .worktrees/NAME and tell the others that somebody works there
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Who will work there: the agent's id, and the name of the folder
    #[arg(value_parser = parse_name)]
    name: String,

    /// What the branch begins from, instead of main or master
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,

    /// The branch to work on, instead of feature/NAME; one that exists is used as it is
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> anyhow::Result<()> {
    let (name, root) = (&args.name, context.project()?.root().to_owned());
    if !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        context.out.note("names in lower case with hyphens are the easiest to tell apart");
    }
    let tools = Tools::new(context.client().await?, Some(name.clone()));
    let there = workspace::find(&tools, &root, name).await?;
    let branch = match &there {
        Some(there) => there.branch.clone(),
        None => args.branch.clone().unwrap_or_else(|| format!("feature/{name}")),
    };
    let made = match &there {
        Some(there) => json!({"id": there.id, "path": there.path}),
        None => match workspace::adopt(&tools, &root, name).await? {
            Some(adopted) => adopted,
            None => {
                let path = workspace::place(&root, name);
                let wanted = json!({"branch": branch, "base_branch": args.base, "create_worktree": true,
                    "repo_path": root, "path": path});
                let wanted = without_null(wanted);
                tools.call_within(LASTS, "workspace_create", wanted).await?.value
            }
        },
    };
    let path = workspace::place(&root, name);
    // Whoever asks again for what is there, and is there, has not begun anew.
    let goes_on = there.is_some() && session::presence(&tools, name).await? == Presence::Here;
    let message = match goes_on {
        true => None,
        false => Some(session::begin(&tools, name, &path, context.out.clock()).await?),
    };
    if context.out.format() == Format::Json {
        let created = there.is_none();
        let shown = json!({"name": name, "workspace": made["id"], "path": path, "branch": branch, "created": created,
            "message_id": message});
        return context.out.json(&shown);
    }
    context.out.note(if there.is_some() { "the worktree is there already" } else { "made a worktree" });
    context.out.line(&path.display().to_string(), TextStyle::Plain)?;
    context.out.note("go on with:");
    context.out.line(
        &format!("cd {} && export ROOKERY_AGENT_ID={name}", quoted(&path.display().to_string())),
        TextStyle::Plain,
    )
}

fn without_null(mut value: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// A path as a shell takes it whole.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+@,".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_where_it_must_be() {
        assert_eq!(quoted("/a/b-c_1.2"), "/a/b-c_1.2");
        assert_eq!(quoted("/my project/it's"), r"'/my project/it'\''s'");
    }
}
