//! What waits for one agent at its endpoint: in order, one at a time of what is about the same task.

use std::collections::{BTreeMap, BTreeSet};

use rookery_core::{MessageId, Seq, TaskId};

use super::deliver::Verdict;
use crate::messages::Waits;

/// How much of what waits is kept in memory; the rest is read when some of it is done.
pub(super) const KEPT: usize = 200;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) message: MessageId,
    pub(super) task: Option<TaskId>,
    pub(super) attempts: u32,
    /// Not before this time.
    pub(super) due: u64,
    /// The job that it is on its way by.
    pub(super) job: Option<u64>,
    /// How it ended, if that is still to be written down.
    pub(super) verdict: Option<Verdict>,
    /// Nobody waits for it any more, but it is on its way: what comes after it of its task waits until that has ended.
    over: bool,
    /// It is over and waits again, because somebody wants that.
    anew: bool,
}

/// Whether what waits has to be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Look {
    Done,
    /// Something may have come after what is known.
    Further,
    /// From the beginning.
    Anew,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Round {
    pub(super) url: String,
    items: BTreeMap<(Seq, MessageId), Item>,
    /// What comes after it was not read.
    read_to: Seq,
    look: Look,
}

/// What of a round can be sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ready {
    pub(super) items: Vec<Item>,
    /// When the next one is due, of those that wait for their time.
    pub(super) next: Option<u64>,
}

impl Round {
    pub(super) fn new(url: String) -> Round {
        Round { url, items: BTreeMap::new(), read_to: Seq::ZERO, look: Look::Anew }
    }

    /// Another endpoint: what failed at the old one is tried there at once.
    pub(super) fn moves_to(&mut self, url: String) {
        self.url = url;
        for item in self.items.values_mut() {
            (item.attempts, item.due) = (0, 0);
        }
    }

    pub(super) fn look_again(&mut self, look: Look) {
        self.look = self.look.max(look);
    }

    /// After which place to read, and how much, if there is something to read.
    pub(super) fn to_read(&self) -> Option<(Seq, u32)> {
        let room = u32::try_from(KEPT.saturating_sub(self.items.len())).unwrap_or(0);
        match self.look {
            Look::Done => None,
            Look::Anew => Some((Seq::ZERO, u32::try_from(KEPT).unwrap_or(u32::MAX))),
            Look::Further if self.items.len() > KEPT / 2 => None,
            Look::Further => Some((self.read_to, room)),
        }
    }

    /// Takes what was read, so many at most. What is known keeps its turn.
    pub(super) fn read(&mut self, waiting: Vec<Waits>, most: u32) {
        let whole = waiting.len() < most as usize;
        if let Some(last) = waiting.last() {
            self.read_to = last.sent;
        }
        if self.look == Look::Anew {
            let found: BTreeSet<&MessageId> = waiting.iter().map(|waits| &waits.message).collect();
            self.items.retain(|(_, message), item| item.job.is_some() || found.contains(message));
        }
        self.look = if whole { Look::Done } else { Look::Further };
        for Waits { message, sent, task, .. } in waiting.into_iter().filter(|waits| !waits.dead) {
            let new = Item {
                message: message.clone(),
                task,
                attempts: 0,
                due: 0,
                job: None,
                verdict: None,
                over: false,
                anew: false,
            };
            self.items.entry((sent, message)).and_modify(|known| known.anew = known.over).or_insert(new);
        }
    }

    /// The first of each task that is due now, as many as may be sent, each by a job of its own.
    pub(super) fn ready(&mut self, now: u64, most: usize, jobs: &mut impl Iterator<Item = u64>) -> Ready {
        let mut ready = Ready::default();
        let mut tasks = BTreeSet::new();
        for item in self.items.values_mut() {
            if !tasks.insert(item.task.clone()) || item.job.is_some() {
                continue;
            }
            if item.due > now {
                ready.next = Some(ready.next.map_or(item.due, |next| next.min(item.due)));
            } else if ready.items.len() < most {
                item.job = jobs.next();
                ready.items.push(item.clone());
            }
        }
        ready
    }

    pub(super) fn on_their_way(&self) -> usize {
        self.items.values().filter(|item| item.job.is_some()).count()
    }

    /// Nobody waits for it any more.
    pub(super) fn done(&mut self, message: &MessageId) {
        self.items.retain(|(_, known), item| {
            item.over |= known == message;
            !item.over || item.job.is_some()
        });
    }

    /// A job has settled it. If it waits again by now, it goes on waiting.
    pub(super) fn done_by(&mut self, job: u64) {
        if let Some(item) = self.comes_back(job, 0) {
            item.over = true;
        }
        self.items.retain(|_, item| !item.over || item.job.is_some());
    }

    /// It did not arrive, and is tried again then.
    pub(super) fn again(&mut self, job: u64, due: u64) {
        if let Some(item) = self.comes_back(job, due) {
            item.attempts = item.attempts.saturating_add(1);
        }
    }

    /// It was not even tried, or it is not written down yet how it ended.
    pub(super) fn put_back(&mut self, job: u64, due: u64, verdict: Option<Verdict>) {
        if let Some(item) = self.comes_back(job, due) {
            item.verdict = verdict;
        }
    }

    /// What a job had, unless it was over meanwhile.
    fn comes_back(&mut self, job: u64, due: u64) -> Option<&mut Item> {
        let key = self.items.iter().find(|(_, item)| item.job == Some(job)).map(|(key, _)| key.clone())?;
        if let Some(item) = self.items.get(&key).filter(|item| item.over) {
            if item.anew {
                self.look_again(Look::Anew);
            }
            self.items.remove(&key);
            return None;
        }
        let item = self.items.get_mut(&key)?;
        (item.job, item.due) = (None, due);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(sent: u64, task: Option<&str>) -> Waits {
        let message = MessageId::new(format!("m{sent}"));
        Waits { message, sent: Seq(sent), task: task.map(TaskId::from), dead: false }
    }

    /// What is ready, by jobs that are numbered from the first.
    fn ready(round: &mut Round, now: u64, most: usize, first: u64) -> Ready {
        round.ready(now, most, &mut (first..))
    }

    fn names(ready: &Ready) -> Vec<&str> {
        ready.items.iter().map(|item| item.message.as_str()).collect()
    }

    #[test]
    fn what_is_about_one_task_goes_one_after_the_other() {
        let mut round = Round::new("u".to_owned());
        let tasks = [Some("t"), Some("u"), Some("t"), None, None, Some("u")];
        round.read((1..).zip(tasks).map(|(sent, task)| waits(sent, task)).collect(), 100);
        assert_eq!(names(&ready(&mut round, 0, 9, 1)), ["m1", "m2", "m4"]);
        assert_eq!(names(&ready(&mut round, 0, 9, 4)), [""; 0], "each of them is on its way");
        round.done_by(1);
        round.again(2, 50);
        let found = ready(&mut round, 10, 9, 4);
        assert_eq!((names(&found), found.next), (vec!["m3"], Some(50)), "m6 waits for m2");
        round.done(&"m3".into());
        assert_eq!(names(&ready(&mut round, 50, 0, 5)), [""; 0]);
        let found = ready(&mut round, 50, 9, 5);
        assert_eq!((names(&found), found.items[0].attempts), (vec!["m2"], 1));
        assert_eq!(round.on_their_way(), 3);
    }

    #[test]
    fn what_was_read_before_keeps_its_turn_and_what_is_gone_goes() {
        let mut round = Round::new("u".to_owned());
        assert_eq!(round.to_read(), Some((Seq(0), 200)));
        round.read(vec![waits(1, None), waits(2, None)], 200);
        assert_eq!(round.to_read(), None);
        ready(&mut round, 0, 1, 1);
        round.again(1, 7);
        round.look_again(Look::Further);
        assert_eq!(round.to_read(), Some((Seq(2), 198)));
        round.read(vec![waits(3, Some("t"))], 198);
        round.look_again(Look::Anew);
        let dead = Waits { dead: true, ..waits(4, None) };
        round.read(vec![waits(1, None), waits(3, Some("t")), dead], 200);
        let found = ready(&mut round, 7, 9, 2);
        assert_eq!(names(&found), ["m1", "m3"], "m2 was acknowledged, m4 is dead");
        assert_eq!(found.items[0].attempts, 1);
    }

    #[test]
    fn what_is_over_on_its_way_holds_up_its_task_until_it_is_there() {
        for settle in [|round: &mut Round| round.done_by(1), |round: &mut Round| round.again(1, 5)] {
            let mut round = Round::new("u".to_owned());
            round.read(vec![waits(1, Some("t")), waits(2, Some("t"))], 200);
            assert_eq!(names(&ready(&mut round, 0, 9, 1)), ["m1"]);
            round.done(&"m1".into());
            assert_eq!(names(&ready(&mut round, 0, 9, 2)), [""; 0], "m1 may arrive yet");
            settle(&mut round);
            assert_eq!(names(&ready(&mut round, 0, 9, 2)), ["m2"]);
            assert_eq!(round.to_read(), None, "nothing else has changed");
        }
    }

    #[test]
    fn what_a_job_comes_to_late_is_no_news_to_the_next_one() {
        let mut round = Round::new("u".to_owned());
        round.read(vec![waits(1, None)], 200);
        ready(&mut round, 0, 9, 1);
        // Given up on and tried again, before the first job was heard of.
        round.done(&"m1".into());
        round.look_again(Look::Anew);
        round.read(vec![waits(1, None)], 200);
        assert_eq!(names(&ready(&mut round, 0, 9, 2)), [""; 0], "it is on its way still");
        round.done_by(1);
        assert_eq!(round.to_read(), Some((Seq(0), 200)));
        round.read(vec![waits(1, None)], 200);
        assert_eq!(names(&ready(&mut round, 0, 9, 2)), ["m1"]);
        round.again(1, 5);
        assert_eq!(round.on_their_way(), 1);
        round.put_back(2, 3, Some(Verdict::Taken));
        let found = ready(&mut round, 3, 9, 3);
        assert_eq!((found.items[0].attempts, &found.items[0].verdict), (0, &Some(Verdict::Taken)));
    }

    #[test]
    fn only_so_much_is_kept() {
        let mut round = Round::new("u".to_owned());
        round.read((1..=200).map(|sent| waits(sent, None)).collect(), 200);
        assert_eq!(round.to_read(), None, "there may be more, and no room");
        (1..=100).for_each(|sent| round.done(&MessageId::new(format!("m{sent}"))));
        assert_eq!(round.to_read(), Some((Seq(200), 100)));
    }
}
