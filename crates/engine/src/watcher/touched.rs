//! Where the operating system's events land: a bounded set of touched paths, emptied as a whole.
//!
//! Runs on the thread of the `notify` crate, which must never block: it takes a short lock and returns. What a path
//! means (claimed, ignored, a folder) is found out later, away from that thread.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
use notify::{Event, EventKind};

/// Distinct paths kept between two looks at the inbox; beyond it we only count, and look at every claim again.
pub(super) const MAX_PATHS: usize = 50_000;

/// What an event says of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// It is or was a file.
    File,
    /// It may be a folder that appeared or vanished: one has to look.
    Unclear,
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) paths: HashMap<PathBuf, Touch>,
    /// Events about paths beyond `MAX_PATHS`.
    pub(super) beyond: u64,
    /// Events were lost: only looking at everything again tells what happened.
    pub(super) rescan: bool,
    /// What the operating system's interface complained about, the latest.
    pub(super) complaint: Option<String>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.beyond == 0 && !self.rescan && self.complaint.is_none()
    }
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    batch: Mutex<Batch>,
    /// Wakes the one reader; a wake-up while it is busy is kept for it.
    pub(super) arrived: tokio::sync::Notify,
}

impl Inbox {
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
                batch.complaint = Some(error.to_string());
            }
        }
        drop(batch);
        self.arrived.notify_one();
    }

    /// Asks for everything to be looked at again.
    pub(super) fn rescan(&self) {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner).rescan = true;
        self.arrived.notify_one();
    }

    pub(super) fn take(&self) -> Batch {
        std::mem::take(&mut *self.batch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn add(batch: &mut Batch, path: PathBuf, touch: Touch) {
    if let Some(known) = batch.paths.get_mut(&path) {
        if touch == Touch::Unclear {
            *known = touch;
        }
    } else if batch.paths.len() < MAX_PATHS {
        batch.paths.insert(path, touch);
    } else {
        // A claimed file or a new folder may be among those we drop.
        batch.beyond += 1;
        batch.rescan = true;
    }
}

/// `None` for events that change no content: opening (our own hashing does that), reading, permissions, times.
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
    fn a_flood_stays_bounded_and_asks_for_a_rescan() {
        let inbox = Inbox::default();
        for n in 0..MAX_PATHS + 7 {
            inbox.receive(data(format!("/p/{n}")));
        }
        let batch = inbox.take();
        assert_eq!((batch.paths.len(), batch.beyond, batch.rescan), (MAX_PATHS, 7, true));
        assert!(inbox.take().is_empty());
    }

    #[test]
    fn opening_and_permissions_are_no_change() {
        let inbox = Inbox::default();
        inbox.receive(Ok(Event::new(EventKind::Access(AccessKind::Open(AccessMode::Any))).add_path("/p/a".into())));
        inbox.receive(Ok(Event::new(EventKind::Modify(ModifyKind::Metadata(notify::event::MetadataKind::Any)))
            .add_path("/p/a".into())));
        assert!(inbox.take().is_empty());
    }

    #[test]
    fn a_doubt_about_a_path_outlives_a_plain_write() {
        let inbox = Inbox::default();
        inbox.receive(Ok(Event::new(EventKind::Create(CreateKind::Any)).add_path("/p/a".into())));
        inbox.receive(data("/p/a".to_owned()));
        assert_eq!(inbox.take().paths.get(std::path::Path::new("/p/a")), Some(&Touch::Unclear));
    }

    #[test]
    fn a_lost_event_asks_for_a_rescan() {
        let inbox = Inbox::default();
        inbox.receive(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(inbox.take().rescan);
    }
}
