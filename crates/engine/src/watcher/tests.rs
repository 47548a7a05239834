//! The watcher on a real file system. No test sleeps: it waits for the expected observation, and where it expects none, it
//! makes a later change and waits for that one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use notify::event::Flag;
use notify::{Event, EventKind};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Longer than any machine needs; only a failing test waits for it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The hash of an empty file. `fs::write` empties a file before it fills it; a busy machine may stop it in between for
/// longer than the settling time, and then the empty file is rightly reported.
const EMPTIED: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct Stage {
    dir: TempDir,
    claims: watch::Sender<Arc<WatchedClaims>>,
    out: mpsc::Receiver<Observation>,
    handle: Handle,
}

impl Stage {
    /// A project with these files, watched with these claims.
    async fn new(files: &[(&str, &str)], claimed: &[(&str, KnownContent)], trees: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            write(dir.path(), path, content);
        }
        Self::start(dir, watched(claimed, trees), |_| {}).await
    }

    async fn start(dir: TempDir, claims: WatchedClaims, tune: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(dir.path());
        config.settle = Duration::from_millis(40);
        config.summary_every = Duration::from_millis(100);
        tune(&mut config);
        let (claims, receiver) = watch::channel(Arc::new(claims));
        let (sender, out) = mpsc::channel(16);
        let handle = Watcher::start(config, receiver, sender).unwrap();
        timeout(TIMEOUT, handle.ready()).await.unwrap();
        Self { dir, claims, out, handle }
    }

    fn write(&self, path: &str, content: &str) {
        write(self.dir.path(), path, content);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn claim(&self, claimed: &[(&str, KnownContent)], trees: &[&str]) {
        self.claims.send_replace(Arc::new(watched(claimed, trees)));
    }

    async fn next(&mut self) -> Observation {
        timeout(TIMEOUT, self.out.recv()).await.expect("an observation in time").expect("a running watcher")
    }

    /// The next change of a claimed file, with the names of unclaimed files reported before it.
    async fn claimed(&mut self) -> ((String, String, String), Vec<String>) {
        let mut others = Vec::new();
        let mut emptied = BTreeMap::new();
        loop {
            match self.next().await {
                Observation::Claimed { path, before, after } if after == EMPTIED => {
                    emptied.insert(path, before);
                }
                Observation::Claimed { path, before, after } => {
                    let before = emptied.remove(&path).unwrap_or(before);
                    return ((path, before, after), others);
                }
                Observation::Others { sample, .. } => others.extend(sample),
                Observation::Warning { message, .. } => panic!("{message}"),
            }
        }
    }

    /// Waits until an unclaimed file is reported; claimed ones must not be.
    async fn other(&mut self, path: &str) -> Vec<String> {
        let mut others = Vec::new();
        while !others.iter().any(|other| other == path) {
            match self.next().await {
                Observation::Others { sample, .. } => others.extend(sample),
                unexpected => panic!("{unexpected:?}"),
            }
        }
        others
    }
}

fn write(root: &Path, path: &str, content: &str) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, content).unwrap();
}

fn watched(claimed: &[(&str, KnownContent)], trees: &[&str]) -> WatchedClaims {
    WatchedClaims {
        files: claimed.iter().map(|(path, known)| ((*path).to_owned(), known.clone())).collect(),
        trees: trees.iter().map(|path| (*path).to_owned()).collect(),
    }
}

/// The hash of a content; `""` stands for no file.
fn sha(content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known(content: &str) -> KnownContent {
    KnownContent::Hash(sha(content))
}

fn change(path: &str, before: &str, after: &str) -> (String, String, String) {
    (path.to_owned(), sha(before), sha(after))
}

#[tokio::test]
async fn claimed_file_is_reported_with_both_hashes() {
    let mut stage = Stage::new(&[("src/a.rs", "one")], &[("src/a.rs", known("one"))], &[]).await;
    stage.write("src/a.rs", "two");
    assert_eq!(stage.claimed().await.0, change("src/a.rs", "one", "two"));
    stage.write("src/a.rs", "three");
    assert_eq!(stage.claimed().await.0, change("src/a.rs", "two", "three"));
}

#[tokio::test]
async fn write_of_the_same_content_is_not_reported() {
    let mut stage = Stage::new(&[("a", "one"), ("b", "one")], &[("a", known("one")), ("b", known("one"))], &[]).await;
    stage.write("a", "one");
    stage.write("b", "two");
    assert_eq!(stage.claimed().await.0, change("b", "one", "two"));
}

#[tokio::test]
async fn changes_before_the_start_are_found() {
    let mut stage = Stage::new(&[("a", "two")], &[("a", known("one")), ("gone", known("one"))], &[]).await;
    assert_eq!(stage.claimed().await.0, change("a", "one", "two"));
    assert_eq!(stage.claimed().await.0, change("gone", "one", ""));
}

#[tokio::test]
async fn claim_without_hash_takes_its_base_from_the_file() {
    let mut stage = Stage::new(&[("a", "one"), ("b", "one")], &[], &[]).await;
    // The second claim was made on a content that has changed since: it shows that the first was looked at too.
    stage.claim(&[("a", KnownContent::Unlearned), ("b", known("zero"))], &[]);
    assert_eq!(stage.claimed().await.0, change("b", "zero", "one"));
    stage.write("a", "two");
    assert_eq!(stage.claimed().await.0, change("a", "one", "two"));
}

#[tokio::test]
async fn ignored_files_are_not_reported() {
    let files = [
        (".gitignore", "*.log\nbuild/\n"),
        ("sub/.gitignore", "secret\n"),
        ("build/x", "x"),
        ("sub/y", "y"),
        ("z", ""),
    ];
    let mut stage = Stage::new(&files, &[], &[]).await;
    for path in ["a.log", "build/x", "sub/secret", "sub/a.log", ".git/index", ".rookery/log", "sub/.workflow/state"] {
        stage.write(path, "new");
    }
    stage.write("sub/y", "new");
    stage.write("z", "new");
    let seen = stage.other("z").await;
    assert!(seen.iter().all(|path| ["sub/y", "z"].contains(&path.as_str())), "{seen:?}");
    let status = stage.handle.status();
    assert_eq!((status.watched_dirs, status.ignored, status.warnings), (2, 1, vec![]));
}

#[tokio::test]
async fn exclude_file_of_the_repository_is_respected() {
    let mut stage = Stage::new(&[(".git/HEAD", ""), (".git/info/exclude", "private\n"), ("z", "")], &[], &[]).await;
    stage.write("private", "new");
    stage.write("z", "new");
    assert!(!stage.other("z").await.contains(&"private".to_owned()));
}

#[tokio::test]
async fn claim_overrides_gitignore() {
    let files = [(".gitignore", "out/\n*.env\n"), ("out/deep/a", "one"), ("out/deep/b", "one"), ("x.env", "one")];
    let claimed = [("out/deep/a", known("one")), ("x.env", known("one")), ("out/later/c", known(""))];
    let mut stage = Stage::new(&files, &claimed, &[]).await;
    stage.write("out/deep/b", "unclaimed and ignored");
    stage.write("out/deep/a", "two");
    let (first, others) = stage.claimed().await;
    assert_eq!((first, others), (change("out/deep/a", "one", "two"), vec![]));
    stage.write("x.env", "two");
    assert_eq!(stage.claimed().await.0, change("x.env", "one", "two"));
    stage.write("out/later/c", "new");
    assert_eq!(stage.claimed().await.0, change("out/later/c", "", "new"));
}

#[tokio::test]
async fn released_ignored_folder_is_unwatched() {
    let files = [(".gitignore", "out/\n"), ("out/deep/a", "one"), ("z", "one")];
    let mut stage = Stage::new(&files, &[("out/deep/a", known("one"))], &[]).await;
    assert_eq!(stage.handle.status().watched_dirs, 3);
    stage.claim(&[("z", known("zero"))], &[]);
    assert_eq!(stage.claimed().await.0, change("z", "zero", "one"));
    assert_eq!(stage.handle.status().watched_dirs, 1);
}

#[tokio::test]
async fn new_folder_is_watched_with_its_files() {
    let mut stage = Stage::new(&[("z", "")], &[("new/deep/er/a", known(""))], &[]).await;
    stage.write("new/deep/er/b", "unclaimed");
    stage.other("new/deep/er/b").await;
    stage.write("new/deep/er/a", "one");
    assert_eq!(stage.claimed().await.0, change("new/deep/er/a", "", "one"));
    stage.write("new/deep/er/a", "two");
    assert_eq!(stage.claimed().await.0, change("new/deep/er/a", "one", "two"));
}

#[tokio::test]
async fn deleted_file_is_reported_and_may_return() {
    let mut stage = Stage::new(&[("d/a", "one")], &[("d/a", known("one"))], &[]).await;
    fs::remove_dir_all(stage.path("d")).unwrap();
    assert_eq!(stage.claimed().await.0, change("d/a", "one", ""));
    stage.write("d/a", "two");
    assert_eq!(stage.claimed().await.0, change("d/a", "", "two"));
    fs::remove_file(stage.path("d/a")).unwrap();
    assert_eq!(stage.claimed().await.0, change("d/a", "two", ""));
}

#[tokio::test]
async fn renamed_file_is_reported_as_deleted_or_changed() {
    let mut stage = Stage::new(&[("a", "one")], &[("a", known("one"))], &[]).await;
    fs::rename(stage.path("a"), stage.path("b")).unwrap();
    assert_eq!(stage.claimed().await.0, change("a", "one", ""));
    stage.write("b", "two");
    fs::rename(stage.path("b"), stage.path("a")).unwrap();
    assert_eq!(stage.claimed().await.0, change("a", "", "two"));
}

#[tokio::test]
async fn renamed_folder_reports_its_claimed_files() {
    let claimed = [("old/in/a", known("one")), ("new/in/a", known(""))];
    let mut stage = Stage::new(&[("old/in/a", "one")], &claimed, &[]).await;
    fs::rename(stage.path("old"), stage.path("new")).unwrap();
    let mut seen = [stage.claimed().await.0, stage.claimed().await.0];
    seen.sort();
    assert_eq!(seen, [change("new/in/a", "", "one"), change("old/in/a", "one", "")]);
    stage.write("new/in/a", "two");
    assert_eq!(stage.claimed().await.0, change("new/in/a", "one", "two"));
}

#[tokio::test]
async fn edited_gitignore_takes_effect() {
    let mut stage = Stage::new(&[(".gitignore", "out/\n"), ("out/a", ""), ("gen/b", ""), ("z", "")], &[], &[]).await;
    assert_eq!(stage.handle.status().watched_dirs, 2);
    stage.write("rules", "gen/\n");
    fs::rename(stage.path("rules"), stage.path(".gitignore")).unwrap();
    stage.other(".gitignore").await;
    stage.write("gen/b", "new");
    stage.write("out/a", "new");
    let seen = stage.other("out/a").await;
    assert!(!seen.contains(&"gen/b".to_owned()), "{seen:?}");
    assert_eq!(stage.handle.status().watched_dirs, 2);
}

#[tokio::test]
async fn claimed_subtree_reports_all_files_but_ignored_ones() {
    let files = [(".gitignore", "*.tmp\n"), ("t/a", "one"), ("t/deep/b", "one"), ("u", "one")];
    let mut stage = Stage::new(&files, &[], &[]).await;
    stage.claim(&[("u", known("zero"))], &["t/"]);
    // It was hashed together with the files of the subtree, whose content is now known.
    assert_eq!(stage.claimed().await.0, change("u", "zero", "one"));
    stage.write("t/x.tmp", "ignored");
    stage.write("t/deep/new", "new");
    assert_eq!(stage.claimed().await.0, change("t/deep/new", "", "new"));
    stage.write("t/a", "two");
    assert_eq!(stage.claimed().await.0, change("t/a", "one", "two"));
    fs::remove_dir_all(stage.path("t/deep")).unwrap();
    let mut seen = [stage.claimed().await.0, stage.claimed().await.0];
    seen.sort();
    assert_eq!(seen, [change("t/deep/b", "one", ""), change("t/deep/new", "new", "")]);
}

#[tokio::test]
async fn claimed_subtree_that_is_ignored_reports_all_files() {
    let files = [(".gitignore", "dist/\n"), ("dist/js/app.js", "one"), ("z", "one")];
    let mut stage = Stage::new(&files, &[], &["dist/"]).await;
    stage.claim(&[("z", known("zero"))], &["dist/"]);
    assert_eq!(stage.claimed().await.0, change("z", "zero", "one"));
    stage.write("dist/js/app.js", "two");
    assert_eq!(stage.claimed().await.0, change("dist/js/app.js", "one", "two"));
}

#[tokio::test]
async fn large_file_is_hashed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "big", "one");
    let claims = watched(&[("big", known("one"))], &[]);
    let mut stage = Stage::start(dir, claims, |config| config.large_file_bytes = 8).await;
    let content = "x".repeat(1_000_000);
    stage.write("big", &content);
    assert_eq!(stage.claimed().await.0, change("big", "one", &content));
}

#[cfg(unix)]
#[tokio::test]
async fn links_in_the_project_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "deep/x", "one");
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "z", "");
    std::os::unix::fs::symlink(outside.path(), dir.path().join("away")).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("loop")).unwrap();
    let mut stage = Stage::start(dir, WatchedClaims::default(), |_| {}).await;
    write(outside.path(), "deep/x", "two");
    stage.write("z", "new");
    assert_eq!(stage.other("z").await, ["z"]);
    assert_eq!(stage.handle.status().watched_dirs, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn lost_events_cause_a_check_of_all_claims() {
    let outside = tempfile::tempdir().unwrap();
    let claimed = [("a", known("one")), ("z", known("zero"))];
    let mut stage = Stage::new(&[("a", "one"), ("t/b", "one"), ("z", "one")], &claimed, &["t/"]).await;
    // It was hashed together with the other two, whose content is now known.
    assert_eq!(stage.claimed().await.0, change("z", "zero", "one"));
    // A write through a link from elsewhere is not reported by the system.
    for (path, link) in [("a", "link_a"), ("t/b", "link_b")] {
        fs::hard_link(stage.path(path), outside.path().join(link)).unwrap();
        write(outside.path(), link, "two");
    }
    let touched = stage.handle.touched.upgrade().unwrap();
    touched.receive(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
    let mut seen = [stage.claimed().await.0, stage.claimed().await.0];
    seen.sort();
    assert_eq!(seen, [change("a", "one", "two"), change("t/b", "one", "two")]);
}

#[tokio::test]
async fn full_channel_keeps_the_latest_change_per_path() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..40).map(|n| format!("f{n:02}")).collect();
    for name in &names {
        write(dir.path(), name, "one");
    }
    let claimed: Vec<_> = names.iter().map(|name| (name.as_str(), known("one"))).collect();
    // The channel holds 16.
    let mut stage = Stage::start(dir, watched(&claimed, &[]), |_| {}).await;
    for content in ["two", "three"] {
        for name in &names {
            stage.write(name, content);
        }
    }
    // Whatever was merged on the way, following the changes of each file leads from the first content to the last.
    let mut contents: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), sha("one"))).collect();
    while contents.values().any(|hash| *hash != sha("three")) {
        let ((path, before, after), _) = stage.claimed().await;
        assert_eq!(contents.insert(path, after), Some(before));
    }
}

#[tokio::test]
async fn too_many_folders_cause_a_warning_and_claims_are_watched() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..20 {
        write(dir.path(), &format!("d{n:02}/x/a"), "one");
    }
    let claims = watched(&[("d07/x/a", known("one")), ("d19/x/a", known("one"))], &[]);
    let mut stage = Stage::start(dir, claims, |config| config.max_watches = 6).await;
    let Observation::Warning { hint, .. } = stage.next().await else { panic!("no warning") };
    assert!(hint.contains(".gitignore"), "{hint}");
    assert_eq!(stage.handle.status().warnings.len(), 1);
    stage.write("d19/x/a", "two");
    assert_eq!(stage.claimed().await.0, change("d19/x/a", "one", "two"));
    stage.write("d07/x/a", "two");
    assert_eq!(stage.claimed().await.0, change("d07/x/a", "one", "two"));
}

#[tokio::test]
async fn missing_project_folder_causes_a_warning_and_is_found_again() {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("project");
    write(&root, "a", "one");
    let (_claims, receiver) = watch::channel(Arc::new(watched(&[("a", known("one"))], &[])));
    let (sender, mut out) = mpsc::channel(16);
    let handle = Watcher::start(Config::new(&root), receiver, sender).unwrap();
    timeout(TIMEOUT, handle.ready()).await.unwrap();
    fs::rename(&root, above.path().join("elsewhere")).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match timeout(TIMEOUT, out.recv()).await.unwrap().unwrap() {
            Observation::Warning { message, .. } => seen.push(message.contains("is gone").to_string()),
            Observation::Claimed { after, .. } => seen.push(after),
            Observation::Others { .. } => {}
        }
    }
    seen.sort();
    assert_eq!(seen, ["", "true"]);
    write(&root, "a", "two");
    loop {
        match timeout(TIMEOUT, out.recv()).await.unwrap().unwrap() {
            Observation::Claimed { after, .. } if after == EMPTIED => {}
            Observation::Claimed { after, .. } => break assert_eq!(after, sha("two")),
            Observation::Others { .. } | Observation::Warning { .. } => {}
        }
    }
    let mut status = handle.status.clone();
    timeout(TIMEOUT, status.wait_for(|status| status.warnings.is_empty())).await.unwrap().unwrap();
}

#[tokio::test]
async fn branch_switch_is_reported_in_few_summaries() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..20_000 {
        let path = file_of(n);
        if n % 100 == 0 {
            fs::create_dir_all(dir.path().join(&path).parent().unwrap()).unwrap();
        }
        fs::write(dir.path().join(path), "one").unwrap();
    }
    let (among, last) = (file_of(7_777), file_of(19_999));
    let claims = watched(&[(&among, known("one")), (&last, known("one"))], &[]);
    let mut stage = Stage::start(dir, claims, |config| config.summary_every = Duration::from_secs(1)).await;
    assert_eq!(stage.handle.status().watched_dirs, 211);
    let root = stage.dir.path().to_owned();
    let end = last.clone();
    let rewriting = tokio::task::spawn_blocking(move || {
        (0..10_000).for_each(|n| fs::write(root.join(file_of(n)), "two").unwrap());
        fs::write(root.join(end), "two").unwrap();
    });
    let (mut counted, mut summaries, mut claimed) = (0, 0, BTreeMap::new());
    while claimed.values().filter(|hash| **hash == sha("two")).count() < 2 || summaries == 0 {
        match stage.next().await {
            Observation::Claimed { path, before, after } => {
                let expected = claimed.insert(path, after).unwrap_or(sha("one"));
                assert_eq!(before, expected);
            }
            Observation::Others { changed, sample } => {
                counted += changed;
                summaries += 1;
                assert!(sample.len() <= 10);
            }
            Observation::Warning { message, .. } => panic!("{message}"),
        }
    }
    rewriting.await.unwrap();
    assert_eq!(claimed.into_keys().collect::<Vec<_>>(), [among, last]);
    // A busy machine may lose events of unclaimed files, and a file may be counted in two summaries.
    assert!((1..=20_000).contains(&counted), "{counted}");
    assert!(summaries <= 20, "{summaries}");
}

fn file_of(n: usize) -> String {
    format!("m{:02}/d{:03}/f{n}.txt", n / 2_000, n / 100)
}

#[tokio::test]
async fn dropped_handle_stops_the_watcher() {
    let Stage { dir, claims: _claims, mut out, handle } = Stage::new(&[("a", "one")], &[], &[]).await;
    let touched = handle.touched.clone();
    drop(handle);
    assert_eq!(timeout(TIMEOUT, out.recv()).await.unwrap(), None);
    // The thread of `notify` owns the last reference.
    let ended = async {
        while touched.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, ended).await.unwrap();
    write(dir.path(), "a", "two");
}

#[tokio::test]
async fn shutdown_waits_and_dropped_reader_stops_the_watcher() {
    let stage = Stage::new(&[("a", "one")], &[], &[]).await;
    timeout(TIMEOUT, stage.handle.stop()).await.unwrap();
    let Stage { out, handle, .. } = Stage::new(&[("a", "one")], &[], &[]).await;
    drop(out);
    timeout(TIMEOUT, handle.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn root_that_is_no_folder_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "file", "");
    for (path, expected) in [("file", "is not a folder"), ("none", "cannot resolve")] {
        let (_claims, receiver) = watch::channel(Arc::default());
        let (sender, _out) = mpsc::channel(1);
        let error = Watcher::start(Config::new(dir.path().join(path)), receiver, sender).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
