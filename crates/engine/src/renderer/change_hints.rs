//! Hints of the operating system that files of an instance may have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecommendedWatcher, Watcher as _};
use rookery_core::kernel::instance::Instance;
use tokio::sync::Notify;

/// Instances whose folders changed according to the operating system. These are only hints: the next round checks the files.
#[derive(Debug, Default)]
pub(super) struct ChangeHints {
    folders: Mutex<BTreeMap<PathBuf, Instance>>,
    touched: Mutex<BTreeSet<Instance>>,
    pub(super) arrived: Notify,
}

impl ChangeHints {
    fn receive(&self, event: notify::Result<notify::Event>) {
        let Ok(event) = event else { return };
        let reading = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            EventKind::Modify(ModifyKind::Metadata(_)) => true,
            _ => false,
        };
        if reading {
            return;
        }
        let folders = lock(&self.folders);
        let of = |path: &PathBuf| path.ancestors().find_map(|folder| folders.get(folder)).cloned();
        lock(&self.touched).extend(event.paths.iter().filter_map(of));
        self.arrived.notify_one();
    }

    /// Counts changes in a folder as changes of an instance.
    pub(super) fn add_folder(&self, folder: &Path, instance: &Instance) {
        lock(&self.folders).insert(folder.to_owned(), instance.clone());
    }

    pub(super) fn remove_instance(&self, instance: &Instance) {
        lock(&self.folders).retain(|_, known| known != instance);
    }

    /// Takes the instances with changes since the last call.
    pub(super) fn take(&self) -> BTreeSet<Instance> {
        std::mem::take(&mut *lock(&self.touched))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the file watcher. Without it, changes are found by polling.
pub(super) fn create_watcher(hints: &Arc<ChangeHints>) -> Option<RecommendedWatcher> {
    let hints = hints.clone();
    let config = notify::Config::default().with_follow_symlinks(false);
    match RecommendedWatcher::new(move |event| hints.receive(event), config) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "cannot watch context files; changes are noticed with a delay");
            None
        }
    }
}
