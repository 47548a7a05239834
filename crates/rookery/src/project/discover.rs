//! Which folder is the project's root, for a command run somewhere inside it.
//!
//! Reads git's own files (`.git`, `commondir`) and starts no process: commands are run by hooks, often and in sandboxes
//! without git.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::FOLDER;

/// The root that `here` belongs to: the nearest folder with `.rookery/`; else the main work tree of the repository,
/// so that every git worktree shares one daemon; else `here` itself.
pub(super) fn root_for(here: &Path) -> PathBuf {
    let here = here.canonicalize().unwrap_or_else(|_| here.to_path_buf());
    if let Some(root) = here.ancestors().find(|folder| folder.join(FOLDER).is_dir()) {
        return root.to_path_buf();
    }
    repository_root(&here).unwrap_or(here)
}

/// The folder that stands for the whole repository, whichever of its worktrees `here` is in.
fn repository_root(here: &Path) -> Option<PathBuf> {
    let worktree = here.ancestors().find(|folder| folder.join(".git").exists())?;
    let Some(common) = common_git_folder(&worktree.join(".git")) else {
        return Some(worktree.to_path_buf());
    };
    match common.file_name() {
        Some(name) if name == ".git" => common.parent().map(Path::to_path_buf),
        // A bare repository has no main work tree: its own folder is what all its worktrees have in common.
        _ => Some(common),
    }
}

/// The git folder that a linked worktree shares with its siblings; `None` for the main work tree and for submodules,
/// whose own folder is the root.
fn common_git_folder(dot_git: &Path) -> Option<PathBuf> {
    let pointer = fs::read_to_string(dot_git).ok()?;
    let target = pointer.strip_prefix("gitdir:")?.trim();
    let git_folder = resolve(dot_git.parent()?, Path::new(target));
    let common = fs::read_to_string(git_folder.join("commondir")).ok()?;
    let common = resolve(&git_folder, Path::new(common.trim()));
    Some(common.canonicalize().unwrap_or(common))
}

/// `path` as seen from `base`, without `.` and `..`.
fn resolve(base: &Path, path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn folder() -> (TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().canonicalize().unwrap();
        (temp, path)
    }

    #[expect(clippy::disallowed_methods, reason = "real git worktrees are the subject of these tests")]
    fn git(folder: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"];
        let output =
            std::process::Command::new("git").current_dir(folder).args(identity).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn repository(path: &Path) -> PathBuf {
        let main = path.join("main");
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "--quiet"]);
        git(&main, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        main
    }

    #[test]
    fn the_nearest_rookery_folder_wins() {
        let (_temp, path) = folder();
        fs::create_dir_all(path.join("outer/inner/deep")).unwrap();
        fs::create_dir(path.join("outer/.rookery")).unwrap();
        assert_eq!(root_for(&path.join("outer/inner/deep")), path.join("outer"));
        fs::create_dir(path.join("outer/inner/.rookery")).unwrap();
        assert_eq!(root_for(&path.join("outer/inner/deep")), path.join("outer/inner"));
    }

    #[test]
    fn a_plain_folder_is_its_own_root() {
        let (_temp, path) = folder();
        assert_eq!(root_for(&path), path);
    }

    #[test]
    fn a_subfolder_of_a_repository_finds_its_root() {
        let (_temp, path) = folder();
        let main = repository(&path);
        fs::create_dir(main.join("src")).unwrap();
        assert_eq!(root_for(&main.join("src")), main);
    }

    #[test]
    fn every_worktree_finds_the_main_one() {
        let (_temp, path) = folder();
        let main = repository(&path);
        git(&main, &["worktree", "add", "--quiet", "../side"]);
        fs::create_dir(path.join("side/src")).unwrap();
        assert_eq!(root_for(&path.join("side/src")), main);
        fs::create_dir(main.join(FOLDER)).unwrap();
        assert_eq!(root_for(&path.join("side")), main);
    }

    #[test]
    fn worktrees_of_a_bare_repository_share_its_folder() {
        let (_temp, path) = folder();
        let main = repository(&path);
        git(&path, &["clone", "--quiet", "--bare", "main", "shared.git"]);
        git(&path.join("shared.git"), &["worktree", "add", "--quiet", "../one"]);
        git(&path.join("shared.git"), &["worktree", "add", "--quiet", "-b", "two", "../two"]);
        assert_eq!(root_for(&path.join("one")), path.join("shared.git"));
        assert_eq!(root_for(&path.join("two")), path.join("shared.git"));
        assert_eq!(root_for(&main), main);
    }

    #[test]
    fn a_submodule_is_its_own_root() {
        let (_temp, path) = folder();
        let main = repository(&path);
        fs::create_dir(main.join("sub")).unwrap();
        fs::create_dir_all(main.join(".git/modules/sub")).unwrap();
        fs::write(main.join("sub/.git"), "gitdir: ../.git/modules/sub\n").unwrap();
        assert_eq!(root_for(&main.join("sub")), main.join("sub"));
    }
}
