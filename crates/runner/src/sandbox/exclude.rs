//! Keeps Rookery's own folders out of the user's repository.

use std::io;
use std::path::Path;

use super::git;
use crate::open_folder::OpenFolder;

/// Excluded at any depth, since a project may be a folder inside a repository.
const IGNORED: [&str; 2] = [".rookery/", ".worktrees/"];
const FILE: &str = "exclude";
/// Limit on the size of the exclude file.
const MAX_BYTES: u64 = 1 << 20;

/// Adds `.rookery/` and `.worktrees/` to `.git/info/exclude` of the repository around a project, unless they are listed.
/// Does nothing outside of a repository, and follows no links.
pub fn exclude_from_git(project: &Path) -> io::Result<()> {
    let Some(repository) = project.ancestors().find_map(git::common_folder) else { return Ok(()) };
    let (info, _) = OpenFolder::open(&repository)?.create("info")?;
    let before = info.read(FILE.as_ref(), MAX_BYTES)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&before);
    let missing: Vec<&str> = IGNORED.into_iter().filter(|name| !is_ignored(&text, name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut after = before.clone();
    if after.last().is_some_and(|last| *last != b'\n') {
        after.push(b'\n');
    }
    missing.iter().for_each(|name| after.extend([name.as_bytes(), b"\n"].concat()));
    info.write(FILE.as_ref(), &after, 0o644)
}

fn is_ignored(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.trim() == name || line.trim() == name.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn folder(parts: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        parts.iter().for_each(|part| fs::create_dir_all(root.join(part)).unwrap());
        (temp, root)
    }

    #[test]
    fn exclude_lists_own_folders_once_and_keeps_the_rest() {
        let (_temp, root) = folder(&[".git/info", "deep/project"]);
        fs::write(root.join(".git/info/exclude"), "*.log").unwrap();
        for _ in 0..2 {
            exclude_from_git(&root.join("deep/project")).unwrap();
        }
        let text = fs::read_to_string(root.join(".git/info/exclude")).unwrap();
        assert_eq!(text, "*.log\n.rookery/\n.worktrees/\n");
    }

    #[test]
    fn exclude_of_a_worktree_is_written_to_the_common_folder() {
        let (_temp, root) = folder(&["main/.git/worktrees/fix", "fix"]);
        fs::write(root.join("main/.git/worktrees/fix/commondir"), "../..\n").unwrap();
        fs::write(root.join("main/.git/worktrees/fix/gitdir"), format!("{}/fix/.git\n", root.display())).unwrap();
        fs::write(root.join("fix/.git"), format!("gitdir: {}/main/.git/worktrees/fix\n", root.display())).unwrap();
        exclude_from_git(&root.join("fix")).unwrap();
        assert!(root.join("main/.git/info/exclude").exists());
    }

    #[test]
    fn exclude_follows_no_link_and_no_pointer_to_elsewhere() {
        let (_temp, root) = folder(&["project", "linked/.git", "elsewhere/info", "victim"]);
        exclude_from_git(&root.join("project")).unwrap();
        fs::write(root.join("project/.git"), format!("gitdir: {}/elsewhere\n", root.display())).unwrap();
        exclude_from_git(&root.join("project")).unwrap();
        assert_eq!(fs::read_dir(root.join("elsewhere/info")).unwrap().count(), 0);
        symlink(root.join("victim"), root.join("linked/.git/info")).unwrap();
        assert!(exclude_from_git(&root.join("linked")).is_err());
        assert_eq!(fs::read_dir(root.join("victim")).unwrap().count(), 0);
        fs::remove_file(root.join("linked/.git/info")).unwrap();
        fs::create_dir(root.join("linked/.git/info")).unwrap();
        fs::write(root.join("victim/file"), "theirs").unwrap();
        symlink(root.join("victim/file"), root.join("linked/.git/info/exclude")).unwrap();
        exclude_from_git(&root.join("linked")).ok();
        assert_eq!(fs::read_to_string(root.join("victim/file")).unwrap(), "theirs");
    }
}
