//! Keeps an agent from changing files that a person's own git runs or obeys.
//!
//! An agent that commits writes to the repository's git folder. The parts of it that decide what git executes, or where it
//! looks for its settings, are mounted read only. A mount can be neither moved nor replaced. A missing part is created as a
//! [placeholder](super::placeholder), because nothing can be mounted over a missing file.
//!
//! A `.git` that is a link or a file can be written by the agent, so it grants nothing by itself: a git folder elsewhere is
//! opened to the agent only if that git folder also names this folder as its own.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::placeholder::Placeholder;
use super::spec::FOLDER;

/// Folders of a git folder that decide what git runs, reads as settings, or pushes to.
const FOLDERS: &[&str] = &["hooks", "info", "branches", "remotes", "modules", "worktrees"];
/// Files of the same kind, with the contents of their placeholders. A `commondir` of `.` means "this folder" to git.
const FILES: &[(&str, &str)] = &[("config", ""), ("config.worktree", ""), (COMMON, ".\n")];
const COMMON: &str = "commondir";
const BACK_LINK: &str = "gitdir";
const DOT_GIT: &str = ".git";
/// The project's folder for worktrees.
const WORKTREES: &str = ".worktrees";

/// Bounds of the search for repositories inside the agent's folder.
const MAX_SEARCHED_ENTRIES: usize = 100_000;
const MAX_NESTED_REPOSITORIES: usize = 64;
/// Bounds of the search for submodules inside a git folder.
const MAX_MODULE_DEPTH: usize = 8;

/// The mounts that protect the repositories an agent can write to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Protection {
    pub write: Vec<PathBuf>,
    pub read: Vec<PathBuf>,
    pub placeholders: Vec<Placeholder>,
}

/// The reason why a repository cannot be protected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtectionError {
    #[error("{0} is a link or not a plain file or folder, so an agent could replace it; put a real one in its place")]
    Link(String),
    #[error("{0} leads to another git folder; remove it, or give the agent the project of that git folder")]
    Elsewhere(String),
    #[error("cannot protect {0}: {1}")]
    Disk(String, String),
}

/// The worktrees of a repository that an agent may commit in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WorktreeAccess<'a> {
    /// All existing ones: the agent works in the main folder, which contains them.
    Every,
    /// The one with this administrative folder.
    Only(&'a Path),
}

impl Protection {
    /// Protects the repository of an agent's folder and the `nested` ones found in what it can write.
    pub(super) fn of(folder: &Path, nested: &[PathBuf]) -> Result<Protection, ProtectionError> {
        let mut all = Protection::default();
        let dot_git = folder.join(DOT_GIT);
        match fs::symlink_metadata(&dot_git) {
            Ok(found) if found.is_dir() => {
                all.protect_repository(&dot_git, WorktreeAccess::Every)?;
                all.pin_worktrees(folder);
            }
            Ok(found) if found.is_file() => {
                all.protect_linked(folder, &dot_git)?;
                all.read.push(dot_git);
            }
            // Nothing to protect; a link grants nothing.
            _ => {}
        }
        nested.iter().for_each(|dot_git| all.protect_nested(dot_git));
        Ok(all)
    }

    /// Protects a folder whose `.git` is a file: a linked worktree, or a submodule.
    fn protect_linked(&mut self, folder: &Path, dot_git: &Path) -> Result<(), ProtectionError> {
        let Some(own) = read_pointer(folder, dot_git) else { return Ok(()) };
        if let Some(common) = common_of_worktree(&own, dot_git) {
            return self.protect_repository(&common, WorktreeAccess::Only(&own));
        }
        if names_as_work_tree(&own, folder) {
            return self.protect_repository(&own, WorktreeAccess::Every);
        }
        Ok(())
    }

    /// Opens a git folder for writing, except for the parts that git obeys.
    fn protect_repository(&mut self, git: &Path, access: WorktreeAccess<'_>) -> Result<(), ProtectionError> {
        self.write.push(git.to_path_buf());
        for name in FOLDERS {
            self.protect_part(Placeholder::folder(git.join(name)))?;
        }
        for (name, text) in FILES {
            self.protect_part(Placeholder::file(git.join(name), text))?;
        }
        let common = git.join(COMMON);
        let target = fs::read_to_string(&common).ok().and_then(|text| git.join(text.trim()).canonicalize().ok());
        if target.as_deref() != Some(git) {
            return Err(ProtectionError::Elsewhere(common.display().to_string()));
        }
        for admin in folders_in(&git.join("worktrees")) {
            if access == WorktreeAccess::Every || access == WorktreeAccess::Only(&admin) {
                self.protect_worktree(&admin)?;
            }
        }
        self.protect_modules(&git.join("modules"), 0)
    }

    /// Opens the administrative folder of a worktree that the agent commits in.
    fn protect_worktree(&mut self, admin: &Path) -> Result<(), ProtectionError> {
        self.write.push(admin.to_path_buf());
        for name in [COMMON, BACK_LINK] {
            let path = admin.join(name);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_file() => self.read.push(path),
                Ok(_) => return Err(ProtectionError::Link(path.display().to_string())),
                // Without these files, git does not treat the folder as a worktree's.
                Err(_) => {}
            }
        }
        self.protect_part(Placeholder::file(admin.join("config.worktree"), ""))
    }

    /// Opens the submodules that are set up. Their names may contain slashes.
    fn protect_modules(&mut self, folder: &Path, depth: usize) -> Result<(), ProtectionError> {
        for module in folders_in(folder) {
            if module.join("HEAD").is_file() {
                self.protect_repository(&module, WorktreeAccess::Every)?;
            } else if depth < MAX_MODULE_DEPTH {
                self.protect_modules(&module, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Mounts the project's worktrees, so that no link can replace one while another agent's sandbox is being opened.
    fn pin_worktrees(&mut self, folder: &Path) {
        let worktrees = folder.join(WORKTREES);
        let inside = folders_in(&worktrees);
        if !inside.is_empty() {
            self.write.push(worktrees);
            self.write.extend(inside);
        }
    }

    /// Protects a repository inside the agent's folder. Its existing parts become read only; more is impossible, because the
    /// agent can move its folders.
    fn protect_nested(&mut self, dot_git: &Path) {
        // If the path now contains a link, it leads elsewhere than when it was found.
        if !dot_git.canonicalize().is_ok_and(|real| real == dot_git) {
            return;
        }
        if dot_git.is_file() {
            self.read.push(dot_git.to_path_buf());
            return;
        }
        let names = FOLDERS.iter().copied().chain(FILES.iter().map(|(name, _)| *name));
        let parts = names.map(|name| dot_git.join(name));
        self.read.extend(parts.filter(|part| fs::symlink_metadata(part).is_ok_and(|found| !found.is_symlink())));
    }

    fn protect_part(&mut self, placeholder: Placeholder) -> Result<(), ProtectionError> {
        let path = placeholder.path.clone();
        let made = placeholder.ensure();
        let shown = || path.display().to_string();
        if !made.map_err(|error: io::Error| ProtectionError::Disk(shown(), error.to_string()))? {
            return Err(ProtectionError::Link(shown()));
        }
        self.read.push(path);
        self.placeholders.push(placeholder);
        Ok(())
    }
}

/// The git folder that a folder's `.git` leads to and that worktrees share, if that git folder also names the folder.
pub(super) fn common_folder(folder: &Path) -> Option<PathBuf> {
    let dot_git = folder.join(DOT_GIT);
    let found = fs::symlink_metadata(&dot_git).ok()?;
    if found.is_dir() {
        return Some(dot_git);
    }
    let own = read_pointer(folder, &dot_git).filter(|_| found.is_file())?;
    common_of_worktree(&own, &dot_git).or_else(|| names_as_work_tree(&own, folder).then_some(own))
}

/// The git folder that a `.git` file names.
fn read_pointer(folder: &Path, dot_git: &Path) -> Option<PathBuf> {
    let pointer = fs::read_to_string(dot_git).ok()?;
    folder.join(pointer.strip_prefix("gitdir:")?.trim()).canonicalize().ok().filter(|path| path.is_dir())
}

/// The git folder that a worktree's administrative folder belongs to, if it names this `.git` file in turn.
fn common_of_worktree(own: &Path, dot_git: &Path) -> Option<PathBuf> {
    let read = |name: &str| fs::read_to_string(own.join(name)).ok();
    let common = own.join(read(COMMON)?.trim()).canonicalize().ok()?;
    let back = own.join(read(BACK_LINK)?.trim()).canonicalize().ok()?;
    let is_own = own.parent() == Some(&common.join("worktrees")) && back == dot_git.canonicalize().ok()?;
    is_own.then_some(common)
}

/// Whether the settings of a git folder name `folder` as its work tree, as those of a submodule do.
fn names_as_work_tree(git: &Path, folder: &Path) -> bool {
    let Ok(config) = fs::read_to_string(git.join("config")) else { return false };
    let mut section = String::new();
    for line in config.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.split(']').next().unwrap_or_default().trim().to_ascii_lowercase();
        } else if let Some((key, value)) = line.split_once('=')
            && section == "core"
            && key.trim().eq_ignore_ascii_case("worktree")
        {
            let value = value.trim().trim_matches('"');
            return git.join(value).canonicalize().is_ok_and(|path| path == folder);
        }
    }
    false
}

/// The folders in a folder, sorted, without links.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut all: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Something that an agent can create in its own folder and that a person's git would run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Trap {
    Repository(PathBuf),
    Rebase(PathBuf),
}

impl Trap {
    pub(super) fn path(&self) -> &Path {
        match self {
            Trap::Repository(path) | Trap::Rebase(path) => path,
        }
    }

    pub(super) fn warning(&self) -> &'static str {
        match self {
            Trap::Repository(_) => {
                "an agent created this repository, and your own git runs commands from its settings, also from the project: \
                 check its config and hooks, or remove it, before you use git there"
            }
            Trap::Rebase(_) => {
                "an agent left a rebase unfinished: check its git-rebase-todo for `exec` lines before you continue it"
            }
        }
    }
}

/// Lists the traps that exist at present.
pub(super) fn find_traps(folder: &Path, roots: &[PathBuf]) -> Vec<Trap> {
    let own = roots.iter().map(|root| root.join(DOT_GIT)).filter(|path| fs::symlink_metadata(path).is_ok());
    let mut all: Vec<Trap> = own.chain(find_nested_repositories(roots)).map(Trap::Repository).collect();
    let git = read_pointer(folder, &folder.join(DOT_GIT)).unwrap_or_else(|| folder.join(DOT_GIT));
    let rebases = ["rebase-merge", "rebase-apply"].map(|name| git.join(name)).into_iter();
    all.extend(rebases.filter(|path| path.is_dir()).map(Trap::Rebase));
    all
}

/// Finds every `.git` below the folders, outer ones first, except those of the folders themselves.
pub(super) fn find_nested_repositories(folders: &[PathBuf]) -> Vec<PathBuf> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut waiting: VecDeque<PathBuf> = folders.iter().cloned().collect();
    while let Some(folder) = waiting.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_SEARCHED_ENTRIES || found.len() == MAX_NESTED_REPOSITORIES {
                return found;
            }
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            if name == DOT_GIT && !kind.is_symlink() {
                found.extend((!folders.contains(&folder)).then(|| entry.path()));
            } else if kind.is_dir() && name != FOLDER {
                waiting.push_back(entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Disk(tempfile::TempDir);

    impl Disk {
        /// A repository with a worktree and a submodule.
        fn new() -> Disk {
            let disk = Disk(tempfile::tempdir().unwrap());
            for folder in [".git/objects", ".git/worktrees/fix", ".git/worktrees/other", ".git/modules/libs/a", "sub"] {
                fs::create_dir_all(disk.at(folder)).unwrap();
            }
            fs::create_dir_all(disk.at(".worktrees/fix")).unwrap();
            disk.write(".git/config", "[core]\n");
            disk.write(".git/modules/libs/a/HEAD", "ref: refs/heads/main\n");
            disk.write(".git/modules/libs/a/config", "[core]\n\tworktree = ../../../../sub\n");
            disk.write("sub/.git", "gitdir: ../.git/modules/libs/a\n");
            disk.write(".git/worktrees/fix/commondir", "../..\n");
            disk.write(".git/worktrees/fix/gitdir", &format!("{}\n", disk.at(".worktrees/fix/.git").display()));
            disk.write(".worktrees/fix/.git", &format!("gitdir: {}\n", disk.at(".git/worktrees/fix").display()));
            disk
        }

        fn at(&self, path: &str) -> PathBuf {
            let root = self.0.path().canonicalize().unwrap();
            if path.is_empty() { root } else { root.join(path) }
        }

        fn write(&self, path: &str, text: &str) {
            fs::write(self.at(path), text).unwrap();
        }
    }

    #[test]
    fn main_folder_protects_settings_of_the_repository_its_worktrees_and_submodules() {
        let disk = Disk::new();
        let protection = Protection::of(&disk.at(""), &[]).unwrap();
        for path in ["", "/modules/libs/a"].map(|git| disk.at(&format!(".git{git}"))) {
            assert!(protection.write.contains(&path), "{protection:?}");
            for name in FOLDERS.iter().copied().chain(["config", "config.worktree", COMMON]) {
                assert!(protection.read.contains(&path.join(name)), "{name}: {protection:?}");
                assert!(path.join(name).exists(), "{name} exists, so that it can be mounted");
            }
        }
        for path in [".git/worktrees/fix", ".git/worktrees/other", ".worktrees", ".worktrees/fix"] {
            assert!(protection.write.contains(&disk.at(path)), "{path}: {protection:?}");
        }
        for path in ["fix/commondir", "fix/gitdir", "fix/config.worktree", "other/config.worktree"] {
            assert!(protection.read.contains(&disk.at(".git/worktrees").join(path)), "{path}: {protection:?}");
        }
    }

    #[test]
    fn worktree_opens_its_own_administrative_folder_only() {
        let disk = Disk::new();
        let protection = Protection::of(&disk.at(".worktrees/fix"), &[]).unwrap();
        assert!(protection.write.contains(&disk.at(".git/worktrees/fix")));
        assert!(!protection.write.contains(&disk.at(".git/worktrees/other")));
        assert!(protection.read.contains(&disk.at(".worktrees/fix/.git")));
        assert!(protection.read.contains(&disk.at(".git/worktrees")));
    }

    #[test]
    fn submodule_opens_the_git_folder_that_names_it() {
        let disk = Disk::new();
        let protection = Protection::of(&disk.at("sub"), &[]).unwrap();
        assert_eq!(protection.write, [disk.at(".git/modules/libs/a")]);
    }

    #[test]
    fn git_file_or_link_made_by_an_agent_opens_nothing() {
        let disk = Disk::new();
        fs::create_dir_all(disk.at("mine/fake/worktrees/x")).unwrap();
        fs::create_dir_all(disk.at("ssh")).unwrap();
        let opened = |disk: &Disk| Protection::of(&disk.at("mine"), &[]).unwrap().write;
        symlink(disk.at(".git"), disk.at("mine/.git")).unwrap();
        assert_eq!(opened(&disk), Vec::<PathBuf>::new(), "a link to another repository");
        fs::remove_file(disk.at("mine/.git")).unwrap();
        for target in ["ssh", ".git", ".git/worktrees/fix", ".git/modules/libs/a"] {
            disk.write("mine/.git", &format!("gitdir: {}\n", disk.at(target).display()));
            assert_eq!(opened(&disk), Vec::<PathBuf>::new(), "{target}");
        }
        // A made-up worktree that claims to belong to the repository.
        disk.write("mine/.git", "gitdir: fake/worktrees/x\n");
        disk.write("mine/fake/worktrees/x/commondir", &format!("{}\n", disk.at(".git").display()));
        disk.write("mine/fake/worktrees/x/gitdir", &format!("{}\n", disk.at("mine/.git").display()));
        assert_eq!(opened(&disk), Vec::<PathBuf>::new());
    }

    #[test]
    fn linked_or_diverted_settings_are_rejected() {
        let disk = Disk::new();
        symlink(disk.at("sub"), disk.at(".git/hooks")).unwrap();
        assert!(matches!(Protection::of(&disk.at(""), &[]), Err(ProtectionError::Link(_))));
        fs::remove_file(disk.at(".git/hooks")).unwrap();
        disk.write(".git/commondir", "../sub\n");
        assert!(matches!(Protection::of(&disk.at(""), &[]), Err(ProtectionError::Elsewhere(_))));
    }

    #[test]
    fn nested_repositories_are_found_and_keep_their_settings() {
        let disk = Disk::new();
        fs::create_dir_all(disk.at("vendor/x/.git/hooks")).unwrap();
        disk.write("vendor/x/.git/config", "");
        let nested = find_nested_repositories(&[disk.at("")]);
        assert_eq!(nested, [disk.at("sub/.git"), disk.at(".worktrees/fix/.git"), disk.at("vendor/x/.git")]);
        let protection = Protection::of(&disk.at(""), &nested).unwrap();
        for path in ["sub/.git", "vendor/x/.git/hooks", "vendor/x/.git/config"] {
            assert!(protection.read.contains(&disk.at(path)), "{path}: {protection:?}");
        }
        // A link may lead to another folder by now.
        fs::rename(disk.at("vendor"), disk.at("moved")).unwrap();
        symlink(disk.at("moved"), disk.at("vendor")).unwrap();
        let moved = Protection::of(&disk.at(""), &nested).unwrap();
        assert!(!moved.read.iter().any(|path| path.starts_with(disk.at("vendor"))), "{moved:?}");
    }
}
