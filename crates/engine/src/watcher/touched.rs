//! Collects the operating system's events in a bounded set of touched paths, which is taken as a whole.
//!
//! Runs on the thread of the `notify` crate, which must never block: it holds a lock for a short time. Whether a path is
//! claimed, ignored or a folder is determined later, on another thread.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
use notify::{Event, EventKind};

/// The most distinct paths in a batch. Beyond it events are only counted, and every claim is checked again.
pub(super) const MAX_PATHS: usize = 50_000;

/// The kind of thing at a path, as an event tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// A file, or one that was removed.
    File,
    /// Possibly a folder that appeared or vanished; only the disk can tell.
    Unclear,
}

/// The events since the last batch.
#[derive(Debug, Default)]
pub(super) struct EventBatch {
    pub(super) paths: HashMap<PathBuf, Touch>,
    /// The number of events about paths beyond `MAX_PATHS`.
    pub(super) beyond: u64,
    /// Events were lost, so that everything must be checked again.
    pub(super) rescan: bool,
    /// The last error of the operating system's interface.
    pub(super) error: Option<String>,
}

impl EventBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.beyond == 0 && !self.rescan && self.error.is_none()
    }
}

/// The paths touched since the last batch was taken.
#[derive(Debug, Default)]
pub(super) struct TouchedPaths {
    batch: Mutex<EventBatch>,
    /// Wakes the reader. A notification while it is busy is kept.
    pub(super) arrived: tokio::sync::Notify,
}

impl TouchedPaths {
    pub(super) fn receive(&self, event: notify::Result<Event>) {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(event) if event.need_rescan() => batch.rescan = true,
            Ok(event) => {
                let Some(touch) = touch(event.kind) else { return };
                for path in event.paths {
                    add(&mut batch, path, touch);
                }
            }
            Err(error) => {
                batch.rescan = true;
                batch.error = Some(error.to_string());
            }
        }
        drop(batch);
        self.arrived.notify_one();
    }

    /// Requests a check of everything.
    pub(super) fn rescan(&self) {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).rescan = true;
        self.arrived.notify_one();
    }

    pub(super) fn take(&self) -> EventBatch {
        std::mem::take(&mut *self.batch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn add(batch: &mut EventBatch, path: PathBuf, touch: Touch) {
    if let Some(known) = batch.paths.get_mut(&path) {
        if touch == Touch::Unclear {
            *known = touch;
        }
    } else if batch.paths.len() < MAX_PATHS {
        batch.paths.insert(path, touch);
    } else {
        // A claimed file or a new folder may be among the dropped paths.
        batch.beyond += 1;
        batch.rescan = true;
    }
}

/// The touch of an event; `None` if it changes no content, such as opening (which hashing does), permissions or times.
fn touch(kind: EventKind) -> Option<Touch> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Create(CreateKind::File)
        | EventKind::Modify(ModifyKind::Data(_))
        | EventKind::Remove(RemoveKind::File) => Some(Touch::File),
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => None,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => {
            Some(Touch::Unclear)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{DataChange, Flag};

    fn data(path: String) -> notify::Result<Event> {
        Ok(Event::new(EventKind::Modify(ModifyKind::Data(DataChange::Any))).add_path(path.into()))
    }

    #[test]
    fn event_flood_stays_bounded_and_requests_a_rescan() {
        let touched = TouchedPaths::default();
        for n in 0..MAX_PATHS + 7 {
            touched.receive(data(format!("/p/{n}")));
        }
        let batch = touched.take();
        assert_eq!((batch.paths.len(), batch.beyond, batch.rescan), (MAX_PATHS, 7, true));
        assert!(touched.take().is_empty());
    }

    #[test]
    fn open_and_permission_events_are_ignored() {
        let touched = TouchedPaths::default();
        touched.receive(Ok(Event::new(EventKind::Access(AccessKind::Open(AccessMode::Any))).add_path("/p/a".into())));
        touched.receive(Ok(Event::new(EventKind::Modify(ModifyKind::Metadata(notify::event::MetadataKind::Any)))
            .add_path("/p/a".into())));
        assert!(touched.take().is_empty());
    }

    #[test]
    fn unclear_event_is_kept_after_a_write() {
        let touched = TouchedPaths::default();
        touched.receive(Ok(Event::new(EventKind::Create(CreateKind::Any)).add_path("/p/a".into())));
        touched.receive(data("/p/a".to_owned()));
        assert_eq!(touched.take().paths.get(std::path::Path::new("/p/a")), Some(&Touch::Unclear));
    }

    #[test]
    fn lost_event_requests_a_rescan() {
        let touched = TouchedPaths::default();
        touched.receive(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(touched.take().rescan);
    }
}
