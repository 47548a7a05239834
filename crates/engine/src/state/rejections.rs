//! How often it is noted in the log that messages were refused for their signature: whoever sends many of them must not be
//! able to fill it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Milliseconds that are counted together.
const WINDOW_MILLIS: u64 = 60_000;
/// What is noted in a window, by one sender and in all.
const MAX_PER_SENDER: u32 = 3;
const MAX_PER_WINDOW: u32 = 20;

#[derive(Debug, Default)]
pub(crate) struct Rejections(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    since: u64,
    noted: u32,
    /// No more senders than notes.
    by: HashMap<String, u32>,
    omitted: u64,
}

impl Rejections {
    /// Whether this one is to be noted, and how many were not since the last one that was.
    pub(crate) fn note(&self, from: &str, now: u64) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(counted.since) >= WINDOW_MILLIS {
            *counted = Counted { since: now, omitted: counted.omitted, ..Counted::default() };
        }
        let by_one = counted.by.get(from).copied().unwrap_or(0);
        if counted.noted == MAX_PER_WINDOW || by_one == MAX_PER_SENDER {
            counted.omitted += 1;
            return None;
        }
        counted.noted += 1;
        counted.by.insert(from.to_owned(), by_one + 1);
        Some(std::mem::take(&mut counted.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_noted_a_few_times_and_counted() {
        let rejections = Rejections::default();
        let told: Vec<_> = (0..100).map(|_| rejections.note("ken", 5)).collect();
        assert_eq!(told.iter().flatten().count(), 3);
        assert_eq!(rejections.note("ada", 5), Some(97), "another one is noted still");
        assert_eq!(rejections.note("ken", WINDOW_MILLIS - 1), None);
        assert_eq!(rejections.note("ken", WINDOW_MILLIS + 5), Some(1));
    }

    #[test]
    fn many_names_make_no_more_notes_than_a_few() {
        let rejections = Rejections::default();
        let noted = (0..1_000).filter_map(|name| rejections.note(&format!("a{name}"), 0)).count();
        assert_eq!(noted, 20);
        assert_eq!(rejections.0.lock().unwrap().by.len(), 20);
        assert_eq!(rejections.note("ken", WINDOW_MILLIS), Some(980));
    }
}
