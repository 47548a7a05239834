//! Worktrees in real repositories, and the conditions that can prevent them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rookery_core::model::workspace::Uncommitted;
use rookery_core::workspaces::{BranchFate, BranchOrigin};
use rookery_core::{Code, Rejection};
use tempfile::TempDir;

use super::backup::backup_ref;
use super::merge::MergeRequest;
use super::process::{Git, Programs};
use super::remove::{RemovalRequest, RemovedWorktree};
use super::repository::{GitDirAccess, Repository, check_branch};
use super::worktree::{MadeWorktree, WorktreeRequest};

pub(super) const ID: &str = "ws_1";

/// A repository with one commit on main, and the folder for its worktree.
pub(super) struct Bench {
    pub _folder: TempDir,
    pub root: PathBuf,
    pub path: PathBuf,
    pub repository: Repository,
}

impl Bench {
    pub async fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("app");
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(root.join("a.txt"), "one\n").unwrap();
        fs::write(root.join(".gitignore"), "ignored\n").unwrap();
        git(&root, &["add", "."]);
        git(&root, &["commit", "--quiet", "-m", "first"]);
        let repository = Repository::of_project(&root, bwrap().as_deref()).await.unwrap();
        // As in every project.
        fs::write(root.join(".rookery/.gitignore"), "*\n").unwrap();
        Bench { path: root.parent().unwrap().join("app-worktrees/b"), _folder: folder, root, repository }
    }

    pub async fn make(&self) -> Result<MadeWorktree, Rejection> {
        self.repository.make(WorktreeRequest { workspace: ID, path: &self.path, branch: "b", base: None }).await
    }

    pub async fn with_worktree() -> Bench {
        let bench = Bench::new().await;
        bench.make().await.unwrap();
        bench
    }

    pub async fn remove(&self) -> Result<RemovedWorktree, Rejection> {
        self.repository
            .remove(RemovalRequest { workspace: ID, path: &self.path, branch: "b", base: Some("main") })
            .await
    }

    pub async fn merge(&self, uncommitted: Uncommitted) -> Result<String, Rejection> {
        let offered = MergeRequest { workspace: ID, path: &self.path, branch: "b", base: "main", uncommitted };
        self.repository.merge(offered).await
    }

    /// The content of a file in the backup.
    fn saved(&self, file: &str) -> String {
        git(&self.root, &["show", &format!("{}:{file}", backup_ref(ID))])
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.path.join(file), text).unwrap();
    }

    fn commit(&self, file: &str, text: &str) {
        self.write(file, text);
        git(&self.path, &["add", file]);
        git(&self.path, &["commit", "--quiet", "-m", file]);
    }
}

/// Bubblewrap, where this machine has it.
pub(super) fn bwrap() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("bwrap")).find(|program| program.is_file())
}

#[expect(clippy::disallowed_methods, reason = "the test runs git as a person would")]
pub(super) fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"];
    let output = Command::new("git").current_dir(folder).args(identity).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A git that may fail.
#[expect(clippy::disallowed_methods, reason = "the test runs git as a person would")]
pub(super) fn tries(folder: &Path, arguments: &[&str]) -> bool {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    Command::new("git").current_dir(folder).args(identity).args(arguments).output().unwrap().status.success()
}

#[tokio::test]
async fn branch_name_that_git_rejects_is_rejected() {
    for good in ["main", "feature/google-oauth", "日本", "a.b_c"] {
        check_branch("branch", good).await.unwrap();
    }
    let bad =
        ["", "-b", "--upload-pack=x", "a..b", "x.lock", "/abs", "a b", "@{-1}", "a~1", "a^", "a:b", "HEAD", "a\0b"];
    for name in bad.into_iter().chain(["a\nb", "a/", "a//b", ".a", "@", "a\\b", "a*"]) {
        assert_eq!(check_branch("branch", name).await.unwrap_err().code, Code::Invalid, "{name:?}");
    }
}

#[tokio::test]
async fn making_a_worktree_twice_makes_it_once() {
    let bench = Bench::new().await;
    let made = bench.make().await.unwrap();
    assert_eq!(made, MadeWorktree { base_branch: "main".to_owned(), branch: BranchOrigin::Created });
    assert_eq!(fs::read_to_string(bench.path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(git(&bench.path, &["branch", "--show-current"]), "b\n");
    bench.write("work.txt", "precious");
    assert_eq!(bench.make().await.unwrap(), made, "it happened already");
    assert_eq!(fs::read_to_string(bench.path.join("work.txt")).unwrap(), "precious");
    assert!(!bench.root.join(".git/rookery").exists(), "nothing of ours is in the git folder");
}

#[tokio::test]
async fn existing_branch_is_reused() {
    let bench = Bench::new().await;
    git(&bench.root, &["branch", "b"]);
    assert_eq!(bench.make().await.unwrap().branch, BranchOrigin::Reused);
    assert_eq!(bench.remove().await.unwrap(), RemovedWorktree { backup_ref: None, branch: BranchFate::Kept });
}

#[tokio::test]
async fn conflicting_branch_base_or_folder_is_named() {
    let bench = Bench::new().await;
    let wanted = |path, branch, base| WorktreeRequest { workspace: "ws_2", path, branch, base };
    let elsewhere = bench.path.with_file_name("c");
    let used = bench.repository.make(wanted(&elsewhere, "main", None)).await.unwrap_err();
    assert_eq!(used.code, Code::NameConflict);
    assert!(used.message.contains("checked out at"), "{used}");
    let baseless = bench.repository.make(wanted(&elsewhere, "c", Some("nope"))).await.unwrap_err();
    assert!(baseless.message.contains("no base branch 'nope'"), "{baseless}");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::write(elsewhere.join("x"), "mine").unwrap();
    let taken = bench.repository.make(wanted(&elsewhere, "c", None)).await.unwrap_err();
    assert_eq!(taken.code, Code::NameConflict);
    assert_eq!(fs::read_to_string(elsewhere.join("x")).unwrap(), "mine");
    assert!(!tries(&bench.root, &["rev-parse", "--verify", "refs/heads/c"]), "no branch is left behind");
    assert!(!bench.repository.record_path("ws_2").unwrap().exists());
}

#[tokio::test]
async fn missing_or_empty_repository_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    assert_eq!(Repository::of_project(&root, None).await.unwrap_err().code, Code::Invalid);
    assert!(Repository::of_project(&root.join("gone"), None).await.unwrap_err().message.contains("no folder"));
    git(&root, &["init", "--quiet"]);
    let empty = Repository::of_project(&root, None).await.unwrap();
    let path = root.join("w");
    let refused =
        empty.make(WorktreeRequest { workspace: ID, path: &path, branch: "b", base: None }).await.unwrap_err();
    assert_eq!((refused.code, refused.hint.is_some()), (Code::InvalidState, true), "{refused}");
}

#[tokio::test]
async fn bare_repository_can_have_worktrees() {
    let bench = Bench::new().await;
    let bare = bench.root.with_file_name("app.git");
    git(&bench.root, &["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let repository = Repository::of_project(&bare, bwrap().as_deref()).await.unwrap();
    repository
        .make(WorktreeRequest { workspace: ID, path: &bench.path, branch: "b", base: Some("main") })
        .await
        .unwrap();
    assert!(bench.path.join("a.txt").is_file());
    bench.write("new.txt", "kept");
    let unwanted = RemovalRequest { workspace: ID, path: &bench.path, branch: "b", base: Some("main") };
    let removed = repository.remove(unwanted).await.unwrap();
    assert_eq!(git(&bare, &["show", &format!("{}:new.txt", removed.backup_ref.unwrap())]), "kept");
}

#[tokio::test]
async fn clean_merged_worktree_is_removed_with_its_branch() {
    let bench = Bench::with_worktree().await;
    assert_eq!(bench.remove().await.unwrap(), RemovedWorktree { backup_ref: None, branch: BranchFate::Deleted });
    assert!(!bench.path.exists() && !bench.path.parent().unwrap().exists());
    assert_eq!(
        bench.remove().await.unwrap(),
        RemovedWorktree { backup_ref: None, branch: BranchFate::Gone },
        "done already"
    );
}

#[tokio::test]
async fn removal_saves_all_files_that_are_not_ignored() {
    let bench = Bench::with_worktree().await;
    bench.write("a.txt", "staged\n");
    git(&bench.path, &["add", "a.txt"]);
    bench.write("a.txt", "not staged\n");
    bench.write("untracked.bin", "bytes \u{1} of it");
    bench.write("ignored", "not kept");
    let index = fs::read(bench.root.join(".git/worktrees/b/index")).unwrap();
    let worktree = bench.repository.find(ID, &bench.path).await.unwrap().unwrap();
    bench.repository.save(&worktree, ID, Some("main")).await.unwrap();
    assert_eq!(fs::read(bench.root.join(".git/worktrees/b/index")).unwrap(), index, "the index is not touched");

    let removed = bench.remove().await.unwrap();
    assert_eq!(removed.backup_ref.as_deref(), Some("refs/rookery/backup/ws_1"));
    assert!(!bench.path.exists());
    assert_eq!(bench.saved("a.txt"), "not staged\n");
    assert_eq!(bench.saved("untracked.bin"), "bytes \u{1} of it");
    let staged = format!("{}^2:a.txt", backup_ref(ID));
    assert_eq!(git(&bench.root, &["show", &staged]), "staged\n");
    assert!(!tries(&bench.root, &["show", &format!("{}:ignored", backup_ref(ID))]));
}

#[tokio::test]
async fn unmerged_commits_are_kept_by_branch_and_backup_ref() {
    let bench = Bench::with_worktree().await;
    bench.commit("work.txt", "done");
    let tip = git(&bench.path, &["rev-parse", "HEAD"]);
    let removed = bench.remove().await.unwrap();
    assert_eq!(removed.branch, BranchFate::Kept);
    for name in [removed.backup_ref.as_deref().unwrap(), "b"] {
        assert_eq!(git(&bench.root, &["rev-parse", name]), tip);
    }
}

#[tokio::test]
async fn commits_on_a_detached_head_are_saved() {
    let bench = Bench::with_worktree().await;
    git(&bench.path, &["checkout", "--quiet", "--detach"]);
    bench.commit("work.txt", "on no branch");
    bench.remove().await.unwrap();
    assert_eq!(bench.saved("work.txt"), "on no branch");
}

#[tokio::test]
async fn files_marked_unchanged_are_saved() {
    let bench = Bench::with_worktree().await;
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        git(&bench.path, &["update-index", flag, "a.txt"]);
    }
    bench.write("a.txt", "changed all the same\n");
    bench.remove().await.unwrap();
    assert_eq!(bench.saved("a.txt"), "changed all the same\n");
}

#[tokio::test]
async fn merge_or_rebase_in_progress_is_saved() {
    for operation in ["merge", "rebase"] {
        let bench = Bench::with_worktree().await;
        bench.commit("a.txt", "theirs\n");
        git(&bench.path, &["checkout", "--quiet", "--detach", "main"]);
        bench.commit("a.txt", "ours\n");
        let ours = git(&bench.path, &["rev-parse", "HEAD"]);
        assert!(!tries(&bench.path, &[operation, "b"]), "a conflict");
        bench.write("beside.txt", "also");
        bench.remove().await.unwrap();
        assert!(bench.saved("a.txt").contains("<<<<<<<"), "{operation}");
        assert_eq!(bench.saved("beside.txt"), "also");
        let reached = git(&bench.root, &["rev-list", &backup_ref(ID)]);
        assert!(reached.contains(ours.trim()), "{operation} keeps what it was done to");
    }
}

#[tokio::test]
async fn second_backup_keeps_the_first() {
    let bench = Bench::with_worktree().await;
    bench.write("work.txt", "first");
    let worktree = bench.repository.find(ID, &bench.path).await.unwrap().unwrap();
    bench.repository.save(&worktree, ID, Some("main")).await.unwrap();
    bench.write("work.txt", "second");
    bench.remove().await.unwrap();
    assert_eq!(bench.saved("work.txt"), "second");
    assert_eq!(git(&bench.root, &["show", &format!("{}^2:work.txt", backup_ref(ID))]), "first");
}

#[tokio::test]
async fn worktree_that_cannot_be_saved_is_not_removed() {
    let bench = Bench::with_worktree().await;
    let nested = bench.path.join("vendor/lib");
    fs::create_dir_all(&nested).unwrap();
    git(&nested, &["init", "--quiet"]);
    git(&nested, &["commit", "--quiet", "--allow-empty", "-m", "mine"]);
    let refused = bench.remove().await.unwrap_err();
    assert!(refused.message.contains("separate git repository"), "{refused}");
    assert!(nested.is_dir());
    fs::remove_dir_all(bench.path.join("vendor")).unwrap();

    git(&bench.root, &["worktree", "lock", "--reason", "on a stick", bench.path.to_str().unwrap()]);
    let locked = bench.remove().await.unwrap_err();
    assert_eq!(locked.code, Code::Locked);
    assert!(locked.message.contains("on a stick") && bench.path.is_dir(), "{locked}");
    git(&bench.root, &["worktree", "unlock", bench.path.to_str().unwrap()]);

    let library = bench.root.with_file_name("library");
    git(&bench.root, &["clone", "--quiet", ".", library.to_str().unwrap()]);
    git(&bench.path, &["submodule", "--quiet", "add", library.to_str().unwrap(), "sub"]);
    let modules = bench.remove().await.unwrap_err();
    assert!(modules.message.contains("submodules"), "{modules}");
    assert!(bench.path.join("sub/a.txt").is_file());
}

#[tokio::test]
async fn moved_worktree_is_found_and_deleted_one_is_forgotten() {
    let bench = Bench::with_worktree().await;
    let moved = bench.root.with_file_name("elsewhere");
    git(&bench.root, &["worktree", "move", bench.path.to_str().unwrap(), moved.to_str().unwrap()]);
    fs::write(moved.join("work.txt"), "moved along").unwrap();
    bench.remove().await.unwrap();
    assert!(!moved.exists());
    assert_eq!(bench.saved("work.txt"), "moved along");

    let bench = Bench::with_worktree().await;
    bench.write("staged.txt", "only in the index");
    git(&bench.path, &["add", "staged.txt"]);
    fs::remove_dir_all(&bench.path).unwrap();
    let removed = bench.remove().await.unwrap();
    assert_eq!(bench.saved("staged.txt"), "only in the index");
    assert_eq!(removed.branch, BranchFate::Deleted);
    assert!(!git(&bench.root, &["worktree", "list"]).contains("app-worktrees"));
}

#[tokio::test]
async fn folder_that_is_no_worktree_is_not_removed() {
    let bench = Bench::new().await;
    fs::create_dir_all(&bench.path).unwrap();
    bench.write("mine.txt", "here");
    assert_eq!(bench.remove().await.unwrap_err().code, Code::InvalidState);
    assert!(bench.path.join("mine.txt").is_file());
    let main = RemovalRequest { workspace: ID, path: &bench.root, branch: "main", base: None };
    assert_eq!(bench.repository.remove(main).await.unwrap_err().code, Code::InvalidState);
    assert!(bench.root.join("a.txt").is_file());
}

#[tokio::test]
async fn merge_fast_forwards_or_creates_a_merge_commit() {
    let bench = Bench::with_worktree().await;
    bench.commit("b.txt", "b");
    let tip = git(&bench.path, &["rev-parse", "HEAD"]);
    assert_eq!(bench.merge(Uncommitted::Refuse).await.unwrap(), tip.trim(), "forward");
    assert!(bench.root.join("b.txt").is_file(), "the folder follows its branch");
    assert_eq!(bench.merge(Uncommitted::Refuse).await.unwrap(), tip.trim(), "it happened already");

    bench.commit("c.txt", "c");
    fs::write(bench.root.join("d.txt"), "d").unwrap();
    git(&bench.root, &["add", "d.txt"]);
    git(&bench.root, &["commit", "--quiet", "-m", "d"]);
    fs::write(bench.root.join("untouched.txt"), "work in progress").unwrap();
    let merged = bench.merge(Uncommitted::Refuse).await.unwrap();
    assert_eq!(git(&bench.root, &["rev-parse", "main"]).trim(), merged);
    assert_eq!(git(&bench.root, &["rev-list", "--parents", "-1", &merged]).split_whitespace().count(), 3);
    assert!(bench.root.join("c.txt").is_file() && bench.root.join("d.txt").is_file());
    git(&bench.root, &["commit", "--quiet", "--allow-empty", "-m", "later"]);
    assert_eq!(bench.merge(Uncommitted::Refuse).await.unwrap(), merged, "the commit that brought it in");
}

#[tokio::test]
async fn merge_conflict_names_files_and_changes_nothing() {
    let bench = Bench::with_worktree().await;
    bench.commit("a.txt", "theirs\n");
    fs::write(bench.root.join("a.txt"), "ours\n").unwrap();
    git(&bench.root, &["commit", "--quiet", "-am", "ours"]);
    let before = git(&bench.root, &["for-each-ref"]);
    let refused = bench.merge(Uncommitted::Refuse).await.unwrap_err();
    assert_eq!(refused.code, Code::MergeConflict);
    assert!(refused.message.contains("a.txt"), "{refused}");
    assert_eq!(git(&bench.root, &["for-each-ref"]), before);
    assert_eq!(git(&bench.root, &["status", "--porcelain"]), "");
    assert_eq!(git(&bench.path, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn uncommitted_changes_stop_a_merge_before_it_begins() {
    let bench = Bench::with_worktree().await;
    bench.write("new.txt", "not committed");
    let refused = bench.merge(Uncommitted::Refuse).await.unwrap_err();
    assert!(refused.message.contains("not committed"), "{refused}");
    bench.merge(Uncommitted::Commit).await.unwrap();
    assert_eq!(git(&bench.root, &["log", "-1", "--format=%s"]), "WIP: b\n");
    assert!(bench.root.join("new.txt").is_file());

    bench.commit("a.txt", "changed there\n");
    fs::write(bench.root.join("a.txt"), "and here, not committed\n").unwrap();
    let before = git(&bench.root, &["rev-parse", "main"]);
    let refused = bench.merge(Uncommitted::Refuse).await.unwrap_err();
    assert!(refused.message.contains("cannot go forward"), "{refused}");
    assert_eq!(git(&bench.root, &["rev-parse", "main"]), before);
    assert_eq!(fs::read_to_string(bench.root.join("a.txt")).unwrap(), "and here, not committed\n");

    git(&bench.path, &["checkout", "--quiet", "--detach"]);
    assert!(bench.merge(Uncommitted::Commit).await.unwrap_err().message.contains("is on no branch"));
}

#[tokio::test]
async fn merge_advances_a_base_that_is_not_checked_out() {
    let bench = Bench::with_worktree().await;
    bench.commit("b.txt", "b");
    git(&bench.root, &["checkout", "--quiet", "-b", "other"]);
    let merged = bench.merge(Uncommitted::Refuse).await.unwrap();
    assert_eq!(git(&bench.root, &["rev-parse", "main"]).trim(), merged);
    assert!(!bench.root.join("b.txt").exists(), "no checked-out files change");
}

#[tokio::test]
async fn hooks_of_the_repository_do_not_run() {
    let bench = Bench::new().await;
    for hook in ["post-checkout", "reference-transaction", "post-merge"] {
        use std::os::unix::fs::PermissionsExt;
        let file = bench.root.join(".git/hooks").join(hook);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("#!/bin/sh\ntouch {}/ran\n", bench.root.display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    bench.make().await.unwrap();
    bench.write("b.txt", "b");
    bench.merge(Uncommitted::Commit).await.unwrap();
    bench.remove().await.unwrap();
    assert!(!bench.root.join("ran").exists());
}

#[tokio::test]
async fn crash_while_making_a_worktree_is_repaired() {
    let bench = Bench::with_worktree().await;
    // As left by a daemon that was killed during the checkout.
    let record = bench.repository.record_path(ID).unwrap();
    let made = fs::read_to_string(&record).unwrap();
    let making = made.replace(r#""state":"made""#, r#""state":"making""#);
    assert_ne!(making, made);
    fs::write(&record, &making).unwrap();
    bench.write("a.txt", "o");
    fs::remove_file(bench.root.join(".git/worktrees/b/index")).unwrap();
    fs::write(bench.root.join(".git/worktrees/b/locked"), "initializing").unwrap();
    assert_eq!(bench.make().await.unwrap().branch, BranchOrigin::Created);
    assert_eq!(fs::read_to_string(bench.path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(git(&bench.path, &["status", "--porcelain"]), "");
    // As left by a daemon that was killed after git had finished.
    fs::write(&record, &making).unwrap();
    bench.write("a.txt", "two\n");
    bench.make().await.unwrap();
    assert_eq!(fs::read_to_string(bench.path.join("a.txt")).unwrap(), "two\n", "it is adopted as it is");
    assert_eq!(fs::read_to_string(&record).unwrap(), made);
}

#[tokio::test]
async fn concurrent_worktree_of_another_git_does_not_block() {
    let bench = Bench::new().await;
    let other = bench.root.with_file_name("other");
    git(&bench.root, &["worktree", "add", "--quiet", "-b", "other", other.to_str().unwrap()]);
    let commondir = bench.root.join(".git/worktrees/other/commondir");
    let whole = fs::read(&commondir).unwrap();
    fs::write(&commondir, "").unwrap();
    let finishing = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        fs::write(&commondir, whole).unwrap();
    };
    let (made, ()) = tokio::join!(bench.make(), finishing);
    assert_eq!(made.unwrap().branch, BranchOrigin::Created);
    assert_eq!(git(&bench.path, &["branch", "--show-current"]).trim(), "b");
}

#[tokio::test]
async fn worktrees_folder_in_the_project_is_ignored_by_git() {
    let bench = Bench::new().await;
    let path = bench.root.join(".worktrees/b");
    bench.repository.make(WorktreeRequest { workspace: ID, path: &path, branch: "b", base: None }).await.unwrap();
    assert_eq!(git(&bench.root, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn git_timeout_kills_git_and_its_children() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new().await;
    let (pid, program) = (bench.root.join("pid"), bench.root.join("hangs"));
    fs::write(&program, format!("#!/bin/sh\necho $$ > {}; /bin/sleep 1000 & wait\n", pid.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let programs = Programs { git: program, sandbox: None };
    let git = bench.repository.git(GitDirAccess::Read).unwrap().lasting(std::time::Duration::from_millis(500));
    let refused = Git { programs: &programs, ..git }.text(&["hang"]).await.unwrap_err();
    assert!(refused.message.contains("did not finish within"), "{refused}");
    let started = fs::read_to_string(pid).unwrap();
    // A process that was not waited for yet is still listed.
    let stat = || fs::read_to_string(Path::new("/proc").join(started.trim()).join("stat"));
    let gone = || stat().map_or(true, |stat| stat.contains(") Z "));
    for _ in 0..600 {
        if gone() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("process {started} is still there");
}
