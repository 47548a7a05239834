//! Repositories with hostile files, and files that change while git runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rookery_core::model::workspace::Uncommitted;
use rookery_core::{Code, Rejection};

use super::WorktreeRequest;
use super::repository::Repository;
use super::tests::{Bench, ID, bwrap, git, tries};
use crate::held::HeldFolder;

impl Bench {
    /// A folder that no agent can write, with a file in it.
    fn outside(&self) -> PathBuf {
        let outside = self.root.with_file_name("outside");
        fs::create_dir_all(outside.join("b")).unwrap();
        fs::write(outside.join("precious"), "precious").unwrap();
        outside
    }

    fn mark(&self) -> PathBuf {
        self.root.with_file_name("mark")
    }

    /// Settings that make git run a program wherever possible.
    fn hostile_settings(&self) -> String {
        let run = format!("sh -c 'touch {}; cat'", self.mark().display());
        let run = run.replace('"', "\\\"");
        format!(
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"{run}\"\n\thooksPath = {hooks}\n\tpager = \"{run}\"\n\
            \teditor = \"{run}\"\n\tsshCommand = \"{run}\"\n\talternateRefsCommand = \"{run}\"\n\
            [filter \"e\"]\n\tclean = \"{run}\"\n\tsmudge = \"{run}\"\n\trequired = true\n\
            [filter \"p\"]\n\tprocess = \"{run}\"\n[diff]\n\texternal = \"{run}\"\n[diff \"e\"]\n\ttextconv = \"{run}\"\n\
            [merge \"e\"]\n\tdriver = \"{run}\"\n[gpg]\n\tprogram = \"{run}\"\n[commit]\n\tgpgSign = true\n\
            [alias]\n\tstatus = \"!{run}\"\n[credential]\n\thelper = \"!{run}\"\n[rerere]\n\tenabled = true\n\
            [extensions]\n\tworktreeConfig = true\n",
            hooks = self.root.join("hooks").display(),
        )
    }

    fn become_hostile(&self) {
        fs::write(self.root.join(".git/config"), self.hostile_settings()).unwrap();
        fs::write(self.root.join(".git/info/attributes"), ATTRIBUTES).unwrap();
        fs::write(self.root.join(".git/config.worktree"), self.hostile_settings()).unwrap();
        fs::create_dir_all(self.root.join("hooks")).unwrap();
        for hook in ["post-checkout", "reference-transaction", "post-merge", "post-index-change", "pre-commit"] {
            use std::os::unix::fs::PermissionsExt;
            let file = self.root.join("hooks").join(hook);
            fs::write(&file, format!("#!/bin/sh\ntouch {}\n", self.mark().display())).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    async fn reopened(&self) -> Result<Repository, Rejection> {
        Repository::of_project(&self.root, bwrap().as_deref()).await
    }
}

const ATTRIBUTES: &str = "* filter=e diff=e merge=e\n*.p filter=p\n";

/// A repository in a folder below, with a filter and a changed file.
fn nested(folder: &Path, mark: &Path) {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "--quiet"]);
    fs::write(folder.join(".gitattributes"), "* filter=e\n").unwrap();
    fs::write(folder.join("f"), "one").unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "f"]);
    git(folder, &["config", "filter.e.clean", &format!("sh -c 'touch {}; cat'", mark.display())]);
    fs::write(folder.join("f"), "changed").unwrap();
}

#[tokio::test]
async fn programs_in_settings_do_not_run_without_sandbox_either() {
    for bwrap in [bwrap(), None] {
        let bench = Bench::new().await;
        bench.become_hostile();
        let repository = Repository::of_project(&bench.root, bwrap.as_deref()).await.unwrap();
        let bench = Bench { repository, ..bench };
        bench.make().await.unwrap();
        bench.write(".gitattributes", ATTRIBUTES);
        bench.write("x.p", "p");
        bench.write("a.txt", "two\n");
        assert!(!bench.repository.is_clean(&bench.path).await.unwrap());
        bench.merge(Uncommitted::Commit).await.unwrap();
        // Both sides change the same file, so that a driver would be asked.
        bench.write("a.txt", "1\ntwo\n");
        fs::write(bench.root.join("other.txt"), "other").unwrap();
        bench.merge(Uncommitted::Commit).await.unwrap();
        bench.write("a.txt", "not merged\n");
        bench.remove().await.unwrap();
        assert!(!bench.mark().exists(), "with {bwrap:?} a program ran");
    }
}

#[tokio::test]
async fn nested_repositories_are_not_entered() {
    let bench = Bench::with_worktree().await;
    nested(&bench.path.join("n"), &bench.mark());
    assert!(!bench.repository.is_clean(&bench.path).await.unwrap());
    let refused = bench.remove().await.unwrap_err();
    assert!(refused.message.contains("separate git repository"), "{refused}");
    // Known to git as a repository: a plain `git add` and `git status` would look into it.
    git(&bench.path, &["add", "n"]);
    git(&bench.path, &["commit", "--quiet", "-m", "n"]);
    fs::remove_file(bench.mark()).ok();
    fs::write(bench.path.join("n/f"), "changed again").unwrap();
    assert!(bench.repository.is_clean(&bench.path).await.unwrap());
    bench.write("a.txt", "two\n");
    bench.merge(Uncommitted::Commit).await.unwrap();
    let refused = bench.remove().await.unwrap_err();
    assert!(refused.message.contains("separate git repository"), "{refused}");
    assert!(!bench.mark().exists(), "a filter of the nested repository ran");
}

#[tokio::test]
async fn worktree_below_link_is_rejected() {
    let bench = Bench::new().await;
    let outside = bench.outside();
    symlink(&outside, bench.root.join(".worktrees")).unwrap();
    for name in [".worktrees/b", ".worktrees/c/d"] {
        let path = bench.root.join(name);
        bench
            .repository
            .make(WorktreeRequest { workspace: ID, path: &path, branch: "b", base: None })
            .await
            .unwrap_err();
    }
    let mut names: Vec<_> = fs::read_dir(&outside).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["b", "precious"]);
    assert!(fs::read_dir(outside.join("b")).unwrap().next().is_none());
    assert!(!tries(&bench.root, &["rev-parse", "--verify", "refs/heads/b"]), "no branch is left behind");
}

#[tokio::test]
async fn worktree_whose_pointers_were_changed_is_rejected() {
    let bench = Bench::with_worktree().await;
    let outside = bench.outside();
    let own = fs::read_to_string(bench.path.join(".git")).unwrap();
    let admin = bench.root.join(".git/worktrees/b");
    // A folder that does not lead back is not removed, whatever git's files say.
    fs::write(admin.join("gitdir"), format!("{}/.git\n", outside.display())).unwrap();
    assert_eq!(bench.remove().await.unwrap_err().code, Code::Forbidden);
    assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "precious");
    fs::write(admin.join("gitdir"), format!("{}/.git\n", bench.path.display())).unwrap();
    // A repository of another place.
    let evil = bench.root.with_file_name("evil");
    nested(&evil, &bench.mark());
    fs::write(bench.path.join(".git"), format!("gitdir: {}\n", evil.join(".git").display())).unwrap();
    assert_eq!(bench.repository.is_clean(&bench.path).await.unwrap_err().code, Code::Forbidden);
    assert_eq!(bench.merge(Uncommitted::Commit).await.unwrap_err().code, Code::Forbidden);
    fs::write(bench.path.join(".git"), &own).unwrap();
    // The shared folder that the worktree's admin folder names is not used.
    fs::write(admin.join("commondir"), evil.join(".git").to_str().unwrap()).unwrap();
    bench.write("a.txt", "two\n");
    assert!(!bench.repository.is_clean(&bench.path).await.unwrap());
    assert!(!bench.mark().exists());
}

#[tokio::test]
async fn changed_commondir_of_the_project_is_rejected() {
    let bench = Bench::new().await;
    let evil = bench.root.with_file_name("evil");
    nested(&evil, &bench.mark());
    let commondir = bench.root.join(".git/commondir");
    fs::write(&commondir, ".\n").unwrap();
    bench.reopened().await.unwrap();
    fs::write(&commondir, format!("{}\n", evil.join(".git").display())).unwrap();
    assert_eq!(bench.reopened().await.unwrap_err().code, Code::Forbidden);
    fs::remove_file(&commondir).unwrap();
    symlink("/nowhere", &commondir).unwrap();
    assert_eq!(bench.reopened().await.unwrap_err().code, Code::Forbidden);
    fs::remove_file(&commondir).unwrap();
    fs::rename(bench.root.join(".git"), bench.root.join("moved")).unwrap();
    symlink(evil.join(".git"), bench.root.join(".git")).unwrap();
    assert_eq!(bench.reopened().await.unwrap_err().code, Code::Invalid);
}

#[tokio::test]
async fn branch_with_files_of_rookery_is_not_merged() {
    let bench = Bench::with_worktree().await;
    fs::write(bench.root.join(".rookery/person.key"), "secret").unwrap();
    for path in [".rookery/person.key", "sub/.ROOKERY/x"] {
        let file = bench.path.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "known").unwrap();
        git(&bench.path, &["add", "--force", path]);
        git(&bench.path, &["commit", "--quiet", "-m", "key"]);
        assert_eq!(bench.merge(Uncommitted::Refuse).await.unwrap_err().code, Code::Forbidden, "{path}");
        git(&bench.path, &["reset", "--quiet", "--hard", "main"]);
    }
    assert_eq!(fs::read_to_string(bench.root.join(".rookery/person.key")).unwrap(), "secret");
}

#[tokio::test]
async fn worktree_that_holds_the_project_is_not_removed() {
    let bench = Bench::with_worktree().await;
    let project = bench.path.clone();
    let repository = Repository::of_project(&project, bwrap().as_deref()).await.unwrap();
    assert_eq!(repository.root, bench.root);
    let unwanted = super::RemovalRequest { workspace: "ws_2", path: &project, branch: "b", base: Some("main") };
    assert_eq!(repository.remove(unwanted).await.unwrap_err().code, Code::Forbidden);
    assert!(project.join("a.txt").is_file());
}

/// Makes one random change that an agent could make.
fn disturb(rng: &mut StdRng, bench: &Disturbed) {
    let Disturbed { root, path, outside, settings } = bench;
    let (folder, aside) = (path.parent().unwrap(), root.join("aside"));
    let admin = root.join(".git/worktrees/b");
    let link = |from: &Path| {
        if fs::rename(from, &aside).is_ok() {
            symlink(outside, from).ok();
            std::thread::yield_now();
            fs::remove_file(from).ok();
            fs::rename(&aside, from).ok();
        }
    };
    match rng.random_range(0..9) {
        0 => link(folder),
        1 => link(path),
        2 => link(&admin),
        3 => drop(fs::write(root.join(".git/config"), settings)),
        4 => drop(fs::write(path.join(".gitattributes"), ATTRIBUTES)),
        5 => drop(fs::write(admin.join("commondir"), outside.to_str().unwrap())),
        6 => drop(fs::write(admin.join("gitdir"), format!("{}/.git\n", outside.display()))),
        7 => drop(fs::write(admin.join("gitdir"), format!("{}/.git\n", path.display()))),
        _ => link(&root.join(".git/refs")),
    }
}

struct Disturbed {
    root: PathBuf,
    path: PathBuf,
    outside: PathBuf,
    settings: String,
}

/// Every file below a folder, with its bytes.
fn content(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = vec![];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path.clone());
            }
            all.push((path.clone(), fs::read(&path).ok()));
        }
    }
    all.sort();
    all
}

/// How many rounds of making, merging and removing are disturbed.
const ROUNDS: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_under_git_change_nothing_outside() {
    let (mut made, mut merged) = (0, 0);
    for seed in 0..ROUNDS {
        let bench = Bench::new().await;
        let mut bench = Bench { path: bench.root.join(".worktrees/b"), ..bench };
        let (outside, mark) = (bench.outside(), bench.mark());
        let before = content(&outside);
        let disturbed = Disturbed {
            root: bench.root.clone(),
            path: bench.path.clone(),
            outside: outside.clone(),
            settings: bench.hostile_settings(),
        };
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let disturbing = std::thread::spawn(move || {
            let mut rng = StdRng::seed_from_u64(seed);
            // In some rounds so seldom that most of the work is done in between.
            let longest = 3_000 << (seed % 4 * 2);
            while !stop.load(Ordering::Relaxed) {
                disturb(&mut rng, &disturbed);
                std::thread::sleep(std::time::Duration::from_micros(rng.random_range(0..longest)));
            }
        });
        // Whether one of these succeeds is chance; what it may touch is not.
        if let Ok(repository) = bench.reopened().await {
            bench.repository = repository;
            made += usize::from(bench.make().await.is_ok());
            // Not by its path: that may be a link right now.
            HeldFolder::open(&bench.path).and_then(|folder| folder.write_new("work.txt", b"work")).ok();
            drop(bench.repository.is_clean(&bench.path).await);
            merged += usize::from(bench.merge(Uncommitted::Commit).await.is_ok());
            drop(bench.remove().await);
        }
        done.store(true, Ordering::Relaxed);
        disturbing.join().unwrap();
        assert_eq!(content(&outside), before, "seed {seed}");
        assert!(!mark.exists(), "seed {seed}: a program ran");
    }
    assert!(made > 0, "every round was disturbed too much to prove anything ({merged} merged)");
}
