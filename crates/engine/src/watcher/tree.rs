//! The folders of the project: which are watched, which are ignored, and how a batch of touched paths is sorted.
//!
//! On Linux a watch covers one folder and costs kernel memory, so the tree is walked here, without the folders that git
//! ignores. A folder is watched *before* it is read: a file that appears meanwhile is either read or reported, never
//! missed. Blocking: call it on a blocking thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Bound;
use std::path::{MAIN_SEPARATOR_STR, Path, PathBuf};
use std::sync::Arc;

use ignore::{IncrementalIgnore, WalkBuilder};
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use rookery_core::model::context_dir::{NEW_SHARED as NEW_SHARED_FOLDER, SHARED as SHARED_FOLDER};
use tokio_util::sync::CancellationToken;

use super::claims::is_visible;
use super::touched::{EventBatch, MAX_PATHS, Touch, TouchedPaths};
use super::{WatchError, WatchWarning, WatchedClaims};

/// FSEvents (macOS) and ReadDirectoryChangesW (Windows) watch a whole tree with one handle, and restart on every
/// further path: there the root is watched once, and this module only sorts the reported paths.
const ONE_WATCH_FOR_ALL: bool = cfg!(any(target_os = "macos", windows));

/// The result of a batch of events, and of new claims if there are any. Paths are relative to the root.
#[derive(Debug, Default)]
pub(super) struct Digest {
    pub(super) touched: Vec<String>,
    /// Folders in which every claimed file must be checked; `""` is the root.
    pub(super) touched_below: Vec<String>,
    pub(super) others: Vec<String>,
    pub(super) beyond: u64,
    /// Files of newly claimed subtrees.
    pub(super) learn: Vec<String>,
    /// New warnings.
    pub(super) warnings: Vec<WatchWarning>,
    pub(super) root_is_gone: bool,
}

pub(super) struct Tree {
    root: PathBuf,
    max_watches: usize,
    notify: RecommendedWatcher,
    rules: IncrementalIgnore,
    watched: BTreeSet<PathBuf>,
    /// Watched folders that git ignores and that contain a claim.
    for_claims: BTreeSet<PathBuf>,
    ignored: usize,
    /// Current warnings, by message.
    warnings: BTreeMap<String, WatchWarning>,
    new_warnings: Vec<WatchWarning>,
    stop: CancellationToken,
}

/// The category of a file.
enum FileCategory {
    Claimed,
    Other,
    Ignored,
}

/// Whether a walk also collects files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seek {
    Folders,
    Files,
}

#[derive(Default)]
struct FoundFiles {
    files: Vec<String>,
    beyond: u64,
}

impl FoundFiles {
    fn file(&mut self, path: String) {
        if self.files.len() < MAX_PATHS {
            self.files.push(path);
        } else {
            self.beyond += 1;
        }
    }
}

/// Whether a folder is watched, so that a walk can continue in it.
enum Watching {
    Yes,
    /// The folder is gone, or cannot be watched.
    Not,
    /// No further folder can be watched.
    Full,
}

impl Tree {
    /// `root` must be canonical: events name their paths by it.
    pub(super) fn open(
        root: PathBuf,
        max_watches: usize,
        touched: Arc<TouchedPaths>,
        stop: CancellationToken,
    ) -> Result<Self, WatchError> {
        let handler = move |event| touched.receive(event);
        let config = notify::Config::default().with_follow_symlinks(false);
        let mut notify = RecommendedWatcher::new(handler, config).map_err(WatchError::Start)?;
        if ONE_WATCH_FOR_ALL {
            notify.watch(&root, RecursiveMode::Recursive).map_err(WatchError::Start)?;
        }
        let rules = read_rules(&root).ok_or_else(|| WatchError::Root { root: root.clone() })?;
        Ok(Self {
            root,
            max_watches,
            notify,
            rules,
            watched: BTreeSet::new(),
            for_claims: BTreeSet::new(),
            ignored: 0,
            warnings: BTreeMap::new(),
            new_warnings: Vec::new(),
            stop,
        })
    }

    /// Sorts the batch by the claims that held when it was gathered, then takes over the new ones.
    pub(super) fn digest(&mut self, batch: EventBatch, old: &WatchedClaims, new: Option<&WatchedClaims>) -> Digest {
        let mut digest = Digest { beyond: batch.beyond, ..Digest::default() };
        if !self.root.is_dir() {
            return self.report_missing_root(digest);
        }
        if let Some(error) = &batch.error {
            tracing::warn!(%error, "the watch interface reported an error; checking everything again");
        }
        // Claims come first, so that their folders are watched when the watches do not suffice for all.
        self.watch(&self.root.clone(), old);
        self.lead_to(new.unwrap_or(old));
        self.sort(batch, old, new.unwrap_or(old), &mut digest);
        if let Some(new) = new {
            self.adopt(old, new, &mut digest);
        }
        digest.warnings = std::mem::take(&mut self.new_warnings);
        digest
    }

    pub(super) fn watched_count(&self) -> usize {
        self.watched.len()
    }

    pub(super) fn ignored_count(&self) -> usize {
        self.ignored
    }

    pub(super) fn warnings(&self) -> Vec<WatchWarning> {
        self.warnings.values().cloned().collect()
    }

    fn report_missing_root(&mut self, mut digest: Digest) -> Digest {
        self.watched.clear();
        self.for_claims.clear();
        self.add_warning(
            format!("the project folder is gone: {}", self.root.display()),
            "put it back where it was; it is looked for every few seconds".to_owned(),
        );
        digest.root_is_gone = true;
        digest.touched_below.push(String::new());
        digest.warnings = std::mem::take(&mut self.new_warnings);
        digest
    }

    /// Sorts a batch. `held` are the claims at the time of the events, `reach` are those that decide which folders are watched.
    fn sort(&mut self, batch: EventBatch, held: &WatchedClaims, reach: &WatchedClaims, digest: &mut Digest) {
        let (mut rescan, mut reread) = (batch.rescan, false);
        let (mut files, mut appeared) = (Vec::new(), Vec::new());
        for (path, touch) in batch.paths {
            let Some(relative) = self.relative(&path).filter(|relative| is_visible(relative)) else { continue };
            rescan |= relative.is_empty();
            reread |= path.file_name().is_some_and(|name| name == ".gitignore");
            let metadata = if touch == Touch::Unclear { fs::symlink_metadata(&path).ok() } else { None };
            if metadata.as_ref().is_some_and(fs::Metadata::is_dir) {
                appeared.push(path);
            } else if touch == Touch::Unclear && self.forget(&path) {
                digest.touched_below.push(relative);
                files.extend(metadata.and_then(|_| self.relative(&path)));
            } else {
                files.push(relative);
            }
        }
        if rescan || reread || !appeared.is_empty() {
            self.reread_rules();
        }
        if rescan {
            digest.touched_below.push(String::new());
        }
        if rescan || reread {
            self.walk_everything(reach);
        }
        if rescan {
            for tree in held.trees.iter().filter(|tree| is_visible(tree)) {
                files.extend(self.walk(&self.folder_of(tree), reach, Seek::Files).files);
            }
        }
        files.extend(self.enter(appeared, reach, digest));
        for path in files {
            match self.category(&path, held) {
                FileCategory::Claimed => digest.touched.push(path),
                FileCategory::Other => digest.others.push(path),
                FileCategory::Ignored => {}
            }
        }
    }

    /// Watches new folders and all below them; returns the files found there.
    fn enter(&mut self, mut appeared: Vec<PathBuf>, claims: &WatchedClaims, digest: &mut Digest) -> Vec<String> {
        appeared.sort_unstable();
        appeared.dedup_by(|below, above| below.starts_with(above));
        let mut files = Vec::new();
        for folder in appeared {
            // The folder watched under this name may have been another one; watching the same folder again is harmless.
            self.forget(&folder);
            let Some(relative) = self.relative(&folder) else { continue };
            if self.wants(&relative, claims) {
                let found = self.walk(&folder, claims, Seek::Files);
                files.extend(found.files);
                digest.beyond += found.beyond;
            }
            digest.touched_below.push(relative);
        }
        files
    }

    fn adopt(&mut self, old: &WatchedClaims, new: &WatchedClaims, digest: &mut Digest) {
        let unneeded: Vec<_> = self.for_claims.iter().cloned().collect();
        for folder in unneeded {
            if self.relative(&folder).is_none_or(|relative| !self.wants(&relative, new)) {
                self.unwatch(&folder);
            }
        }
        for tree in new.trees.difference(&old.trees).filter(|tree| is_visible(tree)) {
            let found = self.walk(&self.folder_of(tree), new, Seek::Files);
            for path in found.files {
                if matches!(self.category(&path, new), FileCategory::Claimed) {
                    digest.learn.push(path);
                }
            }
        }
    }

    /// Watches the existing folders on the path to every claim.
    fn lead_to(&mut self, claims: &WatchedClaims) {
        for folder in claims.folders() {
            let path = self.root.join(folder);
            let reachable = path.parent().is_some_and(|above| self.watched.contains(above));
            if reachable && !self.watched.contains(&path) && is_folder(&path) {
                self.watch(&path, claims);
            }
        }
    }

    /// Walks the whole tree by the current rules: watches the folders found, and unwatches all others.
    fn walk_everything(&mut self, claims: &WatchedClaims) {
        let known = std::mem::take(&mut self.watched);
        let solved = std::mem::take(&mut self.warnings);
        self.for_claims.clear();
        self.ignored = 0;
        self.watch(&self.root.clone(), claims);
        self.lead_to(claims);
        let root = self.root.clone();
        self.walk(&root, claims, Seek::Folders);
        if self.warnings.is_empty() && !self.stop.is_cancelled() {
            for stale in known.difference(&self.watched) {
                // An error means that the folder is gone, and its watch with it.
                self.notify.unwatch(stale).ok();
            }
        } else {
            self.watched.extend(known);
        }
        self.new_warnings.retain(|warning| !solved.contains_key(&warning.message));
    }

    /// Watches the folder and all wanted folders below it. Returns the files found, of any category, if `seek` asks for them.
    fn walk(&mut self, folder: &Path, claims: &WatchedClaims, seek: Seek) -> FoundFiles {
        let mut found = FoundFiles::default();
        let mut ahead = vec![folder.to_owned()];
        while let Some(folder) = ahead.pop() {
            if self.stop.is_cancelled() {
                break;
            }
            if !is_folder(&folder) {
                continue;
            }
            match self.watch(&folder, claims) {
                Watching::Yes => {}
                Watching::Not => continue,
                // The walk still collects files.
                Watching::Full if seek == Seek::Files => {}
                Watching::Full => break,
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if !kind.is_dir() && seek == Seek::Folders {
                    continue;
                }
                let path = entry.path();
                let Some(relative) = self.relative(&path).filter(|relative| is_visible(relative)) else { continue };
                if !kind.is_dir() {
                    found.file(relative);
                } else if self.wants(&relative, claims) {
                    ahead.push(path);
                } else if seek == Seek::Folders {
                    self.ignored += 1;
                }
            }
        }
        found
    }

    fn watch(&mut self, folder: &Path, claims: &WatchedClaims) -> Watching {
        if self.watched.contains(folder) {
            return Watching::Yes;
        }
        let Some(relative) = self.relative(folder) else { return Watching::Not };
        if self.watched.len() >= self.max_watches && !claims.leads_to(&relative) {
            self.add_warning(
                format!("only {} folders are watched; changes in the others go unseen", self.max_watches),
                "name large generated folders in .gitignore, or raise the limit on watched folders".to_owned(),
            );
            return Watching::Full;
        }
        if !ONE_WATCH_FOR_ALL && let Err(error) = self.notify.watch(folder, RecursiveMode::NonRecursive) {
            return self.handle_watch_error(&relative, &error);
        }
        self.watched.insert(folder.to_owned());
        if self.is_ignored(&relative, FileKind::Folder) {
            self.for_claims.insert(folder.to_owned());
        }
        Watching::Yes
    }

    fn handle_watch_error(&mut self, folder: &str, error: &notify::Error) -> Watching {
        match &error.kind {
            ErrorKind::PathNotFound => Watching::Not,
            ErrorKind::MaxFilesWatch => {
                self.add_warning(
                    "the system's limit on watched folders is reached; changes in some folders go unseen".to_owned(),
                    "raise fs.inotify.max_user_watches (sudo sysctl fs.inotify.max_user_watches=1048576), or name large \
                     generated folders in .gitignore"
                        .to_owned(),
                );
                Watching::Full
            }
            ErrorKind::Io(source) if source.kind() == std::io::ErrorKind::NotADirectory => Watching::Not,
            ErrorKind::Io(_) | ErrorKind::Generic(_) | ErrorKind::WatchNotFound | ErrorKind::InvalidConfig(_) => {
                tracing::warn!(folder, %error, "cannot watch a folder");
                self.add_warning(
                    format!("cannot watch the folder {folder:?}; changes in it go unseen"),
                    "make it readable for the daemon, or name it in .gitignore".to_owned(),
                );
                Watching::Not
            }
        }
    }

    fn unwatch(&mut self, folder: &Path) {
        self.watched.remove(folder);
        self.for_claims.remove(folder);
        if !ONE_WATCH_FOR_ALL {
            // An error means that the folder is gone, and its watch with it.
            self.notify.unwatch(folder).ok();
        }
    }

    /// Forgets a folder and all below it, whose watches are gone too. False if it was not watched.
    fn forget(&mut self, folder: &Path) -> bool {
        let from = (Bound::Included(folder), Bound::Unbounded);
        let below = self.watched.range::<Path, _>(from).take_while(|path| path.starts_with(folder));
        let below: Vec<_> = below.cloned().collect();
        for path in &below {
            self.watched.remove(path);
            self.for_claims.remove(path);
        }
        !below.is_empty()
    }

    fn category(&mut self, path: &str, claims: &WatchedClaims) -> FileCategory {
        if claims.files.contains_key(path) {
            return FileCategory::Claimed;
        }
        match claims.tree_over(path) {
            Some(tree) if self.is_ignored(tree.trim_end_matches('/'), FileKind::Folder) => FileCategory::Claimed,
            _ if self.is_ignored(path, FileKind::Other) => FileCategory::Ignored,
            Some(_) => FileCategory::Claimed,
            None => FileCategory::Other,
        }
    }

    /// Whether a folder must be watched. Claims override `.gitignore`: in an ignored folder the paths to claims are watched,
    /// and all of a claimed subtree that is itself ignored.
    fn wants(&mut self, folder: &str, claims: &WatchedClaims) -> bool {
        is_visible(folder)
            && (!self.is_ignored(folder, FileKind::Folder)
                || claims.leads_to(folder)
                || claims
                    .tree_over(folder)
                    .is_some_and(|tree| self.is_ignored(tree.trim_end_matches('/'), FileKind::Folder)))
    }

    fn is_ignored(&mut self, path: &str, kind: FileKind) -> bool {
        is_rendered(path) || self.rules.matched(path, kind == FileKind::Folder).is_ignore()
    }

    /// Reads the rules again. They are cached by folder, so that a changed `.gitignore` would have no effect.
    fn reread_rules(&mut self) {
        if let Some(rules) = read_rules(&self.root) {
            self.rules = rules;
        }
    }

    fn add_warning(&mut self, message: String, hint: String) {
        let warning = WatchWarning { message: message.clone(), hint };
        if self.warnings.insert(message, warning.clone()).is_none() {
            self.new_warnings.push(warning);
        }
    }

    fn folder_of(&self, tree: &str) -> PathBuf {
        self.root.join(tree.trim_start_matches("./").trim_end_matches('/'))
    }

    fn relative(&self, path: &Path) -> Option<String> {
        let relative = path.strip_prefix(&self.root).ok()?.to_string_lossy();
        Some(if MAIN_SEPARATOR_STR == "/" { relative.into_owned() } else { relative.replace(MAIN_SEPARATOR_STR, "/") })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Folder,
    Other,
}

/// Whether a path is in a rendered folder. Rendered files are not work of agents, even if git tracks them.
fn is_rendered(path: &str) -> bool {
    let first = path.split_once('/').map_or(path, |(first, _)| first);
    [SHARED_FOLDER, NEW_SHARED_FOLDER].contains(&first)
}

/// The rules of `.gitignore` files in and above the root, of `.git/info/exclude` and of git's global excludes, also
/// where the root is no git repository.
fn read_rules(root: &Path) -> Option<IncrementalIgnore> {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).ignore(false).require_git(false).current_dir(root);
    builder.build_matchers().pop()
}

/// Whether a path is a real folder. A link to a folder counts as a file, as in git.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}
