//! Paths by the time at which each is due, with fast access to the earliest.

use std::collections::{BTreeSet, HashMap};

/// Due times of paths, ordered by time.
#[derive(Debug, Default)]
pub(super) struct DueSchedule {
    due_ms: HashMap<String, u64>,
    order: BTreeSet<(u64, String)>,
}

impl DueSchedule {
    /// Adds a path, or changes its due time.
    pub(super) fn set(&mut self, path: &str, due_ms: u64) {
        if self.due_ms.get(path) != Some(&due_ms) {
            self.remove(path);
            self.due_ms.insert(path.to_owned(), due_ms);
            self.order.insert((due_ms, path.to_owned()));
        }
    }

    pub(super) fn remove(&mut self, path: &str) {
        if let Some((path, due_ms)) = self.due_ms.remove_entry(path) {
            self.order.remove(&(due_ms, path));
        }
    }

    pub(super) fn first_due_ms(&self) -> Option<u64> {
        self.order.first().map(|(due_ms, _)| *due_ms)
    }

    /// Removes and returns the path that is due first, if it is due by `now_ms`.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Option<String> {
        if self.first_due_ms()? > now_ms {
            return None;
        }
        let (_, path) = self.order.pop_first()?;
        self.due_ms.remove(&path);
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_path_is_taken_first_when_due() {
        let mut schedule = DueSchedule::default();
        for (path, due_ms) in [("a", 30), ("b", 10), ("c", 20), ("a", 5), ("b", 40), ("d", 1)] {
            schedule.set(path, due_ms);
        }
        schedule.remove("d");
        assert_eq!(schedule.first_due_ms(), Some(5));
        let due: Vec<_> = std::iter::from_fn(|| schedule.take_due(39)).collect();
        assert_eq!(due, ["a", "c"]);
        assert_eq!((schedule.first_due_ms(), schedule.take_due(40)), (Some(40), Some("b".to_owned())));
        assert_eq!(schedule.first_due_ms(), None);
    }
}
