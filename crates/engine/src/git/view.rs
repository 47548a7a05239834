//! The git folder that our git is given in place of the repository's own.
//!
//! It lies in the project's `.rookery/`, which agents cannot write. Its configuration is ours (`settings.rs`), it has no
//! hooks and no attributes, and only objects and refs lead on to the repository. So git never reads a setting that an
//! agent wrote, whatever happens to the repository's files while it runs.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::settings::RepositorySettings;

/// Parts of the view that lead to the repository itself.
const SHARED: [&str; 4] = ["objects", "refs", "packed-refs", "shallow"];
/// The head of a view without one: a branch that is never asked for.
const NO_HEAD: &str = "ref: refs/rookery/none";
/// A view that is older than this was left behind by a daemon that was killed.
const STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A git folder of ours, removed when it is dropped.
#[derive(Debug)]
pub(super) struct View {
    folder: PathBuf,
}

impl View {
    /// A view that belongs to no worktree.
    pub fn bare(views: &Path, common: &Path, settings: &RepositorySettings) -> io::Result<View> {
        View::new(views, common, settings, NO_HEAD, "true")
    }

    /// A view of a worktree with this head, if it has one.
    pub fn of_worktree(
        views: &Path,
        common: &Path,
        settings: &RepositorySettings,
        head: Option<&str>,
    ) -> io::Result<View> {
        View::new(views, common, settings, head.unwrap_or(NO_HEAD), "false")
    }

    fn new(
        views: &Path,
        common: &Path,
        settings: &RepositorySettings,
        head: &str,
        bare: &'static str,
    ) -> io::Result<View> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = views.join(format!("{}-{number}", std::process::id()));
        if folder.exists() {
            // Of a process that had our number before.
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("info"))?;
        remove_stale(views, &folder);
        let view = View { folder };
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

impl Drop for View {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::debug!(%error, folder = %self.folder.display(), "a git folder of ours stays behind");
        }
    }
}

/// Removes what daemons left behind that were killed. The age is told by the time of a folder that is new.
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
