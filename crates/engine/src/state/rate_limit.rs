//! How much each sender sends: whoever is beyond its rate is told when to go on, so that one in a loop holds up nobody.
//!
//! Counted in the memory of a node, from its own start: several nodes take as much each.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// What a rate and its burst are counted over, in microseconds.
const BURST: u64 = 60_000_000;
/// From how many senders on those are forgotten who may send all they can again.
const SENDERS: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<String, u64>>);

/// Somebody sends too fast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RateExceeded<'a> {
    pub(crate) sender: &'a str,
    pub(crate) wait_millis: u64,
}

impl Rates {
    /// Counts so many by each of these senders, or none of them if it is too much for one. What is more than a whole burst passes
    /// when nothing came before it. `now` in milliseconds.
    pub(crate) fn count<'a>(
        &self,
        sent: &BTreeMap<&'a str, u64>,
        per_minute: u32,
        now: u64,
    ) -> Result<(), RateExceeded<'a>> {
        let now = now.saturating_mul(1_000);
        let interval = (BURST / u64::from(per_minute.max(1))).max(1);
        let mut due = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = Vec::with_capacity(sent.len());
        for (sender, count) in sent {
            let cost = interval.saturating_mul(*count).min(BURST);
            let after = due.get(*sender).copied().unwrap_or(0).max(now) + cost;
            if after > now + BURST {
                return Err(RateExceeded { sender, wait_millis: (after - now - BURST).div_ceil(1_000) });
            }
            new.push(((*sender).to_owned(), after));
        }
        if due.len() + new.len() > SENDERS {
            due.retain(|_, due| *due > now);
        }
        due.extend(new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(sender: &str, count: u64) -> BTreeMap<&str, u64> {
        BTreeMap::from([(sender, count)])
    }

    #[test]
    fn a_burst_is_taken_and_then_one_at_a_time() {
        let rates = Rates::default();
        assert_eq!(rates.count(&one("ken", 600), 600, 5), Ok(()));
        assert_eq!(rates.count(&one("ken", 1), 600, 5), Err(RateExceeded { sender: "ken", wait_millis: 100 }));
        assert_eq!(rates.count(&one("ken", 1), 600, 104), Err(RateExceeded { sender: "ken", wait_millis: 1 }));
        assert_eq!(rates.count(&one("ken", 1), 600, 105), Ok(()), "when it was told to");
        assert_eq!(rates.count(&one("ada", 600), 600, 105), Ok(()), "others have their own");
    }

    #[test]
    fn together_means_all_or_none() {
        let rates = Rates::default();
        rates.count(&one("ken", 10), 10, 0).unwrap();
        let both = BTreeMap::from([("ada", 10), ("ken", 1)]);
        assert_eq!(rates.count(&both, 10, 0), Err(RateExceeded { sender: "ken", wait_millis: 6_000 }));
        assert_eq!(rates.count(&one("ada", 10), 10, 0), Ok(()), "nothing of ada's was counted");
    }

    #[test]
    fn what_is_more_than_a_burst_passes_when_nothing_came_before_it() {
        let rates = Rates::default();
        assert_eq!(rates.count(&one("ken", 1_000), 10, 0), Ok(()));
        assert_eq!(rates.count(&one("ken", 1_000), 10, 59_999), Err(RateExceeded { sender: "ken", wait_millis: 1 }));
        assert_eq!(rates.count(&one("ken", 1_000), 10, 60_000), Ok(()));
    }

    #[test]
    fn those_who_send_little_are_forgotten() {
        let rates = Rates::default();
        for number in 0..10_000 {
            rates.count(&one(&number.to_string(), 1), 600, number * 10).unwrap();
        }
        assert!(rates.0.lock().unwrap().len() <= SENDERS);
    }
}
