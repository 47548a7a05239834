//! The renderer on a real disk: people and agents that write at the same time, and crashes before every disk change.

mod crashes;
mod hostile_disk;
mod writers;

use rookery_core::{Caller, EventRef, Instance, LogId, Seq, Timestamp};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use futures_util::FutureExt;
use rookery_core::contexts::ConfigureContext;
use rookery_core::documents::{Base, DeleteDocument, WriteDocument, Writer};
use rookery_core::model::context_settings::{Configured, ContextSettings, Provider, Scope};
use rookery_core::model::document::{DocumentId, Version, hash_of};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::redaction::{Redact, Target};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::{Clock, LogQuery, Node, PresenceBoard, Site};

use super::fault_points::{FaultPoint, FaultPoints};
use super::service::RenderService;
use super::{GeneratedFile, RendererConfig};
use crate::credentials::Trust;
use crate::messages::{Post, Span};
use crate::settings::Settings;
use crate::subscribe::Subscription;
use crate::{Access, Config, Engine, Parts, RandomIds, Request, SystemClock};

const LONGER_THAN_ANY_RETENTION: u64 = 11 * 60_000;

/// The machine's time of day, and a monotonic clock that the test advances.
#[derive(Debug, Default)]
struct ManualClock {
    clock: SystemClock,
    monotonic: AtomicU64,
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> u64 {
        self.monotonic.load(Ordering::Relaxed)
    }
}

struct TestSite {
    engine: Engine,
    clock: Arc<ManualClock>,
    root: PathBuf,
    _folder: tempfile::TempDir,
}

/// A running render service, which a test can stop.
struct RunningRenderer {
    service: RenderService,
    subscription: Subscription,
}

impl TestSite {
    fn new() -> TestSite {
        TestSite::of(&Database::new(LogId::from("log_1")), "site_1", Config::new("test", "", Settings::default()))
    }

    /// A separate project folder over a store that other sites may share.
    fn of(database: &Database, name: &str, config: Config) -> TestSite {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (clock, board) = (Arc::new(ManualClock::default()), Arc::new(PresenceBoard::default()));
        let node = Node {
            id: format!("node_of_{name}").as_str().into(),
            host: "here".to_owned(),
            pid: 1,
            url: None,
            version: "1.0.0".to_owned(),
            site: Site { id: name.into(), root: root.display().to_string() },
            started_at: Timestamp(0),
        };
        let store = MemoryStore::new(database.clone(), clock.clone(), board.clone()).of(node.id.clone());
        let engine = Engine::new(Parts {
            store: Arc::new(store),
            clock: clock.clone(),
            ids: Arc::new(RandomIds),
            board,
            access: Access::new(Trust::Local, None),
            node,
            config: Config { root: root.clone(), ..config },
        });
        TestSite { engine, clock, root, _folder: folder }
    }

    fn config(&self) -> RendererConfig {
        let made =
            |name: &str| GeneratedFile { name: "mcp.json".to_owned(), text: format!("{{\"instance\":\"{name}\"}}\n") };
        RendererConfig {
            state: self.root.join(".rookery/rendered"),
            generated: Arc::new(move |instance, _| vec![made(instance.name())]),
        }
    }

    async fn start(&self) -> RunningRenderer {
        self.start_with(FaultPoints::default()).await
    }

    async fn start_with(&self, fault_points: FaultPoints) -> RunningRenderer {
        let (service, subscription) =
            RenderService::open_with(&self.engine, &self.config(), fault_points).await.unwrap();
        RunningRenderer { service, subscription }
    }

    /// Does one round for all instances, half a second later.
    async fn turn(&self, renderer: &mut RunningRenderer) {
        self.clock.monotonic.fetch_add(500, Ordering::Relaxed);
        while let Some(chunk) = renderer.subscription.next().now_or_never() {
            for row in chunk.unwrap().rows() {
                renderer.service.handle_event(&row.event).await;
            }
        }
        renderer.service.make_all_due();
        renderer.service.run_round().await;
    }

    /// Does rounds until nothing is left to do.
    async fn settle(&self, renderer: &mut RunningRenderer) {
        for _ in 0..500 {
            self.turn(renderer).await;
            if renderer.service.is_settled() {
                if self.replaced_files().is_empty() {
                    return;
                }
                // Replaced files are kept for some time.
                self.clock.monotonic.fetch_add(LONGER_THAN_ANY_RETENTION, Ordering::Relaxed);
            }
            // Stamps of the file system need time to become old enough.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the renderer does not settle: {:?}", renderer.service.warnings());
    }

    /// Replaced files that are still kept.
    fn replaced_files(&self) -> Vec<PathBuf> {
        let mut found = vec![];
        files_below(&self.file(".swap"), &mut found);
        found
    }

    /// Starts the renderer and lets it settle.
    async fn start_settled(&self) -> RunningRenderer {
        let mut renderer = self.start().await;
        self.settle(&mut renderer).await;
        renderer
    }

    async fn says(&self, from: &str, text: &str) {
        self.engine.inbox().send(&Caller::asserted(from), Post::entry(&from.into(), text)).await.unwrap();
    }

    async fn writes(&self, path: &str, text: &str) {
        let command = WriteDocument {
            id: document(path),
            text: text.to_owned(),
            writer: Writer::Named("ada@pr-1".into()),
            base: Base::Unsaid,
        };
        self.engine.documents().write(&Caller::asserted("ada@pr-1"), command).await.unwrap();
    }

    async fn deletes(&self, path: &str) {
        let command =
            DeleteDocument { id: document(path), writer: Writer::Named("ada@pr-1".into()), base: Base::Unsaid };
        self.engine.documents().delete(&Caller::asserted("ada@pr-1"), command).await.unwrap();
    }

    async fn configures(&self, scope: Scope, settings: ContextSettings) {
        let command = ConfigureContext { scope, settings, site: None };
        self.engine.submit(Request::new(Caller::person("anna"), command)).await.unwrap();
    }

    async fn text(&self, path: &str) -> Option<String> {
        self.engine.documents().text(&document(path)).await.unwrap().map(|text| text.text)
    }

    async fn history(&self, path: &str) -> Vec<Version> {
        let mut history = self.engine.documents().history(&document(path), Some(1_000)).await.unwrap().value;
        history.reverse();
        history
    }

    async fn authors(&self, path: &str) -> Vec<String> {
        self.history(path).await.into_iter().map(|version| version.author).collect()
    }

    /// Whether a text is a version of any of these documents, or the content of any file in the folder.
    async fn can_find(&self, text: &str, paths: &[&str]) -> bool {
        for path in paths {
            if self.history(path).await.iter().any(|version| version.hash.as_deref() == Some(&hash_of(text))) {
                return true;
            }
        }
        let mut files = vec![];
        files_below(&self.folder(), &mut files);
        files.iter().any(|file| fs::read(file).is_ok_and(|found| found == text.as_bytes()))
    }

    fn folder(&self) -> PathBuf {
        self.root.join(".workflow/pr-1")
    }

    fn file(&self, path: &str) -> PathBuf {
        self.folder().join(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.file(path)).ok()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    async fn channel_text(&self) -> String {
        let all = Span { limit: Some(1_000), ..Span::default() };
        let entries = self.engine.inbox().channel(&Instance::new("pr-1"), all).await.unwrap().value;
        entries.iter().fold(String::new(), |text, entry| {
            let at = jiff::Timestamp::from_millisecond(entry.at.0).unwrap().strftime("%H:%M:%S").to_string();
            text + &format!("\n### {at} [{}]\n{}\n", entry.letter.header.name, entry.letter.text)
        })
    }

    /// Checks that the files reflect the log, and that no replaced file is left.
    async fn check(&self, paths: &[&str]) {
        for path in paths {
            assert_eq!(self.read(path), self.text(path).await, "{path}");
        }
        assert_eq!(self.read("channel.md"), Some(self.channel_text().await));
        assert_eq!(self.replaced_files(), Vec::<PathBuf>::new());
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

fn document(path: &str) -> DocumentId {
    DocumentId::new(Instance::new("pr-1").run(), DocumentPath::parse(path).unwrap())
}

/// Saves as an editor does that writes a new file and renames it.
fn save_by_renaming(path: &Path, text: &str) {
    let new = path.with_extension("md.tmp");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

#[tokio::test]
async fn channel_file_has_the_documented_format() {
    let site = TestSite::new();
    site.says("reviewer@pr-1", "@coder found auth validation issue in line 42").await;
    let mut renderer = site.start_settled().await;
    site.says("coder@pr-1", "Fixed,\n@reviewer please verify").await;
    site.says("elsewhere", "not here").await;
    site.settle(&mut renderer).await;
    let text = site.read("channel.md").unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(""));
    let head = lines.next().unwrap();
    assert!(head.starts_with("### ") && head.ends_with(" [reviewer]") && head.len() == "### 10:00:05 [reviewer]".len());
    assert_eq!(lines.next(), Some("@coder found auth validation issue in line 42"));
    assert_eq!(text, site.channel_text().await);
    assert!(text.ends_with("Fixed,\n@reviewer please verify\n"));
    assert_eq!(site.names(), [".swap", "channel.md", "mcp.json"]);
    assert_eq!(fs::read_to_string(site.root.join(".workflow/.gitignore")).unwrap(), "*\n");
}

#[tokio::test]
async fn documents_and_files_follow_each_other() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    site.writes("findings/auth.md", "deep").await;
    let mut renderer = site.start_settled().await;
    site.check(&["notes.md", "findings/auth.md"]).await;
    site.writes("notes.md", "two").await;
    site.settle(&mut renderer).await;
    assert_eq!(site.read("notes.md").as_deref(), Some("two"));
    fs::write(site.file("notes.md"), "three, by hand").unwrap();
    save_by_renaming(&site.file("findings/auth.md"), "deeper, by hand");
    fs::create_dir_all(site.file("ideas/wild")).unwrap();
    fs::write(site.file("ideas/wild/first.txt"), "new, by hand").unwrap();
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("three, by hand"));
    assert_eq!(site.authors("notes.md").await, ["ada@pr-1", "ada@pr-1", "external"]);
    assert_eq!(site.text("findings/auth.md").await.as_deref(), Some("deeper, by hand"));
    assert_eq!(site.text("ideas/wild/first.txt").await.as_deref(), Some("new, by hand"));
    site.deletes("notes.md").await;
    site.settle(&mut renderer).await;
    assert_eq!(site.read("notes.md"), None);
    fs::write(site.file("notes.md"), "two").unwrap();
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("two"), "what a person restores is there again");
    site.check(&["notes.md", "findings/auth.md", "ideas/wild/first.txt"]).await;
}

#[tokio::test]
async fn file_with_an_older_text_is_an_edit() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    site.writes("notes.md", "two").await;
    let mut renderer = site.start_settled().await;
    fs::write(site.file("notes.md"), "one").unwrap();
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("one"));
    assert_eq!(site.authors("notes.md").await.len(), 3);
}

#[tokio::test]
async fn deleted_file_or_folder_is_restored() {
    let site = TestSite::new();
    site.writes("notes.md", "kept").await;
    site.says("ada@pr-1", "hello").await;
    let mut renderer = site.start_settled().await;
    fs::remove_file(site.file("notes.md")).unwrap();
    site.settle(&mut renderer).await;
    site.check(&["notes.md"]).await;
    fs::remove_dir_all(site.root.join(".workflow")).unwrap();
    site.settle(&mut renderer).await;
    site.check(&["notes.md"]).await;
    assert_eq!(site.authors("notes.md").await, ["ada@pr-1"]);
    assert!(site.root.join(".workflow/.gitignore").exists());
}

#[tokio::test]
async fn edited_channel_is_kept_aside_and_rewritten() {
    let site = TestSite::new();
    site.says("ada@pr-1", "hello").await;
    let mut renderer = site.start_settled().await;
    let edited = site.read("channel.md").unwrap() + "\n### 10:00:00 [boss]\ndo something else\n";
    fs::write(site.file("channel.md"), &edited).unwrap();
    site.says("ada@pr-1", "go on").await;
    site.settle(&mut renderer).await;
    site.check(&[]).await;
    let aside = site.names().into_iter().find(|name| name.starts_with("channel.md.edited-")).unwrap();
    assert_eq!(site.read(&aside), Some(edited));
    fs::write(site.file("channel.md"), "").unwrap();
    site.settle(&mut renderer).await;
    site.check(&[]).await;
    assert_eq!(
        site.names().iter().filter(|name| name.starts_with("channel.md.edited-")).count(),
        1,
        "nothing was lost"
    );
}

#[tokio::test]
async fn file_that_cannot_be_a_document_is_left_alone() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_settled().await;
    fs::write(site.file("notes.md"), b"\xff\xfe not text").unwrap();
    fs::write(site.file("large.md"), "x".repeat(rookery_core::kernel::limit::DOCUMENT_BYTES + 1)).unwrap();
    fs::write(site.file("script.sh"), "#!/bin/sh").unwrap();
    fs::write(site.file(".hidden.md"), "hidden").unwrap();
    site.writes("notes.md", "two").await;
    for _ in 0..8 {
        site.turn(&mut renderer).await;
    }
    assert_eq!(fs::read(site.file("notes.md")).unwrap(), b"\xff\xfe not text");
    let warnings = renderer.service.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("notes.md is left alone: it is not UTF-8")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("large.md is left alone: it is larger")), "{warnings:?}");
    assert_eq!(site.text("large.md").await, None);
    fs::write(site.file("notes.md"), "three").unwrap();
    fs::remove_file(site.file("large.md")).unwrap();
    site.settle(&mut renderer).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("three"));
    assert_eq!(renderer.service.warnings(), [""; 0]);
}

#[tokio::test]
async fn links_in_the_context_folder_are_not_followed() {
    let site = TestSite::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.md"), "outside").unwrap();
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_settled().await;
    symlink(outside.path().join("secret.md"), site.file("linked.md")).unwrap();
    symlink(outside.path(), site.file("findings")).unwrap();
    fs::remove_file(site.file("notes.md")).unwrap();
    symlink(outside.path().join("secret.md"), site.file("notes.md")).unwrap();
    site.writes("findings/secret.md", "inside").await;
    site.writes("findings/new.md", "inside").await;
    for _ in 0..8 {
        site.turn(&mut renderer).await;
    }
    assert_eq!(fs::read_to_string(outside.path().join("secret.md")).unwrap(), "outside");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(site.text("linked.md").await, None);
    assert_eq!(site.text("notes.md").await.as_deref(), Some("one"));
    assert!(!renderer.service.warnings().is_empty());
    let other = TestSite::new();
    symlink(outside.path(), other.root.join(".workflow")).unwrap();
    other.writes("notes.md", "one").await;
    let mut renderer = other.start().await;
    other.turn(&mut renderer).await;
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert!(renderer.service.warnings()[0].contains("is a link or a file"), "{:?}", renderer.service.warnings());
}

#[tokio::test]
async fn instance_name_with_path_parts_stays_in_the_project() {
    let site = TestSite::new();
    for name in ["x@../../../../tmp/evil", "x@..", "x@.git", "x@a/b"] {
        site.says(name, "hello").await;
    }
    let renderer = site.start_settled().await;
    let mut names: Vec<_> = fs::read_dir(site.root.join(".workflow"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["%2E.", "%2E.%2F..%2F..%2F..%2Ftmp%2Fevil", "%2Egit", ".gitignore", "a%2Fb"]);
    assert_eq!(fs::read_dir(&site.root).unwrap().count(), 2, "the project has only one other folder, the saved state");
    drop(renderer);
}

#[tokio::test]
async fn instance_without_file_provider_gets_no_files() {
    let site = TestSite::new();
    let of = |name: &str| Scope::of(&Instance::new(name));
    let provided = |provider| ContextSettings { provider: Some(provider), ..ContextSettings::default() };
    site.configures(of("pr-1"), provided(Provider::Memory)).await;
    site.configures(of("pr-2"), provided(Provider::Off)).await;
    site.writes("notes.md", "one").await;
    site.says("ada@pr-1", "hello").await;
    let mut renderer = site.start_settled().await;
    assert!(!site.root.join(".workflow").exists());
    assert_eq!(site.text("notes.md").await.as_deref(), Some("one"));
    let elsewhere = ContextSettings {
        dir: Some("docs/team".to_owned()),
        channel: Some("discussion.md".to_owned()),
        ..ContextSettings::default()
    };
    site.configures(of("pr-1"), elsewhere).await;
    site.settle(&mut renderer).await;
    assert_eq!(fs::read_to_string(site.root.join("docs/team/notes.md")).unwrap(), "one");
    assert_eq!(fs::read_to_string(site.root.join("docs/team/discussion.md")).unwrap(), site.channel_text().await);
    assert!(!site.root.join(".workflow").exists());
}

#[tokio::test]
async fn instance_whose_folder_is_taken_gets_no_files() {
    let site = TestSite::new();
    let in_dir = |dir: &str| ContextSettings { dir: Some(dir.to_owned()), ..ContextSettings::default() };
    let pr_2 = || Scope::of(&Instance::new("pr-2"));
    site.configures(pr_2(), in_dir("shared")).await;
    site.says("ada@pr-2", "in the second").await;
    drop(site.start_settled().await);
    site.configures(Scope::of(&Instance::new("pr-1")), in_dir("other")).await;
    site.says("ada@pr-1", "in the first").await;
    // Possible on disks that ignore case, and in old logs.
    symlink(site.root.join("shared"), site.root.join("other")).unwrap();
    let mut renderer = site.start().await;
    for _ in 0..4 {
        site.turn(&mut renderer).await;
    }
    let warning = "instance 'pr-1' has no files, because its folder other is that of instance 'pr-2'";
    assert!(renderer.service.warnings()[0].starts_with(warning), "{:?}", renderer.service.warnings());
    let channel = || fs::read_to_string(site.root.join("shared/channel.md")).unwrap();
    assert!(channel().contains("in the second") && !channel().contains("in the first"));
    assert_eq!(fs::read_dir(site.root.join("shared")).unwrap().count(), 3, "only one instance wrote files");
    fs::remove_file(site.root.join("other")).unwrap();
    site.settle(&mut renderer).await;
    assert_eq!(fs::read_to_string(site.root.join("other/channel.md")).unwrap(), site.channel_text().await);
    assert_eq!(renderer.service.warnings(), [""; 0]);
}

#[tokio::test]
async fn first_instance_in_a_folder_keeps_it() {
    let site = TestSite::new();
    site.writes("notes.md", "of the first").await;
    let mut renderer = site.start_settled().await;
    // An old log can have settings that the rules reject today.
    let folder = |dir: &str| {
        let settings = ContextSettings { dir: Some(dir.to_owned()), ..ContextSettings::default() };
        Configured { scope: Scope::of(&Instance::new("aa")), settings, site: None }
    };
    renderer.service.apply_settings(folder(".workflow/pr-1/deep")).await;
    renderer.service.apply_settings(folder(".workflow/pr-1")).await;
    site.turn(&mut renderer).await;
    assert_eq!(renderer.service.warnings().len(), 1, "{:?}", renderer.service.warnings());
    assert!(
        renderer.service.warnings()[0].starts_with("instance 'aa' has no files"),
        "{:?}",
        renderer.service.warnings()
    );
    renderer.service.apply_settings(folder("elsewhere")).await;
    site.turn(&mut renderer).await;
    assert_eq!(renderer.service.warnings(), [""; 0]);
    assert!(site.root.join("elsewhere/channel.md").exists());
}

#[tokio::test]
async fn stored_context_folder_that_is_hidden_gets_no_files() {
    let site = TestSite::new();
    site.says("ada@pr-1", "hello").await;
    let mut renderer = site.start().await;
    // An imported log can name such a folder.
    let folder = |dir: &str| {
        let settings = ContextSettings { dir: Some(dir.to_owned()), ..ContextSettings::default() };
        Configured { scope: Scope::of(&Instance::new("pr-1")), settings, site: None }
    };
    for hidden in [".claude", "docs/.obsidian", "agents"] {
        renderer.service.apply_settings(folder(hidden)).await;
        for _ in 0..4 {
            site.turn(&mut renderer).await;
        }
        assert!(!site.root.join(hidden).exists(), "{hidden}");
        let warnings = renderer.service.warnings();
        assert!(
            warnings.iter().any(|warning| warning.contains("rookery context configure --instance pr-1")),
            "{warnings:?}"
        );
    }
    renderer.service.apply_settings(folder("team")).await;
    for _ in 0..4 {
        site.turn(&mut renderer).await;
    }
    assert!(site.root.join("team/channel.md").exists());
    assert_eq!(renderer.service.warnings(), [""; 0]);
}

#[tokio::test]
async fn foreign_files_in_a_chosen_context_folder_are_kept() {
    let site = TestSite::new();
    let folder = site.root.join("config");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("mcp.json"), "a person's servers").unwrap();
    fs::write(folder.join("channel.md"), "a person's channel").unwrap();
    let own = Scope::of(&Instance::new("pr-1"));
    site.configures(own, ContextSettings { dir: Some("config".to_owned()), ..ContextSettings::default() }).await;
    site.says("ada@pr-1", "hello").await;
    let mut renderer = site.start().await;
    for _ in 0..10 {
        site.turn(&mut renderer).await;
    }
    assert_eq!(fs::read_to_string(folder.join("mcp.json")).unwrap(), "a person's servers");
    assert_eq!(fs::read_to_string(folder.join("channel.md")).unwrap(), "a person's channel");
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "only .swap is new: {names:?}");
    let warnings = renderer.service.warnings();
    assert!(warnings.iter().all(|warning| warning.contains("is left alone")) && warnings.len() == 2, "{warnings:?}");
    for name in ["mcp.json", "channel.md"] {
        fs::remove_file(folder.join(name)).unwrap();
    }
    site.settle(&mut renderer).await;
    assert_eq!(fs::read_to_string(folder.join("channel.md")).unwrap(), site.channel_text().await);
    fs::write(folder.join("mcp.json"), "ours, edited").unwrap();
    site.settle(&mut renderer).await;
    let aside = fs::read_dir(&folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.display().to_string().contains("mcp.json.edited-") && fs::read_to_string(path).unwrap() == "ours, edited"
    });
    assert!(aside, "an edit of a generated file is kept aside as before");
}

/// Checks that documents are synchronized both ways while something else fails with a warning.
async fn expect_progress(site: &TestSite, renderer: &mut RunningRenderer, warning: &str) {
    site.writes("notes.md", "by an agent").await;
    fs::write(site.file("other.md"), "by a person").unwrap();
    for _ in 0..200 {
        site.turn(renderer).await;
        if site.read("notes.md").as_deref() == Some("by an agent")
            && site.text("other.md").await.as_deref() == Some("by a person")
            && site.file("mcp.json").exists()
        {
            let warnings = renderer.service.warnings();
            assert!(warnings.iter().any(|found| found.contains(warning)), "{warnings:?}");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("documents are not rendered: {:?}", renderer.service.warnings());
}

#[tokio::test]
async fn unwritable_channel_does_not_block_documents() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    site.writes("other.md", "one").await;
    let mut renderer = site.start_settled().await;
    fs::remove_file(site.file("channel.md")).unwrap();
    fs::remove_file(site.file("mcp.json")).unwrap();
    fs::create_dir(site.file("channel.md")).unwrap();
    expect_progress(
        &site,
        &mut renderer,
        "the channel is not written: .workflow/pr-1/channel.md is a link or a folder",
    )
    .await;
    fs::remove_dir(site.file("channel.md")).unwrap();
    for number in 0..20 {
        fs::write(site.file(&format!("channel.md.edited-{number}")), "x").unwrap();
    }
    fs::write(site.file("channel.md"), "edited").unwrap();
    fs::write(site.file("other.md"), "other").unwrap();
    site.writes("notes.md", "another").await;
    expect_progress(
        &site,
        &mut renderer,
        "the channel is not written: .workflow/pr-1/channel.md has too many edited copies",
    )
    .await;
    for number in 0..20 {
        fs::remove_file(site.file(&format!("channel.md.edited-{number}"))).unwrap();
    }
    site.says("ada@pr-1", "it goes on").await;
    site.settle(&mut renderer).await;
    site.check(&["notes.md", "other.md"]).await;
    assert_eq!(renderer.service.warnings(), [""; 0]);
}

#[tokio::test]
async fn too_many_files_do_not_block_known_documents() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    site.writes("other.md", "one").await;
    let mut renderer = site.start_settled().await;
    for number in 0..5_000 {
        fs::write(site.file(&format!("{number}.log")), "").unwrap();
    }
    expect_progress(&site, &mut renderer, "there are more than 5000 files in .workflow/pr-1").await;
    site.deletes("other.md").await;
    site.settle(&mut renderer).await;
    assert_eq!(site.read("other.md"), None);
}

#[tokio::test]
async fn document_with_a_long_path_is_rendered() {
    let site = TestSite::new();
    let long = format!("{}.md", "n".repeat(252));
    let deep = format!("{}/{}.md", "d/".repeat(100) + &"ö".repeat(100), "n".repeat(100));
    let percents = format!("{}.md", "%".repeat(200));
    let paths = [long.as_str(), deep.as_str(), percents.as_str()];
    for path in paths {
        site.writes(path, "one").await;
    }
    let mut renderer = site.start_settled().await;
    site.check(&paths).await;
    for path in paths {
        site.writes(path, "two").await;
    }
    for _ in 0..4 {
        site.turn(&mut renderer).await;
    }
    // The path of a replaced file is known, also after a restart.
    for out in site.replaced_files() {
        if fs::read_to_string(&out).unwrap() == "one" {
            fs::write(out, "late").unwrap();
        }
    }
    fs::remove_dir_all(site.root.join(".rookery")).unwrap();
    let mut renderer = site.start_settled().await;
    for path in paths {
        assert_eq!(site.text(path).await.as_deref(), Some("late"));
        fs::write(site.file(path), "by hand").unwrap();
    }
    site.settle(&mut renderer).await;
    site.check(&paths).await;
    for path in paths {
        assert_eq!(site.text(path).await.as_deref(), Some("by hand"));
        site.deletes(path).await;
    }
    site.settle(&mut renderer).await;
    assert_eq!((paths.map(|path| site.read(path)), renderer.service.warnings()), ([None, None, None], vec![]));
    assert_eq!(site.replaced_files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn changes_during_downtime_are_reconciled_at_start() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    site.writes("other.md", "one").await;
    site.says("ada@pr-1", "hello").await;
    drop(site.start_settled().await);
    site.writes("other.md", "two").await;
    site.says("ada@pr-1", "is anybody there?").await;
    fs::write(site.file("notes.md"), "by hand").unwrap();
    fs::write(site.file("new.md"), "by hand too").unwrap();
    drop(site.start_settled().await);
    site.check(&["notes.md", "other.md", "new.md"]).await;
    assert_eq!(site.text("notes.md").await.as_deref(), Some("by hand"));
    assert_eq!(site.text("other.md").await.as_deref(), Some("two"));
    assert_eq!(site.text("new.md").await.as_deref(), Some("by hand too"));
}

#[tokio::test]
async fn lost_state_is_rebuilt_from_the_log() {
    let site = TestSite::new();
    site.writes("notes.md", "one").await;
    site.writes("old.md", "one").await;
    site.writes("edited.md", "one").await;
    site.says("ada@pr-1", "hello").await;
    drop(site.start_settled().await);
    fs::remove_dir_all(site.root.join(".rookery")).unwrap();
    site.writes("old.md", "two").await;
    fs::write(site.file("edited.md"), "by hand").unwrap();
    site.writes("edited.md", "two").await;
    drop(site.start_settled().await);
    site.check(&["notes.md", "old.md", "edited.md"]).await;
    assert_eq!(site.authors("notes.md").await, ["ada@pr-1"]);
    assert_eq!(site.authors("old.md").await, ["ada@pr-1", "ada@pr-1"]);
    assert_eq!(site.text("old.md").await.as_deref(), Some("two"));
    assert_eq!(site.authors("edited.md").await, ["ada@pr-1", "ada@pr-1", "external"]);
    assert!(site.names().iter().all(|name| !name.contains("edited-")));
}

#[tokio::test]
async fn redacted_texts_are_removed_from_files() {
    let site = TestSite::new();
    site.says("ada@pr-1", "the password is s3cret").await;
    site.says("ada@pr-1", "never mind").await;
    site.writes("notes.md", "s3cret").await;
    let mut renderer = site.start_settled().await;
    let rows = site.engine.query().log(LogQuery::after(Seq::ZERO, 100)).await.unwrap().value;
    let secret = rows.into_iter().filter(|row| row.event.texts().iter().any(|text| text.contains("s3cret")));
    let rows = secret.map(|row| Target { seq: row.seq, fact: row.event, artifact: None }).collect();
    site.engine.submit(Request::new(Caller::person("anna"), Redact { rows })).await.unwrap();
    site.settle(&mut renderer).await;
    site.check(&["notes.md"]).await;
    let mut files = vec![];
    files_below(&site.root.join(".workflow"), &mut files);
    for file in files {
        assert!(!fs::read_to_string(&file).unwrap().contains("s3cret"), "{}", file.display());
    }
    assert!(site.history("notes.md").await.len() == 1 && site.read("channel.md").unwrap().contains("never mind"));
}

#[tokio::test]
async fn redactions_during_downtime_are_applied_at_start() {
    let site = TestSite::new();
    site.says("ada@pr-1", "the password is s3cret").await;
    let mut renderer = site.start_settled().await;
    let position = renderer.subscription.position();
    renderer.service.note_position(&position);
    drop(renderer);
    let row = site.engine.query().log(LogQuery::after(Seq::ZERO, 100)).await.unwrap().value.pop().unwrap();
    assert!(matches!(row.event.typed(), EventRef::MessageSent(_)));
    let rows = vec![Target { seq: row.seq, fact: row.event, artifact: None }];
    site.engine.submit(Request::new(Caller::person("anna"), Redact { rows })).await.unwrap();
    drop(site.start_settled().await);
    site.check(&[]).await;
    assert_eq!(site.names(), [".swap", "channel.md", "mcp.json"]);
}

#[tokio::test]
async fn edited_generated_file_is_kept_aside_and_rewritten() {
    let site = TestSite::new();
    site.says("ada@pr-1", "hello").await;
    let mut renderer = site.start_settled().await;
    assert_eq!(site.read("mcp.json").as_deref(), Some("{\"instance\":\"pr-1\"}\n"));
    fs::write(site.file("mcp.json"), "mine").unwrap();
    site.settle(&mut renderer).await;
    assert_eq!(site.read("mcp.json").as_deref(), Some("{\"instance\":\"pr-1\"}\n"));
    let aside = site.names().into_iter().find(|name| name.starts_with("mcp.json.edited-")).unwrap();
    assert_eq!(site.read(&aside).as_deref(), Some("mine"));
}

#[tokio::test]
async fn full_disk_causes_a_warning_and_retry() {
    let site = TestSite::new();
    let full = Arc::new(AtomicBool::new(true));
    let gate = full.clone();
    let steps = FaultPoints::with_hook(move |_| match gate.load(Ordering::Relaxed) {
        true => Err(io::Error::from(io::ErrorKind::StorageFull)),
        false => Ok(()),
    });
    site.writes("notes.md", "one").await;
    let mut renderer = site.start_with(steps).await;
    for _ in 0..3 {
        site.turn(&mut renderer).await;
        assert!(renderer.service.warnings()[0].contains("no storage space"), "{:?}", renderer.service.warnings());
    }
    site.says("ada@pr-1", "said all the same").await;
    full.store(false, Ordering::Relaxed);
    site.settle(&mut renderer).await;
    site.check(&["notes.md"]).await;
    assert_eq!(renderer.service.warnings(), [""; 0]);
}

#[tokio::test]
async fn sites_of_one_store_all_have_files_unless_one_is_named() {
    let database = Database::new(LogId::from("log_1"));
    let shared = || Config { shared: true, ..Config::new("test", "", Settings::default()) };
    let (one, two) = (TestSite::of(&database, "site_1", shared()), TestSite::of(&database, "site_2", shared()));
    one.writes("notes.md", "one").await;
    let (mut at_one, mut at_two) = (one.start_settled().await, two.start_settled().await);
    fs::write(two.file("notes.md"), "by hand, elsewhere").unwrap();
    two.settle(&mut at_two).await;
    one.settle(&mut at_one).await;
    assert_eq!(one.read("notes.md").as_deref(), Some("by hand, elsewhere"));
    assert_eq!(one.authors("notes.md").await, ["ada@pr-1", "external"]);
    let command = ConfigureContext {
        scope: Scope::of(&Instance::new("pr-1")),
        settings: ContextSettings::default(),
        site: Some("site_2".into()),
    };
    one.engine.submit(Request::new(Caller::person("anna"), command)).await.unwrap();
    one.settle(&mut at_one).await;
    one.writes("notes.md", "three").await;
    two.settle(&mut at_two).await;
    one.settle(&mut at_one).await;
    assert_eq!(two.read("notes.md").as_deref(), Some("three"));
    assert_eq!(one.read("notes.md").as_deref(), Some("by hand, elsewhere"), "it is kept elsewhere now");
}
