//! The worktree that a name stands for, as the daemon knows it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_client::Tools;
use rookery_client::wire;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::Failure;

/// The folder in the project that worktrees are made in.
const FOLDER: &str = ".worktrees";
/// Above what the daemon takes for a large checkout before it answers that it is not done yet.
pub(super) const LASTS: Duration = Duration::from_secs(170);

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Workspace {
    pub(super) id: String,
    pub(super) path: PathBuf,
    pub(super) branch: String,
    pub(super) status: String,
    /// told, planned, present or removed.
    #[serde(default)]
    pub(super) worktree: String,
    /// clean, modified or unknown.
    #[serde(default)]
    pub(super) changes: String,
    #[serde(default)]
    pub(super) created_by: String,
}

impl Workspace {
    /// The name that people call it by.
    pub(super) fn name(&self) -> String {
        self.path.file_name().map_or_else(|| self.id.clone(), |name| name.to_string_lossy().into_owned())
    }
}

/// Where the worktree of this name belongs.
pub(super) fn place(root: &Path, name: &str) -> PathBuf {
    root.join(FOLDER).join(name)
}

/// A name is an agent's id, a folder and the end of a branch.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(plain) || text.starts_with(['-', '.']) {
        return Err("use letters, digits, '-', '_' and '.', beginning with a letter or digit".to_owned());
    }
    Ok(text.to_owned())
}

/// The worktrees that are not removed.
pub(super) async fn all(tools: &Tools) -> anyhow::Result<Vec<Workspace>> {
    let answer = tools.call_within(LASTS, "workspace_list", json!({"include_changes": true})).await?;
    let all: Vec<Workspace> = wire::read(&answer.value["workspaces"])?;
    Ok(all.into_iter().filter(|workspace| workspace.worktree != "removed").collect())
}

/// The worktree of a name or an id, if the daemon knows one.
pub(super) async fn find(tools: &Tools, root: &Path, name: &str) -> anyhow::Result<Option<Workspace>> {
    let place = place(root, name);
    Ok(all(tools).await?.into_iter().rev().find(|workspace| workspace.path == place || workspace.id == name))
}

/// As [`find`], and a worktree that somebody made there by hand is made known.
pub(super) async fn known(tools: &Tools, root: &Path, name: &str) -> anyhow::Result<Workspace> {
    if let Some(found) = find(tools, root, name).await? {
        return Ok(found);
    }
    if adopt(tools, root, name).await?.is_some()
        && let Some(found) = find(tools, root, name).await?
    {
        return Ok(found);
    }
    let hint = "`rookery worktree list` shows what there is";
    Err(Failure::new(format!("there is no worktree {name}")).hint(hint).into())
}

/// Tells the daemon of a worktree that is there already.
pub(super) async fn adopt(tools: &Tools, root: &Path, name: &str) -> anyhow::Result<Option<Value>> {
    let path = place(root, name);
    let Some(branch) = branch_of(&path) else { return Ok(None) };
    let told = json!({"branch": branch, "path": path, "repo_path": root});
    Ok(Some(tools.call("workspace_create", told).await?.value))
}

/// The branch that a linked worktree is on, by git's own files.
fn branch_of(worktree: &Path) -> Option<String> {
    let pointer = std::fs::read_to_string(worktree.join(".git")).ok()?;
    let folder = worktree.join(pointer.strip_prefix("gitdir:")?.trim());
    let head = std::fs::read_to_string(folder.join("HEAD")).ok()?;
    Some(head.trim().strip_prefix("ref: refs/heads/")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_a_folder_an_id_and_a_branch() {
        for good in ["p11-guardrails", "a", "v1.2_x"] {
            assert_eq!(parse_name(good).as_deref(), Ok(good));
        }
        for bad in ["", "-x", "..", ".git", "a b", "a/b", "../x", "--merge", "ä"] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_branch_of_a_worktree_is_read_from_gits_files() {
        let folder = tempfile::tempdir().unwrap();
        let (worktree, admin) = (folder.path().join("w"), folder.path().join("repo/.git/worktrees/w"));
        std::fs::create_dir_all(&worktree).unwrap();
        std::fs::create_dir_all(&admin).unwrap();
        assert_eq!(branch_of(&worktree), None);
        std::fs::write(worktree.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
        std::fs::write(admin.join("HEAD"), "ref: refs/heads/feature/w\n").unwrap();
        assert_eq!(branch_of(&worktree).as_deref(), Some("feature/w"));
        std::fs::write(admin.join("HEAD"), "0123456789012345678901234567890123456789\n").unwrap();
        assert_eq!(branch_of(&worktree), None, "a detached head is on no branch");
    }
}
