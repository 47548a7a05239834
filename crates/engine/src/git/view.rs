//! The git folder that the daemon's git uses in place of the repository's own.
//!
//! It is in the project's `.rookery/`, which agents cannot write. Its configuration comes from `settings.rs`, it has no hooks
//! and no attributes, and only objects and refs link to the repository. So git never reads a setting that an agent wrote,
//! even if the repository's files change while it runs.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::settings::RepositorySettings;

/// Parts of the view that are links to the repository.
const SHARED: [&str; 4] = ["objects", "refs", "packed-refs", "shallow"];
/// The head of a view without one: a ref that is never used.
const NO_HEAD: &str = "ref: refs/rookery/none";
/// A view that is older than this was left by a daemon that was killed.
const STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A temporary git folder, removed when it is dropped.
#[derive(Debug)]
pub(super) struct GitView {
    folder: PathBuf,
}

impl GitView {
    /// A view that belongs to no worktree.
    pub fn bare(views: &Path, common: &Path, settings: &RepositorySettings) -> io::Result<GitView> {
        GitView::new(views, common, settings, NO_HEAD, "true")
    }

    /// A view of a worktree with this head, if it has one.
    pub fn of_worktree(
        views: &Path,
        common: &Path,
        settings: &RepositorySettings,
        head: Option<&str>,
    ) -> io::Result<GitView> {
        GitView::new(views, common, settings, head.unwrap_or(NO_HEAD), "false")
    }

    fn new(
        views: &Path,
        common: &Path,
        settings: &RepositorySettings,
        head: &str,
        bare: &'static str,
    ) -> io::Result<GitView> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = views.join(format!("{}-{number}", std::process::id()));
        if folder.exists() {
            // Left by a process that had the same id.
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("info"))?;
        remove_stale(views, &folder);
        let view = GitView { folder };
        fs::write(view.path("config"), format!("{}[core]\n\tbare = {bare}\n", settings.config))?;
        fs::write(view.path("HEAD"), format!("{head}\n"))?;
        fs::write(view.path("info/exclude"), &settings.excludes)?;
        for name in SHARED {
            symlink(common.join(name), view.path(name))?;
        }
        Ok(view)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for GitView {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::debug!(%error, folder = %self.folder.display(), "cannot remove a temporary git folder");
        }
    }
}

/// Removes the views of daemons that were killed. Ages are relative to the time of the new folder.
fn remove_stale(views: &Path, new: &Path) {
    let modified = |path: &Path| fs::symlink_metadata(path).and_then(|found| found.modified());
    let (Ok(now), Ok(entries)) = (modified(new), fs::read_dir(views)) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let age = modified(&path).ok().and_then(|then| now.duration_since(then).ok());
        if age.is_some_and(|age| age > STALE_AFTER) {
            fs::remove_dir_all(&path).ok();
        }
    }
}
