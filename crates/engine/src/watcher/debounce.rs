//! Turns many touches into few observations: waits until a claimed file settles, compares its hash with the content
//! known for it, keeps one summary a second of everything else, and holds what could not be sent yet.
//!
//! Pure: time is a number of milliseconds that the caller hands in, hashes are results that it brings back. Everything
//! kept here is bounded: by the number of claimed files, or by a named limit.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::claims::{is_visible, subtree_prefix};
use super::schedule::Agenda;
use super::{Known, Observation, Watched};

/// Distinct unclaimed paths remembered for one summary; beyond it every touch counts.
pub(super) const MAX_OTHERS: usize = 50_000;
/// Unclaimed paths named in a summary.
pub(super) const MAX_SAMPLE: usize = 10;
/// Troubles waiting to be sent.
const MAX_TROUBLES: usize = 32;
/// A file that never settles is looked at after this many times the settling time.
const MAX_SETTLE_FACTOR: u64 = 10;
/// New content waits for this part of the settling time before it is told: if we read a file half-written, the event of
/// the other half arrives meanwhile, and the file is read again first.
const CONFIRM_PART: u64 = 2;

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) settle_ms: u64,
    pub(super) summary_ms: u64,
    /// Claimed files followed at once; changes of more files in claimed subtrees are only counted.
    pub(super) max_files: usize,
}

/// A file to hash; the result comes back with the same ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HashJob {
    pub(super) path: String,
    pub(super) ticket: u64,
}

#[derive(Debug)]
pub(super) struct Coalescer {
    limits: Limits,
    files: BTreeMap<String, File>,
    /// Files to hash, also those that were touched while they are hashed.
    dirty: BTreeMap<String, Dirty>,
    /// Changes not sent yet.
    changes: BTreeMap<String, Change>,
    /// When to hash what, by the strength of the cause. Follows from `files` and `dirty`: see `schedule`.
    hash_agendas: [Agenda; CAUSES.len()],
    /// When to tell what. Follows from `changes`, `files` and `dirty`: see `schedule`.
    tell_agenda: Agenda,
    others: Others,
    troubles: VecDeque<(String, String)>,
    next_ticket: u64,
}

/// Why a file is hashed; the strongest reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// It was touched: different content is news.
    Touched,
    /// The claim says what it should be: different content is news, the claimed content is not.
    Verify,
    /// Its content becomes the base.
    Learn,
}

const CAUSES: [Cause; 3] = [Cause::Touched, Cause::Verify, Cause::Learn];

#[derive(Debug)]
struct File {
    /// The content last reported, or known to whoever listens.
    base: Known,
    /// What the claim said last.
    given: Known,
    hashing: Option<(u64, Cause)>,
}

#[derive(Debug)]
struct Dirty {
    first_ms: u64,
    due_ms: u64,
    cause: Cause,
}

#[derive(Debug)]
struct Change {
    before: String,
    after: String,
    first_ms: u64,
}

#[derive(Debug, Default)]
struct Others {
    paths: HashSet<String>,
    sample: Vec<String>,
    beyond: u64,
    opened_ms: Option<u64>,
}

impl Coalescer {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            files: BTreeMap::new(),
            dirty: BTreeMap::new(),
            changes: BTreeMap::new(),
            hash_agendas: Default::default(),
            tell_agenda: Agenda::default(),
            others: Others::default(),
            troubles: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Takes over the claims: forgets what was released, verifies what is new or known otherwise than we thought.
    pub(super) fn adopt(&mut self, claims: &Watched, now_ms: u64) {
        let released: Vec<_> = self.files.extract_if(.., |path, _| !claims.covers(path)).collect();
        for (path, _) in released {
            self.dirty.remove(&path);
            self.schedule(&path);
        }
        for (path, known) in claims.files.iter().filter(|(path, _)| is_visible(path)) {
            let file = self.files.get_mut(path);
            let cause = match (file, known) {
                (None, _) => {
                    let file = File { base: known.clone(), given: known.clone(), hashing: None };
                    self.files.insert(path.clone(), file);
                    if *known == Known::Unlearned { Cause::Learn } else { Cause::Verify }
                }
                (Some(file), Known::Hash(_)) if file.given != *known => {
                    file.given = known.clone();
                    if file.base == *known {
                        continue;
                    }
                    if file.base == Known::Unlearned {
                        file.base = known.clone();
                    }
                    Cause::Verify
                }
                (Some(_), _) => continue,
            };
            self.mark(path, cause, now_ms);
        }
    }

    /// Files found in a newly claimed subtree: their content becomes the base. Returns how many were too many.
    pub(super) fn learn(&mut self, paths: Vec<String>, now_ms: u64) -> usize {
        let mut left_out = 0;
        for path in paths {
            if self.files.contains_key(&path) {
                continue;
            }
            if self.files.len() >= self.limits.max_files {
                left_out += 1;
                continue;
            }
            let file = File { base: Known::Unlearned, given: Known::Unlearned, hashing: None };
            self.files.insert(path.clone(), file);
            self.mark(&path, Cause::Learn, now_ms);
        }
        left_out
    }

    /// A claimed file, or a file in a claimed subtree, may have new content.
    pub(super) fn touched(&mut self, path: &str, now_ms: u64) {
        if !self.files.contains_key(path) {
            if self.files.len() >= self.limits.max_files {
                return self.other(path.to_owned(), now_ms);
            }
            // A file of a claimed subtree that we have not seen yet: before, there was none, or we cannot tell.
            let file = File { base: Known::Hash(String::new()), given: Known::Unlearned, hashing: None };
            self.files.insert(path.to_owned(), file);
        }
        self.mark(path, Cause::Touched, now_ms);
    }

    /// Everything claimed below a folder (`""` is the root) may have changed: it was moved, deleted, or put there, or
    /// events were lost.
    pub(super) fn touched_below(&mut self, folder: &str, now_ms: u64) {
        let prefix = subtree_prefix(folder);
        let below = self.files.range(prefix.clone()..).map(|(path, _)| path);
        let below: Vec<_> = below.take_while(|path| path.starts_with(&prefix)).cloned().collect();
        for path in below {
            self.mark(&path, Cause::Touched, now_ms);
        }
    }

    /// An unclaimed file changed.
    pub(super) fn other(&mut self, path: String, now_ms: u64) {
        self.others.opened_ms.get_or_insert(now_ms);
        if self.others.paths.len() >= MAX_OTHERS {
            self.others.beyond += u64::from(!self.others.paths.contains(&path));
        } else if self.others.paths.insert(path.clone()) && self.others.sample.len() < MAX_SAMPLE {
            self.others.sample.push(path);
        }
    }

    /// So many changes of which nobody kept the paths.
    pub(super) fn others_beyond(&mut self, count: u64, now_ms: u64) {
        if count > 0 {
            self.others.opened_ms.get_or_insert(now_ms);
            self.others.beyond += count;
        }
    }

    pub(super) fn trouble(&mut self, message: String, hint: String) {
        let told = self.troubles.iter().any(|(waiting, _)| *waiting == message);
        if !told && self.troubles.len() < MAX_TROUBLES {
            self.troubles.push_back((message, hint));
        }
    }

    /// Files that have settled and want hashing, touched ones first.
    pub(super) fn take_work(&mut self, at_most: usize, now_ms: u64) -> Vec<HashJob> {
        let mut work = Vec::new();
        for cause in CAUSES {
            while work.len() < at_most
                && let Some(path) = self.hash_agendas[cause as usize].take_due(now_ms)
            {
                work.extend(self.begin(path, cause));
            }
        }
        work
    }

    /// A hash came back; `None` when the file could not be read, which changes nothing.
    pub(super) fn hashed(&mut self, work: &HashJob, hash: Option<String>, now_ms: u64) {
        let Some(file) = self.files.get_mut(&work.path) else { return };
        let Some((_, cause)) = file.hashing.take_if(|(ticket, _)| *ticket == work.ticket) else { return };
        if let Some(hash) = hash {
            self.compare(&work.path, cause, hash, now_ms);
            self.forget_if_gone(&work.path);
        }
        self.schedule(&work.path);
    }

    fn compare(&mut self, path: &str, cause: Cause, hash: String, now_ms: u64) {
        let Some(file) = self.files.get_mut(path) else { return };
        let touched_again = self.dirty.get(path).is_some_and(|dirty| dirty.cause == Cause::Touched);
        let before = match &file.base {
            Known::Hash(base) if *base == hash => return,
            Known::Hash(base) => base.clone(),
            // It changed while we were learning it: what we read may be the change.
            Known::Unlearned if cause == Cause::Learn && touched_again => return,
            Known::Unlearned => String::new(),
        };
        let learnt = file.base == Known::Unlearned && cause != Cause::Touched;
        let expected = cause == Cause::Verify && file.given == Known::Hash(hash.clone());
        file.base = Known::Hash(hash.clone());
        if expected {
            self.changes.remove(path);
        } else if !learnt {
            self.change(path, before, hash, now_ms);
        }
    }

    /// Hashing broke down: whatever was under way is tried again.
    pub(super) fn retry_hashing(&mut self, now_ms: u64) {
        let under_way = self.files.iter_mut().filter_map(|(path, file)| Some((path.clone(), file.hashing.take()?.1)));
        for (path, cause) in under_way.collect::<Vec<_>>() {
            self.mark(&path, cause, now_ms + self.limits.settle_ms);
        }
    }

    /// When the next file will have settled; the past if one has.
    pub(super) fn work_due_ms(&self) -> Option<u64> {
        self.hash_agendas.iter().filter_map(Agenda::first_due_ms).min()
    }

    /// When the next summary may be sent; the past if it may.
    pub(super) fn summary_due_ms(&self) -> Option<u64> {
        Some(self.others.opened_ms? + self.limits.summary_ms)
    }

    /// When the next change of a claimed file may be sent; the past if one may.
    pub(super) fn change_due_ms(&self) -> Option<u64> {
        self.tell_agenda.first_due_ms()
    }

    pub(super) fn has_observation(&self, now_ms: u64) -> bool {
        let is_due = |due_ms: Option<u64>| due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        !self.troubles.is_empty() || is_due(self.change_due_ms()) || is_due(self.summary_due_ms())
    }

    /// The next thing to say. What is not taken stays, and is brought up to date meanwhile.
    pub(super) fn next_observation(&mut self, now_ms: u64) -> Option<Observation> {
        if let Some((message, hint)) = self.troubles.pop_front() {
            return Some(Observation::Trouble { message, hint });
        }
        let confirmed = self.tell_agenda.take_due(now_ms);
        if let Some((path, Change { before, after, .. })) = confirmed.and_then(|path| self.changes.remove_entry(&path))
        {
            return Some(Observation::Claimed { path, before, after });
        }
        if self.summary_due_ms()? > now_ms {
            return None;
        }
        let others = std::mem::take(&mut self.others);
        let changed = others.paths.len() as u64 + others.beyond;
        Some(Observation::Others { changed, sample: others.sample })
    }

    pub(super) fn file_count(&self) -> usize {
        self.files.len()
    }

    fn mark(&mut self, path: &str, cause: Cause, now_ms: u64) {
        let settle_ms = if cause == Cause::Touched { self.limits.settle_ms } else { 0 };
        match self.dirty.get_mut(path) {
            Some(dirty) => {
                let longest_ms = dirty.first_ms + self.limits.settle_ms * MAX_SETTLE_FACTOR;
                dirty.cause = dirty.cause.min(cause);
                dirty.due_ms = dirty.due_ms.max(now_ms + settle_ms).min(longest_ms);
            }
            None => {
                let dirty = Dirty { first_ms: now_ms, due_ms: now_ms + settle_ms, cause };
                self.dirty.insert(path.to_owned(), dirty);
            }
        }
        self.schedule(path);
    }

    fn begin(&mut self, path: String, cause: Cause) -> Option<HashJob> {
        self.dirty.remove(&path);
        let file = self.files.get_mut(&path)?;
        self.next_ticket += 1;
        file.hashing = Some((self.next_ticket, cause));
        self.schedule(&path);
        Some(HashJob { path, ticket: self.next_ticket })
    }

    /// Brings the agendas up to date with what is known of one path.
    fn schedule(&mut self, path: &str) {
        let hashing = self.is_hashing(path);
        let dirty = self.dirty.get(path).filter(|_| !hashing);
        for (cause, agenda) in CAUSES.iter().zip(&mut self.hash_agendas) {
            match dirty {
                Some(dirty) if dirty.cause == *cause => agenda.set(path, dirty.due_ms),
                _ => agenda.remove(path),
            }
        }
        match self.changes.get(path).map(|change| self.confirmed_ms(path, change)) {
            Some(due_ms) => self.tell_agenda.set(path, due_ms),
            None => self.tell_agenda.remove(path),
        }
    }

    fn is_hashing(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|file| file.hashing.is_some())
    }

    /// When a change counts as final: a while after it was seen, later if the file is being changed or read again.
    fn confirmed_ms(&self, path: &str, change: &Change) -> u64 {
        let moving = self.dirty.contains_key(path) || self.is_hashing(path);
        let settle_ms = self.limits.settle_ms;
        change.first_ms + if moving { settle_ms * MAX_SETTLE_FACTOR } else { settle_ms / CONFIRM_PART }
    }

    fn change(&mut self, path: &str, before: String, after: String, now_ms: u64) {
        if let Some(unsent) = self.changes.get_mut(path) {
            unsent.after = after;
            if unsent.before == unsent.after {
                self.changes.remove(path);
            }
        } else if before != after {
            self.changes.insert(path.to_owned(), Change { before, after, first_ms: now_ms });
        }
    }

    /// A deleted file of a claimed subtree needs no place here: if it comes back, it is a new one.
    fn forget_if_gone(&mut self, path: &str) {
        let gone = |file: &File| file.given == Known::Unlearned && file.base == Known::Hash(String::new());
        if !self.dirty.contains_key(path) && self.files.get(path).is_some_and(gone) {
            self.files.remove(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { settle_ms: 50, summary_ms: 1_000, max_files: 4 };
    const CONFIRM_MS: u64 = 25;

    fn claims(files: &[(&str, Known)], trees: &[&str]) -> Watched {
        Watched {
            files: files.iter().map(|(path, known)| ((*path).to_owned(), known.clone())).collect(),
            trees: trees.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn known(hash: &str) -> Known {
        Known::Hash(hash.to_owned())
    }

    fn claimed(path: &str, before: &str, after: &str) -> Observation {
        Observation::Claimed { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() }
    }

    /// A coalescer with `a` claimed at content `one` and verified.
    fn settled() -> Coalescer {
        let mut coalescer = Coalescer::new(LIMITS);
        coalescer.adopt(&claims(&[("a", known("one"))], &[]), 0);
        finish(&mut coalescer, 0, "one");
        assert_eq!(said(&mut coalescer, CONFIRM_MS), []);
        coalescer
    }

    /// Hashes whatever is due; every file has the content `hash`.
    fn finish(coalescer: &mut Coalescer, now_ms: u64, hash: &str) -> Vec<String> {
        let work = coalescer.take_work(usize::MAX, now_ms);
        for work in &work {
            coalescer.hashed(work, Some(hash.to_owned()), now_ms);
        }
        work.into_iter().map(|work| work.path).collect()
    }

    fn said(coalescer: &mut Coalescer, now_ms: u64) -> Vec<Observation> {
        std::iter::from_fn(|| coalescer.next_observation(now_ms)).collect()
    }

    #[test]
    fn a_file_is_hashed_once_it_settles_or_after_the_longest_wait() {
        // (touched at, asked at, expected to be due)
        let table: &[(&[u64], u64, bool)] = &[
            (&[0], 49, false),
            (&[0], 50, true),
            (&[0, 40], 60, false),
            (&[0, 40], 90, true),
            (&[0, 45, 90, 135, 180, 225, 270, 315, 360, 405, 450, 495], 499, false),
            (&[0, 45, 90, 135, 180, 225, 270, 315, 360, 405, 450, 495], 500, true),
        ];
        for (touches, asked_ms, due) in table {
            let mut coalescer = settled();
            for touched_ms in *touches {
                coalescer.touched("a", *touched_ms);
            }
            assert_eq!(!coalescer.take_work(1, *asked_ms).is_empty(), *due, "{touches:?} at {asked_ms}");
        }
    }

    #[test]
    fn only_new_content_is_reported() {
        // (content after each settled touch, what is said in the end)
        let table: &[(&[&str], &[Observation])] = &[
            (&["one"], &[]),
            (&["two"], &[claimed("a", "one", "two")]),
            (&["two", "three"], &[claimed("a", "one", "three")]),
            (&["two", "one"], &[]),
            (&[""], &[claimed("a", "one", "")]),
            (&["", "two"], &[claimed("a", "one", "two")]),
        ];
        for (contents, expected) in table {
            let mut coalescer = settled();
            for (nth, content) in contents.iter().enumerate() {
                let at_ms = 1_000 * nth as u64;
                coalescer.touched("a", at_ms);
                finish(&mut coalescer, at_ms + 50, content);
            }
            assert_eq!(said(&mut coalescer, 9_000), *expected, "{contents:?}");
        }
    }

    #[test]
    fn a_sent_change_is_the_base_of_the_next() {
        let mut coalescer = settled();
        coalescer.touched("a", 0);
        finish(&mut coalescer, 50, "two");
        assert_eq!(said(&mut coalescer, 50 + CONFIRM_MS), [claimed("a", "one", "two")]);
        coalescer.touched("a", 100);
        finish(&mut coalescer, 150, "one");
        assert_eq!(said(&mut coalescer, 150 + CONFIRM_MS), [claimed("a", "two", "one")]);
    }

    #[test]
    fn a_touch_while_hashing_hashes_again_afterwards() {
        let mut coalescer = settled();
        coalescer.touched("a", 0);
        let work = coalescer.take_work(1, 50);
        coalescer.touched("a", 60);
        assert_eq!(coalescer.take_work(1, 200), []);
        coalescer.hashed(&work[0], Some("two".to_owned()), 70);
        assert_eq!(finish(&mut coalescer, 200, "three"), ["a"]);
        assert_eq!(said(&mut coalescer, 200 + CONFIRM_MS), [claimed("a", "one", "three")]);
    }

    #[test]
    fn a_half_written_file_is_read_again_before_it_is_told() {
        let mut coalescer = settled();
        coalescer.touched("a", 0);
        finish(&mut coalescer, 50, "half");
        assert_eq!((coalescer.change_due_ms(), coalescer.has_observation(74)), (Some(75), false));
        coalescer.touched("a", 60);
        assert_eq!(said(&mut coalescer, 109), []);
        finish(&mut coalescer, 110, "whole");
        assert_eq!(said(&mut coalescer, 110), [claimed("a", "one", "whole")]);
    }

    #[test]
    fn a_file_that_never_rests_is_told_after_the_longest_wait() {
        let mut coalescer = settled();
        for at_ms in (0..1_000).step_by(10) {
            coalescer.touched("a", at_ms);
            finish(&mut coalescer, at_ms, &format!("{at_ms}"));
        }
        // First read at 500, told at 1000 at the latest, with what was read last.
        assert_eq!(said(&mut coalescer, 999), []);
        assert_eq!(said(&mut coalescer, 1_000).len(), 1);
    }

    #[test]
    fn a_new_claim_is_learnt_or_compared() {
        let table: &[(Known, &str, &[Observation])] = &[
            (Known::Unlearned, "one", &[]),
            (Known::Unlearned, "", &[]),
            (known("one"), "one", &[]),
            (known("one"), "two", &[claimed("a", "one", "two")]),
            (known("one"), "", &[claimed("a", "one", "")]),
            (known(""), "two", &[claimed("a", "", "two")]),
            (known(""), "", &[]),
        ];
        for (given, found, expected) in table {
            let mut coalescer = Coalescer::new(LIMITS);
            coalescer.adopt(&claims(&[("a", given.clone())], &[]), 0);
            assert_eq!(finish(&mut coalescer, 0, found), ["a"]);
            assert_eq!(said(&mut coalescer, CONFIRM_MS), *expected, "{given:?} found {found:?}");
        }
    }

    #[test]
    fn a_listener_that_lags_behind_is_not_told_twice() {
        let mut coalescer = settled();
        for (at_ms, content) in [(0, "two"), (100, "three")] {
            coalescer.touched("a", at_ms);
            finish(&mut coalescer, at_ms + 50, content);
            assert_eq!(said(&mut coalescer, at_ms + 50 + CONFIRM_MS).len(), 1);
        }
        // It has only read the first observation when it updates its claims.
        coalescer.adopt(&claims(&[("a", known("two"))], &[]), 200);
        finish(&mut coalescer, 200, "three");
        assert_eq!(said(&mut coalescer, 200 + CONFIRM_MS), []);
    }

    #[test]
    fn a_claim_renewed_with_the_content_found_is_no_news() {
        let mut coalescer = settled();
        coalescer.adopt(&claims(&[("a", known("two"))], &[]), 0);
        finish(&mut coalescer, 0, "two");
        assert_eq!(said(&mut coalescer, CONFIRM_MS), []);
    }

    #[test]
    fn a_released_file_is_forgotten_and_a_late_hash_of_it_ignored() {
        let mut coalescer = settled();
        coalescer.touched("a", 0);
        let late = coalescer.take_work(1, 50);
        coalescer.adopt(&Watched::default(), 60);
        coalescer.hashed(&late[0], Some("two".to_owned()), 70);
        coalescer.adopt(&claims(&[("a", known("three"))], &[]), 70);
        let fresh = coalescer.take_work(1, 70);
        coalescer.hashed(&late[0], Some("two".to_owned()), 70);
        coalescer.hashed(&fresh[0], Some("three".to_owned()), 70);
        assert_eq!(said(&mut coalescer, 70 + CONFIRM_MS), []);
    }

    #[test]
    fn files_of_a_claimed_subtree_are_learnt_and_new_ones_reported() {
        let mut coalescer = Coalescer::new(LIMITS);
        coalescer.adopt(&claims(&[], &["t/"]), 0);
        assert_eq!(coalescer.learn(vec!["t/a".to_owned(), "t/b".to_owned()], 0), 0);
        assert_eq!(finish(&mut coalescer, 0, "one"), ["t/a", "t/b"]);
        coalescer.touched("t/a", 100);
        coalescer.touched("t/new", 100);
        finish(&mut coalescer, 150, "two");
        assert_eq!(said(&mut coalescer, 150 + CONFIRM_MS), [claimed("t/a", "one", "two"), claimed("t/new", "", "two")]);
        coalescer.touched_below("t", 200);
        finish(&mut coalescer, 250, "");
        assert_eq!(said(&mut coalescer, 250 + CONFIRM_MS).len(), 3);
        assert_eq!(coalescer.file_count(), 0);
    }

    #[test]
    fn a_change_while_learning_is_not_taken_for_the_base() {
        let mut coalescer = Coalescer::new(LIMITS);
        coalescer.adopt(&claims(&[("a", Known::Unlearned)], &[]), 0);
        let learning = coalescer.take_work(1, 0);
        coalescer.touched("a", 10);
        coalescer.hashed(&learning[0], Some("two".to_owned()), 70);
        finish(&mut coalescer, 100, "two");
        assert_eq!(said(&mut coalescer, 100 + CONFIRM_MS), [claimed("a", "", "two")]);
    }

    #[test]
    fn more_files_than_the_limit_are_only_counted() {
        let mut coalescer = Coalescer::new(LIMITS);
        coalescer.adopt(&claims(&[], &["t/"]), 0);
        let six = (0..6).map(|n| format!("t/{n}")).collect();
        assert_eq!(coalescer.learn(six, 0), 2);
        finish(&mut coalescer, 0, "one");
        coalescer.touched("t/5", 0);
        let expected = Observation::Others { changed: 1, sample: vec!["t/5".to_owned()] };
        assert_eq!(said(&mut coalescer, 1_000), [expected]);
    }

    #[test]
    fn ten_thousand_unclaimed_files_are_one_summary_a_second() {
        let mut coalescer = settled();
        for n in 0..10_000_u64 {
            coalescer.other(format!("f{}", n % 5_000), n / 20);
        }
        assert!(!coalescer.has_observation(999));
        let summaries = said(&mut coalescer, 1_000);
        let [Observation::Others { changed: 5_000, sample }] = summaries.as_slice() else { panic!("{summaries:?}") };
        assert_eq!(sample.len(), MAX_SAMPLE);
        coalescer.other("g".to_owned(), 1_100);
        assert_eq!(said(&mut coalescer, 2_099), []);
        assert_eq!(said(&mut coalescer, 2_100).len(), 1);
        assert_eq!(coalescer.summary_due_ms(), None);
    }

    #[test]
    fn a_summary_nobody_takes_stays_bounded() {
        let mut coalescer = settled();
        for n in 0..MAX_OTHERS + 5 {
            coalescer.other(format!("f{n}"), 0);
        }
        coalescer.others_beyond(10, 0);
        let summaries = said(&mut coalescer, 1_000);
        let [Observation::Others { changed, .. }] = summaries.as_slice() else { panic!("{summaries:?}") };
        assert_eq!(*changed, MAX_OTHERS as u64 + 15);
    }

    #[test]
    fn the_same_trouble_waits_once_and_goes_first() {
        let mut coalescer = settled();
        coalescer.touched("a", 0);
        finish(&mut coalescer, 50, "two");
        coalescer.trouble("full".to_owned(), "more".to_owned());
        coalescer.trouble("full".to_owned(), "more".to_owned());
        let trouble = Observation::Trouble { message: "full".to_owned(), hint: "more".to_owned() };
        assert_eq!(said(&mut coalescer, 50 + CONFIRM_MS), [trouble, claimed("a", "one", "two")]);
    }

    #[test]
    fn an_unreadable_file_keeps_its_base_and_broken_hashing_is_tried_again() {
        let mut coalescer = settled();
        coalescer.touched("a", 0);
        let work = coalescer.take_work(1, 50);
        coalescer.hashed(&work[0], None, 70);
        coalescer.touched("a", 100);
        coalescer.take_work(1, 150);
        coalescer.retry_hashing(150);
        assert_eq!(finish(&mut coalescer, 250, "two"), ["a"]);
        assert_eq!(said(&mut coalescer, 250 + CONFIRM_MS), [claimed("a", "one", "two")]);
    }
}
