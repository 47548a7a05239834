//! What changed in the project's files, and by whom as far as anybody can tell.
//!
//! A change to what one agent holds that comes from another is a conflict. A change that nobody can be credited with is
//! recorded with a warning and blamed on nobody.

use serde::{Deserialize, Serialize};

use super::{Report, overlap_asks, overlapping, report};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, Seq, SiteId, TaskId, TimerId, Timestamp};
use crate::kernel::rejection::Rejection;
use crate::model::file::{Conflict, File};
use crate::model::file_path::FilePath;
use crate::model::timer::{Purpose, Timer, conflict_timer_id};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, FirstSeq, ReplySource, Subject};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeSource {
    /// The watcher saw the content change.
    Watcher,
    /// An agent said that it changed the file.
    Report,
}

/// Evidence that a file's content changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordChange {
    pub path: FilePath,
    pub by: Option<AgentId>,
    pub before: Option<String>,
    pub after: Option<String>,
    pub source: ChangeSource,
    pub task: Option<TaskId>,
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// Where the content was seen, if the project has more than one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// How long a conflict may stand before a person is asked.
    pub escalate_after_millis: u64,
}

/// A count of changes to files that nobody claimed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RecordUntracked {
    pub changed: u64,
    pub sample: Vec<String>,
    /// Where, if the project has more than one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileModified {
    pub path: FilePath,
    pub by: Option<AgentId>,
    pub before: String,
    pub after: String,
    pub source: ChangeSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

impl Event for FileModified {
    const KIND: &'static str = "file.modified";

    fn subject(&self) -> Subject<'_> {
        Subject { task: self.task.as_ref(), agent: self.by.as_ref(), path: Some(&self.path), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path)]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        File::change(rows, &self.path, |file| {
            file.set_content(&self.after, self.site.as_ref());
            file.credit(self.by.as_ref(), &self.before);
        });
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UntrackedFilesChanged {
    pub changed: u64,
    pub sample: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

impl Event for UntrackedFilesChanged {
    const KIND: &'static str = "file.untracked_changed";

    fn write_set(&self) -> Vec<Key> {
        vec![]
    }

    fn apply(&self, _rows: &mut RowWriter<'_>, _stamp: EventStamp) {}
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConflictDetected {
    pub path: FilePath,
    pub holder: AgentId,
    pub intruder: AgentId,
    pub before: String,
    pub after: String,
    pub timer: TimerId,
    pub escalate_at: Timestamp,
}

impl Event for ConflictDetected {
    const KIND: &'static str = "file.conflict_detected";

    fn subject(&self) -> Subject<'_> {
        Subject { path: Some(&self.path), ..Subject::agent(&self.intruder) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path), Key::Timer(self.timer.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        File::change(rows, &self.path, |file| {
            let (holder, intruder) = (self.holder.clone(), self.intruder.clone());
            file.conflict = Some(Conflict { holder, intruder, since: stamp.at });
        });
        let timer = Timer {
            id: self.timer.clone(),
            due: self.escalate_at,
            version: stamp.seq,
            purpose: Purpose::EscalateConflict { path: self.path.clone() },
        };
        rows.put(self.timer.clone(), timer);
    }
}

/// Nobody resolved a conflict in time: a person should look.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConflictEscalated {
    pub path: FilePath,
    pub holder: AgentId,
    pub intruder: AgentId,
    pub timer: TimerId,
    pub timer_version: Seq,
}

impl Event for ConflictEscalated {
    const KIND: &'static str = "file.conflict_escalated";

    fn subject(&self) -> Subject<'_> {
        Subject { path: Some(&self.path), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Timer(self.timer.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.remove::<Timer>(self.timer.clone());
    }
}

impl Command for RecordChange {
    const NAME: &'static str = "RecordChange";

    type Reply = Option<FirstSeq>;

    fn read_set(&self) -> ReadSet {
        let mut read_set = overlap_asks(&self.path);
        read_set.push(Key::lead().into());
        read_set.extend(self.by.iter().map(|by| Key::Agent(by.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Option<FirstSeq>>, Undecided> {
        report::check_evidence(self.task.as_ref(), &self.before, &self.after, &self.metadata)?;
        if let Some(by) = &self.by {
            cx.view.ensure_may_author_as(cx.caller, by)?;
        }
        let known = cx.view.find_file(self.path.key())?;
        let known_hash = known.map_or("", |file| file.content_hash.as_str());
        // A report that follows what the watcher saw is about that change.
        let unexplained = known.and_then(|file| file.unexplained_since.as_deref()).filter(|_| self.by.is_some());
        let before = self.before.clone().unwrap_or_else(|| unexplained.unwrap_or(known_hash).to_owned());
        let after = self.after.clone().unwrap_or_else(|| known_hash.to_owned());
        if self.source == ChangeSource::Watcher && known.is_some() && after == known_hash {
            return Ok(Decision::unchanged(ReplySource::none()));
        }
        let mut facts = vec![AnyEvent::new(FileModified {
            path: self.path.clone(),
            by: self.by.clone(),
            before: before.clone(),
            after: after.clone(),
            source: self.source,
            task: self.task.clone(),
            warning: self.by.is_none().then(|| "nobody can be credited with this change".to_owned()),
            metadata: self.metadata.clone(),
            site: self.site.clone(),
        })];
        if let Some((holder, intruder)) = self.collision(cx.view)?
            && known.and_then(|file| file.conflict.as_ref()).is_none()
        {
            facts.push(AnyEvent::new(ConflictDetected {
                timer: conflict_timer_id(&self.path),
                escalate_at: cx.now.plus_millis(self.escalate_after_millis),
                path: self.path.clone(),
                holder,
                intruder,
                before,
                after,
            }));
        }
        Ok(Decision::new(facts, ReplySource::first_seq().some()))
    }
}

impl RecordChange {
    /// The holder and the one who changed what it holds. Without an author, two holders of overlapping paths collide.
    fn collision(&self, view: &View) -> Result<Option<(AgentId, AgentId)>, Undecided> {
        let nobody = AgentId::from("");
        let held = overlapping(view, &self.path, self.by.as_ref().unwrap_or(&nobody))?;
        let mut holders = held.into_iter().filter_map(|file| file.holder().cloned());
        let Some(first) = holders.next() else { return Ok(None) };
        Ok(match &self.by {
            Some(by) => Some((first, by.clone())),
            None => holders.find(|other| *other != first).map(|other| (first, other)),
        })
    }
}

impl Command for RecordUntracked {
    const NAME: &'static str = "RecordUntracked";

    type Reply = FirstSeq;

    fn read_set(&self) -> ReadSet {
        vec![]
    }

    fn decide(&self, _cx: &DecisionContext<'_>) -> Result<Decision<FirstSeq>, Undecided> {
        if self.changed == 0 {
            return Err(Rejection::new(Code::Invalid, "nothing changed").into());
        }
        let sample = self.sample.iter().take(Report::SAMPLE).cloned().collect();
        let fact = AnyEvent::new(UntrackedFilesChanged { changed: self.changed, sample, site: self.site.clone() });
        Ok(Decision::new(vec![fact], ReplySource::first_seq()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FireTimer, ReleaseFile, ResolveConflict};
    use crate::kernel::caller::Caller;
    use crate::kernel::limit;
    use crate::model::file::{Conflict, FileState};
    use crate::model::{Key, Row};
    use crate::registry::EventRef;
    use crate::testing::{World, anna, by, claim_file, hand_over, path};

    fn change(at: &str, by: Option<&str>, after: &str, source: ChangeSource) -> RecordChange {
        RecordChange {
            path: path(at),
            by: by.map(AgentId::from),
            before: None,
            after: Some(after.to_owned()),
            source,
            task: None,
            metadata: serde_json::Map::new(),
            site: None,
            escalate_after_millis: 600_000,
        }
    }

    fn seen(at: &str, after: &str) -> RecordChange {
        change(at, None, after, ChangeSource::Watcher)
    }

    fn told(at: &str, who: &str, after: &str) -> RecordChange {
        change(at, Some(who), after, ChangeSource::Report)
    }

    #[test]
    fn a_report_explains_what_the_watcher_saw_before() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.claims_file("a", "x").unwrap();
        let system = Caller::watcher();
        w.does(&system, RecordChange { before: Some("one".to_owned()), ..seen("x", "two") });
        w.does(&system, seen("x", "three"));
        w.does(&by("b"), RecordChange { after: None, ..told("x", "b", "") });
        let conflict = w.log.iter().rev().find_map(|row| match row.event.typed() {
            EventRef::ConflictDetected(fact) => Some((fact.before.as_str(), fact.after.as_str())),
            _ => None,
        });
        assert_eq!(conflict, Some(("one", "three")));
    }

    fn timers(w: &World) -> Vec<&crate::model::timer::Timer> {
        w.rows().values().filter_map(|row| if let Row::Timer(timer) = row { Some(timer) } else { None }).collect()
    }

    #[test]
    fn a_change_by_another_than_the_holder_is_a_conflict() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.claims_file("a", "x").unwrap();
        assert_eq!(w.does(&by("b"), told("x", "b", "h1")), ["file.modified", "file.conflict_detected"]);
        let file = w.file("x");
        assert_eq!((file.state(), file.content_hash.as_str()), (FileState::Conflicted, "h1"));
        assert_eq!(file.last_modified_by.as_ref().unwrap().as_str(), "b");
        let conflict = Conflict { holder: "a".into(), intruder: "b".into(), since: Timestamp(w.now) };
        assert_eq!(file.conflict, Some(conflict));
        match w.log.last().unwrap().event.typed() {
            EventRef::ConflictDetected(found) => {
                assert_eq!((found.before.as_str(), found.after.as_str()), ("h0", "h1"));
                assert_eq!(found.escalate_at, Timestamp(w.now + 600_000));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(timers(&w).len(), 1);
        assert_eq!(w.does(&by("b"), told("x", "b", "h2")), ["file.modified"], "one conflict at a time");
    }

    #[test]
    fn nobody_is_blamed_without_evidence() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.claims_file("a", "x").unwrap();
        assert_eq!(w.does(&by("a"), told("x", "a", "h1")), ["file.modified"], "the holder's own work");
        assert_eq!(w.does(&Caller::watcher(), seen("x", "h1")), [""; 0], "known already");
        assert_eq!(w.does(&Caller::watcher(), seen("x", "h2")), ["file.modified"]);
        assert!(
            matches!(w.log.last().unwrap().event.typed(), EventRef::FileModified(f) if f.warning.is_some() && f.by.is_none())
        );
        assert_eq!(w.file("x").last_modified_by.as_ref().unwrap().as_str(), "a");
        assert_eq!(w.does(&by("b"), told("free", "b", "h1")), ["file.modified"]);
        assert_eq!(w.file("free").state(), FileState::Free);
    }

    #[test]
    fn a_change_below_a_claimed_folder_is_a_conflict_that_ends_with_the_claim() {
        for end in ["release", "leave", "force"] {
            let mut w = World::of(&["lead", "a", "b"]);
            w.claims_file("a", "src/").unwrap();
            assert_eq!(w.does(&by("b"), told("src/x", "b", "h1")).len(), 2);
            assert_eq!((w.file("src/x").state(), w.file("src/").state()), (FileState::Conflicted, FileState::Claimed));
            match end {
                "release" => w.does(&by("a"), ReleaseFile { path: path("src/"), agent: "a".into() }),
                "leave" => w.does(&by("a"), crate::agents::LeaveTeam { agent: "a".into() }),
                _ => {
                    let force =
                        crate::files::ClaimFile { insist: crate::files::ClaimMode::Force, ..claim_file("b", "src/x") };
                    w.does(&anna(), force)
                }
            };
            assert_eq!(w.file("src/x").conflict, None, "{end}");
            assert_eq!(timers(&w), Vec::<&crate::model::timer::Timer>::new(), "{end}");
        }
    }

    #[test]
    fn the_lead_or_a_person_says_whose_work_stands() {
        for winner in ["a", "b", "lead"] {
            let mut w = World::of(&["lead", "a", "b"]);
            w.claims_file("a", "x").unwrap();
            let resolve = |winner: &str| ResolveConflict { path: path("x"), winner: winner.into() };
            assert_eq!(w.refuses(&anna(), resolve("a")), Code::NotConflicted);
            w.does(&by("b"), told("x", "b", "h1"));
            assert_eq!(w.refuses(&by("a"), resolve("a")), Code::Forbidden);
            assert_eq!(w.refuses(&anna(), resolve("nobody-here")), Code::AgentNotFound);
            let fence = w.file("x").claim.as_ref().unwrap().fence;
            assert_eq!(w.does(&by("lead"), resolve(winner)), ["file.conflict_resolved"]);
            assert_eq!((w.file_holder("x"), w.file("x").state()), (Some(winner), FileState::Claimed));
            assert_eq!(w.file("x").claim.as_ref().unwrap().fence == fence, winner == "a");
            assert!(timers(&w).is_empty());
        }
        assert_eq!(
            World::of(&["a"]).refuses(&anna(), ResolveConflict { path: path("x"), winner: "a".into() }),
            Code::ResourceNotFound
        );
    }

    #[test]
    fn a_winner_never_shares_a_path_with_the_loser() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.claims_file("a", "src/").unwrap();
        w.claims_file("a", "src/x").unwrap();
        w.does(&by("b"), told("src/x", "b", "h1"));
        let facts = w.does(&anna(), ResolveConflict { path: path("src/x"), winner: "b".into() });
        assert_eq!(facts, ["file.forced", "file.conflict_resolved"]);
        assert_eq!((w.file_holder("src/"), w.file_holder("src/x")), (None, Some("b")));
    }

    #[test]
    fn a_conflict_that_nobody_resolves_is_escalated_once() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.claims_file("a", "x").unwrap();
        w.does(&by("b"), told("x", "b", "h1"));
        let (timer, version) = (timers(&w)[0].id.clone(), timers(&w)[0].version);
        let fire = FireTimer { timer, version };
        let system = Caller::system();
        assert_eq!(w.refuses(&system, fire.clone()), Code::Stale, "not due yet");
        w.now += 600_000;
        assert_eq!(w.refuses(&system, FireTimer { version: Seq(1), ..fire.clone() }), Code::Stale);
        assert_eq!(w.does(&system, fire.clone()), ["file.conflict_escalated"]);
        assert_eq!(w.file("x").state(), FileState::Conflicted, "it still stands");
        assert_eq!(w.refuses(&system, fire), Code::Stale);
    }

    #[test]
    fn a_timer_of_an_older_conflict_is_stale() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.claims_file("a", "x").unwrap();
        w.does(&by("b"), told("x", "b", "h1"));
        let old = FireTimer { timer: timers(&w)[0].id.clone(), version: timers(&w)[0].version };
        w.does(&by("a"), ReleaseFile { path: path("x"), agent: "a".into() });
        assert_eq!(w.rows().get(&Key::Timer(old.timer.clone())), None);
        w.claims_file("a", "x").unwrap();
        w.does(&by("b"), told("x", "b", "h2"));
        w.now += 600_001;
        assert_eq!(w.refuses(&Caller::system(), old), Code::Stale);
    }

    #[test]
    fn an_intruder_that_is_handed_the_path_intrudes_no_more() {
        let mut w = World::of(&["lead", "a", "b", "c"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        for at in ["x", "y"] {
            w.does(&by("a"), crate::files::ClaimFile { task: Some("t".into()), ..claim_file("a", at) });
        }
        w.does(&by("b"), told("x", "b", "h1"));
        w.does(&by("c"), told("y", "c", "h1"));
        w.does(&by("a"), hand_over("h", "a", Some("b"), "t"));
        w.does(&by("b"), crate::handoffs::AcceptHandoff { handoff: "h".into(), agent: "b".into() });
        assert_eq!((w.file("x").state(), w.file("y").state()), (FileState::Claimed, FileState::Conflicted));
    }

    #[test]
    fn one_reports_for_oneself_and_within_limits() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.refuses(&by("b"), told("x", "a", "h1")), Code::Forbidden);
        assert_eq!(w.refuses(&Caller::anonymous(), told("x", "system", "h1")), Code::Forbidden);
        let long = "x".repeat(limit::NAME_BYTES + 1);
        assert_eq!(w.refuses(&by("b"), told("x", "b", &long)), Code::TooLarge);
        let metadata = serde_json::Map::from_iter([("x".to_owned(), "x".repeat(limit::TEXT_BYTES).into())]);
        assert_eq!(w.refuses(&by("b"), RecordChange { metadata, ..told("x", "b", "h1") }), Code::TooLarge);
    }

    #[test]
    fn changes_of_unclaimed_files_are_one_summary() {
        let mut w = World::default();
        let sample = vec!["f".to_owned(); 50];
        w.does(&Caller::watcher(), RecordUntracked { changed: 50, sample, site: None });
        assert!(
            matches!(w.log[0].event.typed(), EventRef::UntrackedFilesChanged(f) if f.changed == 50 && f.sample.len() == Report::SAMPLE)
        );
        assert_eq!(
            w.refuses(&Caller::watcher(), RecordUntracked { changed: 0, sample: vec![], site: None }),
            Code::Invalid
        );
    }
}
