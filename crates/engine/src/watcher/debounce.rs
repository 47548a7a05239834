//! Turns many touches into few observations: waits until a claimed file settles, compares its hash with the known content,
//! summarizes all other changes, and keeps observations until they are sent.
//!
//! Pure: the caller passes the time in milliseconds and the results of hashing. All state is bounded, by the number of
//! claimed files or by a named limit.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::claims::{is_visible, subtree_prefix};
use super::schedule::DueSchedule;
use super::{KnownContent, Observation, WatchedClaims};

/// The most distinct unclaimed paths in one summary; beyond it every touch counts.
pub(super) const MAX_OTHERS: usize = 50_000;
/// The most unclaimed paths named in a summary.
pub(super) const MAX_SAMPLE: usize = 10;
/// The most warnings that wait to be sent.
const MAX_WARNINGS: usize = 32;
/// A file that never settles is hashed after the settling time multiplied by this.
const MAX_SETTLE_FACTOR: u64 = 10;
/// New content waits for the settling time divided by this before it is reported: if the file was read half-written, the
/// event of the other half arrives meanwhile, and the file is read again first.
const CONFIRM_PART: u64 = 2;

#[derive(Debug, Clone, Copy)]
pub(super) struct DebounceLimits {
    pub(super) settle_ms: u64,
    pub(super) summary_ms: u64,
    /// The most claimed files that are followed; changes of others in claimed subtrees are only counted.
    pub(super) max_files: usize,
}

/// A file to hash. The result has the same ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HashJob {
    pub(super) path: String,
    pub(super) ticket: u64,
}

#[derive(Debug)]
pub(super) struct Debouncer {
    limits: DebounceLimits,
    files: BTreeMap<String, TrackedFile>,
    /// Files to hash, including those touched during hashing.
    dirty: BTreeMap<String, Dirty>,
    /// Changes that are not sent yet.
    changes: BTreeMap<String, PendingChange>,
    /// When to hash each file, by cause. Derived from `files` and `dirty`: see `schedule`.
    hash_schedules: [DueSchedule; CAUSES.len()],
    /// When to report each change. Derived from `changes`, `files` and `dirty`: see `schedule`.
    report_schedule: DueSchedule,
    others: Others,
    warnings: VecDeque<(String, String)>,
    next_ticket: u64,
}

/// The reason to hash a file; the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HashCause {
    /// It was touched: other content is reported.
    Touched,
    /// The claim knows the content: other content is reported, the claimed content is not.
    Verify,
    /// Its content becomes the base.
    Learn,
}

const CAUSES: [HashCause; 3] = [HashCause::Touched, HashCause::Verify, HashCause::Learn];

#[derive(Debug)]
struct TrackedFile {
    /// The content last reported, or known to the listener.
    base: KnownContent,
    /// The content of the latest claim.
    given: KnownContent,
    hashing: Option<(u64, HashCause)>,
}

#[derive(Debug)]
struct Dirty {
    first_ms: u64,
    due_ms: u64,
    cause: HashCause,
}

#[derive(Debug)]
struct PendingChange {
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

impl Debouncer {
    pub(super) fn new(limits: DebounceLimits) -> Self {
        Self {
            limits,
            files: BTreeMap::new(),
            dirty: BTreeMap::new(),
            changes: BTreeMap::new(),
            hash_schedules: Default::default(),
            report_schedule: DueSchedule::default(),
            others: Others::default(),
            warnings: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Applies new claims: forgets released files, and verifies files that are new or whose known content changed.
    pub(super) fn adopt(&mut self, claims: &WatchedClaims, now_ms: u64) {
        let released: Vec<_> = self.files.extract_if(.., |path, _| !claims.covers(path)).collect();
        for (path, _) in released {
            self.dirty.remove(&path);
            self.schedule(&path);
        }
        for (path, known) in claims.files.iter().filter(|(path, _)| is_visible(path)) {
            let file = self.files.get_mut(path);
            let cause = match (file, known) {
                (None, _) => {
                    let file = TrackedFile { base: known.clone(), given: known.clone(), hashing: None };
                    self.files.insert(path.clone(), file);
                    if *known == KnownContent::Unlearned { HashCause::Learn } else { HashCause::Verify }
                }
                (Some(file), KnownContent::Hash(_)) if file.given != *known => {
                    file.given = known.clone();
                    if file.base == *known {
                        continue;
                    }
                    if file.base == KnownContent::Unlearned {
                        file.base = known.clone();
                    }
                    HashCause::Verify
                }
                (Some(_), _) => continue,
            };
            self.mark(path, cause, now_ms);
        }
    }

    /// Adds the files of a newly claimed subtree, whose content becomes the base. Returns how many exceeded the limit.
    pub(super) fn learn(&mut self, paths: Vec<String>, now_ms: u64) -> usize {
        let mut omitted = 0;
        for path in paths {
            if self.files.contains_key(&path) {
                continue;
            }
            if self.files.len() >= self.limits.max_files {
                omitted += 1;
                continue;
            }
            let file = TrackedFile { base: KnownContent::Unlearned, given: KnownContent::Unlearned, hashing: None };
            self.files.insert(path.clone(), file);
            self.mark(&path, HashCause::Learn, now_ms);
        }
        omitted
    }

    /// Marks a claimed file, or a file in a claimed subtree, as possibly changed.
    pub(super) fn touch(&mut self, path: &str, now_ms: u64) {
        if !self.files.contains_key(path) {
            if self.files.len() >= self.limits.max_files {
                return self.count_other(path.to_owned(), now_ms);
            }
            // A new file of a claimed subtree: none existed before, or none was known.
            let file =
                TrackedFile { base: KnownContent::Hash(String::new()), given: KnownContent::Unlearned, hashing: None };
            self.files.insert(path.to_owned(), file);
        }
        self.mark(path, HashCause::Touched, now_ms);
    }

    /// Marks all claimed files below a folder (`""` is the root) as possibly changed: the folder was moved, deleted or
    /// created, or events were lost.
    pub(super) fn touch_below(&mut self, folder: &str, now_ms: u64) {
        let prefix = subtree_prefix(folder);
        let below = self.files.range(prefix.clone()..).map(|(path, _)| path);
        let below: Vec<_> = below.take_while(|path| path.starts_with(&prefix)).cloned().collect();
        for path in below {
            self.mark(&path, HashCause::Touched, now_ms);
        }
    }

    /// Counts a change of an unclaimed file.
    pub(super) fn count_other(&mut self, path: String, now_ms: u64) {
        self.others.opened_ms.get_or_insert(now_ms);
        if self.others.paths.len() >= MAX_OTHERS {
            self.others.beyond += u64::from(!self.others.paths.contains(&path));
        } else if self.others.paths.insert(path.clone()) && self.others.sample.len() < MAX_SAMPLE {
            self.others.sample.push(path);
        }
    }

    /// Counts changes whose paths are not known.
    pub(super) fn count_others(&mut self, count: u64, now_ms: u64) {
        if count > 0 {
            self.others.opened_ms.get_or_insert(now_ms);
            self.others.beyond += count;
        }
    }

    pub(super) fn add_warning(&mut self, message: String, hint: String) {
        let is_waiting = self.warnings.iter().any(|(waiting, _)| *waiting == message);
        if !is_waiting && self.warnings.len() < MAX_WARNINGS {
            self.warnings.push_back((message, hint));
        }
    }

    /// Takes settled files to hash, touched ones first.
    pub(super) fn take_work(&mut self, at_most: usize, now_ms: u64) -> Vec<HashJob> {
        let mut work = Vec::new();
        for cause in CAUSES {
            while work.len() < at_most
                && let Some(path) = self.hash_schedules[cause as usize].take_due(now_ms)
            {
                work.extend(self.begin(path, cause));
            }
        }
        work
    }

    /// Takes the result of hashing. `None` means that the file could not be read, and changes nothing.
    pub(super) fn finish_hash(&mut self, work: &HashJob, hash: Option<String>, now_ms: u64) {
        let Some(file) = self.files.get_mut(&work.path) else { return };
        let Some((_, cause)) = file.hashing.take_if(|(ticket, _)| *ticket == work.ticket) else { return };
        if let Some(hash) = hash {
            self.compare(&work.path, cause, hash, now_ms);
            self.forget_if_gone(&work.path);
        }
        self.schedule(&work.path);
    }

    fn compare(&mut self, path: &str, cause: HashCause, hash: String, now_ms: u64) {
        let Some(file) = self.files.get_mut(path) else { return };
        let touched_again = self.dirty.get(path).is_some_and(|dirty| dirty.cause == HashCause::Touched);
        let before = match &file.base {
            KnownContent::Hash(base) if *base == hash => return,
            KnownContent::Hash(base) => base.clone(),
            // It changed while its content was being learned: the content read may be the change.
            KnownContent::Unlearned if cause == HashCause::Learn && touched_again => return,
            KnownContent::Unlearned => String::new(),
        };
        let learned = file.base == KnownContent::Unlearned && cause != HashCause::Touched;
        let expected = cause == HashCause::Verify && file.given == KnownContent::Hash(hash.clone());
        file.base = KnownContent::Hash(hash.clone());
        if expected {
            self.changes.remove(path);
        } else if !learned {
            self.add_change(path, before, hash, now_ms);
        }
    }

    /// Retries all running hash jobs after one failed.
    pub(super) fn retry_hashing(&mut self, now_ms: u64) {
        let under_way = self.files.iter_mut().filter_map(|(path, file)| Some((path.clone(), file.hashing.take()?.1)));
        for (path, cause) in under_way.collect::<Vec<_>>() {
            self.mark(&path, cause, now_ms + self.limits.settle_ms);
        }
    }

    /// When the next file settles; in the past if one has settled.
    pub(super) fn work_due_ms(&self) -> Option<u64> {
        self.hash_schedules.iter().filter_map(DueSchedule::first_due_ms).min()
    }

    /// When the next summary may be sent; in the past if it may be sent now.
    pub(super) fn summary_due_ms(&self) -> Option<u64> {
        Some(self.others.opened_ms? + self.limits.summary_ms)
    }

    /// When the next change of a claimed file may be sent; in the past if one may be sent now.
    pub(super) fn change_due_ms(&self) -> Option<u64> {
        self.report_schedule.first_due_ms()
    }

    pub(super) fn has_observation(&self, now_ms: u64) -> bool {
        let is_due = |due_ms: Option<u64>| due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        !self.warnings.is_empty() || is_due(self.change_due_ms()) || is_due(self.summary_due_ms())
    }

    /// Takes the next observation. Observations that are not taken are merged with later changes.
    pub(super) fn next_observation(&mut self, now_ms: u64) -> Option<Observation> {
        if let Some((message, hint)) = self.warnings.pop_front() {
            return Some(Observation::Warning { message, hint });
        }
        let confirmed = self.report_schedule.take_due(now_ms);
        if let Some((path, PendingChange { before, after, .. })) =
            confirmed.and_then(|path| self.changes.remove_entry(&path))
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

    fn mark(&mut self, path: &str, cause: HashCause, now_ms: u64) {
        let settle_ms = if cause == HashCause::Touched { self.limits.settle_ms } else { 0 };
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

    fn begin(&mut self, path: String, cause: HashCause) -> Option<HashJob> {
        self.dirty.remove(&path);
        let file = self.files.get_mut(&path)?;
        self.next_ticket += 1;
        file.hashing = Some((self.next_ticket, cause));
        self.schedule(&path);
        Some(HashJob { path, ticket: self.next_ticket })
    }

    /// Updates the schedules of one path.
    fn schedule(&mut self, path: &str) {
        let hashing = self.is_hashing(path);
        let dirty = self.dirty.get(path).filter(|_| !hashing);
        for (cause, schedule) in CAUSES.iter().zip(&mut self.hash_schedules) {
            match dirty {
                Some(dirty) if dirty.cause == *cause => schedule.set(path, dirty.due_ms),
                _ => schedule.remove(path),
            }
        }
        match self.changes.get(path).map(|change| self.confirmed_ms(path, change)) {
            Some(due_ms) => self.report_schedule.set(path, due_ms),
            None => self.report_schedule.remove(path),
        }
    }

    fn is_hashing(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|file| file.hashing.is_some())
    }

    /// When a change counts as final: some time after it was seen, and later while the file is being changed or read again.
    fn confirmed_ms(&self, path: &str, change: &PendingChange) -> u64 {
        let moving = self.dirty.contains_key(path) || self.is_hashing(path);
        let settle_ms = self.limits.settle_ms;
        change.first_ms + if moving { settle_ms * MAX_SETTLE_FACTOR } else { settle_ms / CONFIRM_PART }
    }

    fn add_change(&mut self, path: &str, before: String, after: String, now_ms: u64) {
        if let Some(unsent) = self.changes.get_mut(path) {
            unsent.after = after;
            if unsent.before == unsent.after {
                self.changes.remove(path);
            }
        } else if before != after {
            self.changes.insert(path.to_owned(), PendingChange { before, after, first_ms: now_ms });
        }
    }

    /// Forgets a deleted file of a claimed subtree. If it returns, it is a new file.
    fn forget_if_gone(&mut self, path: &str) {
        let gone = |file: &TrackedFile| {
            file.given == KnownContent::Unlearned && file.base == KnownContent::Hash(String::new())
        };
        if !self.dirty.contains_key(path) && self.files.get(path).is_some_and(gone) {
            self.files.remove(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DebounceLimits = DebounceLimits { settle_ms: 50, summary_ms: 1_000, max_files: 4 };
    const CONFIRM_MS: u64 = 25;

    fn claims(files: &[(&str, KnownContent)], trees: &[&str]) -> WatchedClaims {
        WatchedClaims {
            files: files.iter().map(|(path, known)| ((*path).to_owned(), known.clone())).collect(),
            trees: trees.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn known(hash: &str) -> KnownContent {
        KnownContent::Hash(hash.to_owned())
    }

    fn claimed(path: &str, before: &str, after: &str) -> Observation {
        Observation::Claimed { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() }
    }

    /// A debouncer with `a` claimed at content `one` and verified.
    fn settled() -> Debouncer {
        let mut debouncer = Debouncer::new(LIMITS);
        debouncer.adopt(&claims(&[("a", known("one"))], &[]), 0);
        finish(&mut debouncer, 0, "one");
        assert_eq!(observations(&mut debouncer, CONFIRM_MS), []);
        debouncer
    }

    /// Hashes all files that are due, with the content `hash`.
    fn finish(debouncer: &mut Debouncer, now_ms: u64, hash: &str) -> Vec<String> {
        let work = debouncer.take_work(usize::MAX, now_ms);
        for work in &work {
            debouncer.finish_hash(work, Some(hash.to_owned()), now_ms);
        }
        work.into_iter().map(|work| work.path).collect()
    }

    fn observations(debouncer: &mut Debouncer, now_ms: u64) -> Vec<Observation> {
        std::iter::from_fn(|| debouncer.next_observation(now_ms)).collect()
    }

    #[test]
    fn touched_file_is_hashed_once_settled_or_after_the_longest_wait() {
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
            let mut debouncer = settled();
            for touched_ms in *touches {
                debouncer.touch("a", *touched_ms);
            }
            assert_eq!(!debouncer.take_work(1, *asked_ms).is_empty(), *due, "{touches:?} at {asked_ms}");
        }
    }

    #[test]
    fn only_new_content_is_reported() {
        // (content after each settled touch, expected observations)
        let table: &[(&[&str], &[Observation])] = &[
            (&["one"], &[]),
            (&["two"], &[claimed("a", "one", "two")]),
            (&["two", "three"], &[claimed("a", "one", "three")]),
            (&["two", "one"], &[]),
            (&[""], &[claimed("a", "one", "")]),
            (&["", "two"], &[claimed("a", "one", "two")]),
        ];
        for (contents, expected) in table {
            let mut debouncer = settled();
            for (nth, content) in contents.iter().enumerate() {
                let at_ms = 1_000 * nth as u64;
                debouncer.touch("a", at_ms);
                finish(&mut debouncer, at_ms + 50, content);
            }
            assert_eq!(observations(&mut debouncer, 9_000), *expected, "{contents:?}");
        }
    }

    #[test]
    fn sent_change_is_the_base_of_the_next() {
        let mut debouncer = settled();
        debouncer.touch("a", 0);
        finish(&mut debouncer, 50, "two");
        assert_eq!(observations(&mut debouncer, 50 + CONFIRM_MS), [claimed("a", "one", "two")]);
        debouncer.touch("a", 100);
        finish(&mut debouncer, 150, "one");
        assert_eq!(observations(&mut debouncer, 150 + CONFIRM_MS), [claimed("a", "two", "one")]);
    }

    #[test]
    fn touch_during_hashing_causes_another_hash() {
        let mut debouncer = settled();
        debouncer.touch("a", 0);
        let work = debouncer.take_work(1, 50);
        debouncer.touch("a", 60);
        assert_eq!(debouncer.take_work(1, 200), []);
        debouncer.finish_hash(&work[0], Some("two".to_owned()), 70);
        assert_eq!(finish(&mut debouncer, 200, "three"), ["a"]);
        assert_eq!(observations(&mut debouncer, 200 + CONFIRM_MS), [claimed("a", "one", "three")]);
    }

    #[test]
    fn half_written_file_is_read_again_before_it_is_reported() {
        let mut debouncer = settled();
        debouncer.touch("a", 0);
        finish(&mut debouncer, 50, "half");
        assert_eq!((debouncer.change_due_ms(), debouncer.has_observation(74)), (Some(75), false));
        debouncer.touch("a", 60);
        assert_eq!(observations(&mut debouncer, 109), []);
        finish(&mut debouncer, 110, "whole");
        assert_eq!(observations(&mut debouncer, 110), [claimed("a", "one", "whole")]);
    }

    #[test]
    fn continuously_changing_file_is_reported_after_the_longest_wait() {
        let mut debouncer = settled();
        for at_ms in (0..1_000).step_by(10) {
            debouncer.touch("a", at_ms);
            finish(&mut debouncer, at_ms, &format!("{at_ms}"));
        }
        // First read at 500, reported at 1000 at the latest, with the content read last.
        assert_eq!(observations(&mut debouncer, 999), []);
        assert_eq!(observations(&mut debouncer, 1_000).len(), 1);
    }

    #[test]
    fn new_claim_is_learned_or_compared() {
        let table: &[(KnownContent, &str, &[Observation])] = &[
            (KnownContent::Unlearned, "one", &[]),
            (KnownContent::Unlearned, "", &[]),
            (known("one"), "one", &[]),
            (known("one"), "two", &[claimed("a", "one", "two")]),
            (known("one"), "", &[claimed("a", "one", "")]),
            (known(""), "two", &[claimed("a", "", "two")]),
            (known(""), "", &[]),
        ];
        for (given, found, expected) in table {
            let mut debouncer = Debouncer::new(LIMITS);
            debouncer.adopt(&claims(&[("a", given.clone())], &[]), 0);
            assert_eq!(finish(&mut debouncer, 0, found), ["a"]);
            assert_eq!(observations(&mut debouncer, CONFIRM_MS), *expected, "{given:?} found {found:?}");
        }
    }

    #[test]
    fn lagging_listener_gets_no_duplicate_report() {
        let mut debouncer = settled();
        for (at_ms, content) in [(0, "two"), (100, "three")] {
            debouncer.touch("a", at_ms);
            finish(&mut debouncer, at_ms + 50, content);
            assert_eq!(observations(&mut debouncer, at_ms + 50 + CONFIRM_MS).len(), 1);
        }
        // It has only read the first observation when it updates its claims.
        debouncer.adopt(&claims(&[("a", known("two"))], &[]), 200);
        finish(&mut debouncer, 200, "three");
        assert_eq!(observations(&mut debouncer, 200 + CONFIRM_MS), []);
    }

    #[test]
    fn claim_renewed_with_the_found_content_is_not_reported() {
        let mut debouncer = settled();
        debouncer.adopt(&claims(&[("a", known("two"))], &[]), 0);
        finish(&mut debouncer, 0, "two");
        assert_eq!(observations(&mut debouncer, CONFIRM_MS), []);
    }

    #[test]
    fn late_hash_of_a_released_file_is_ignored() {
        let mut debouncer = settled();
        debouncer.touch("a", 0);
        let late = debouncer.take_work(1, 50);
        debouncer.adopt(&WatchedClaims::default(), 60);
        debouncer.finish_hash(&late[0], Some("two".to_owned()), 70);
        debouncer.adopt(&claims(&[("a", known("three"))], &[]), 70);
        let fresh = debouncer.take_work(1, 70);
        debouncer.finish_hash(&late[0], Some("two".to_owned()), 70);
        debouncer.finish_hash(&fresh[0], Some("three".to_owned()), 70);
        assert_eq!(observations(&mut debouncer, 70 + CONFIRM_MS), []);
    }

    #[test]
    fn files_of_a_claimed_subtree_are_learned_and_new_ones_reported() {
        let mut debouncer = Debouncer::new(LIMITS);
        debouncer.adopt(&claims(&[], &["t/"]), 0);
        assert_eq!(debouncer.learn(vec!["t/a".to_owned(), "t/b".to_owned()], 0), 0);
        assert_eq!(finish(&mut debouncer, 0, "one"), ["t/a", "t/b"]);
        debouncer.touch("t/a", 100);
        debouncer.touch("t/new", 100);
        finish(&mut debouncer, 150, "two");
        assert_eq!(
            observations(&mut debouncer, 150 + CONFIRM_MS),
            [claimed("t/a", "one", "two"), claimed("t/new", "", "two")]
        );
        debouncer.touch_below("t", 200);
        finish(&mut debouncer, 250, "");
        assert_eq!(observations(&mut debouncer, 250 + CONFIRM_MS).len(), 3);
        assert_eq!(debouncer.file_count(), 0);
    }

    #[test]
    fn change_during_learning_is_not_the_base() {
        let mut debouncer = Debouncer::new(LIMITS);
        debouncer.adopt(&claims(&[("a", KnownContent::Unlearned)], &[]), 0);
        let learning = debouncer.take_work(1, 0);
        debouncer.touch("a", 10);
        debouncer.finish_hash(&learning[0], Some("two".to_owned()), 70);
        finish(&mut debouncer, 100, "two");
        assert_eq!(observations(&mut debouncer, 100 + CONFIRM_MS), [claimed("a", "", "two")]);
    }

    #[test]
    fn files_beyond_the_limit_are_only_counted() {
        let mut debouncer = Debouncer::new(LIMITS);
        debouncer.adopt(&claims(&[], &["t/"]), 0);
        let six = (0..6).map(|n| format!("t/{n}")).collect();
        assert_eq!(debouncer.learn(six, 0), 2);
        finish(&mut debouncer, 0, "one");
        debouncer.touch("t/5", 0);
        let expected = Observation::Others { changed: 1, sample: vec!["t/5".to_owned()] };
        assert_eq!(observations(&mut debouncer, 1_000), [expected]);
    }

    #[test]
    fn many_unclaimed_changes_are_one_summary_per_second() {
        let mut debouncer = settled();
        for n in 0..10_000_u64 {
            debouncer.count_other(format!("f{}", n % 5_000), n / 20);
        }
        assert!(!debouncer.has_observation(999));
        let summaries = observations(&mut debouncer, 1_000);
        let [Observation::Others { changed: 5_000, sample }] = summaries.as_slice() else { panic!("{summaries:?}") };
        assert_eq!(sample.len(), MAX_SAMPLE);
        debouncer.count_other("g".to_owned(), 1_100);
        assert_eq!(observations(&mut debouncer, 2_099), []);
        assert_eq!(observations(&mut debouncer, 2_100).len(), 1);
        assert_eq!(debouncer.summary_due_ms(), None);
    }

    #[test]
    fn summary_without_reader_stays_bounded() {
        let mut debouncer = settled();
        for n in 0..MAX_OTHERS + 5 {
            debouncer.count_other(format!("f{n}"), 0);
        }
        debouncer.count_others(10, 0);
        let summaries = observations(&mut debouncer, 1_000);
        let [Observation::Others { changed, .. }] = summaries.as_slice() else { panic!("{summaries:?}") };
        assert_eq!(*changed, MAX_OTHERS as u64 + 15);
    }

    #[test]
    fn duplicate_warning_waits_once_and_is_sent_first() {
        let mut debouncer = settled();
        debouncer.touch("a", 0);
        finish(&mut debouncer, 50, "two");
        debouncer.add_warning("full".to_owned(), "more".to_owned());
        debouncer.add_warning("full".to_owned(), "more".to_owned());
        let warning = Observation::Warning { message: "full".to_owned(), hint: "more".to_owned() };
        assert_eq!(observations(&mut debouncer, 50 + CONFIRM_MS), [warning, claimed("a", "one", "two")]);
    }

    #[test]
    fn unreadable_file_keeps_its_base_and_failed_hashing_is_retried() {
        let mut debouncer = settled();
        debouncer.touch("a", 0);
        let work = debouncer.take_work(1, 50);
        debouncer.finish_hash(&work[0], None, 70);
        debouncer.touch("a", 100);
        debouncer.take_work(1, 150);
        debouncer.retry_hashing(150);
        assert_eq!(finish(&mut debouncer, 250, "two"), ["a"]);
        assert_eq!(observations(&mut debouncer, 250 + CONFIRM_MS), [claimed("a", "one", "two")]);
    }
}
