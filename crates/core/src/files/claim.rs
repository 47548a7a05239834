//! Claiming a path before changing it. A trailing slash claims the whole subtree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ConflictResolved;
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, SiteId, TaskId};
use crate::kernel::rejection::Rejection;
use crate::model::file::{File, FileClaim, FileClaimOutcome};
use crate::model::file_path::FilePath;
use crate::model::task::{Task, ensure_fence};
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// What to do about claims of others that stand in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimMode {
    #[default]
    Request,
    /// Take them over; only for the lead and people.
    Force,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClaimFile {
    pub path: FilePath,
    pub agent: AgentId,
    pub task: Option<TaskId>,
    /// The content's hash when it was asked for.
    pub hash: String,
    /// Where that content was read, if the project has more than one folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    pub insist: ClaimMode,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileClaimed {
    pub path: FilePath,
    pub agent: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The task that it was claimed for, if that is not known: the claim belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_task: Option<TaskId>,
    pub hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// The holder it was handed over by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
}

impl Event for FileClaimed {
    const KIND: &'static str = "file.claimed";

    fn subject(&self) -> Subject<'_> {
        Subject { task: self.task.as_ref(), path: Some(&self.path), ..Subject::agent(&self.agent) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path)]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        File::change(rows, &self.path, |file| {
            file.path = self.path.clone();
            if self.from.is_none() {
                file.set_content(&self.hash, self.site.as_ref());
                file.unexplained_since = None;
            }
            file.claim_for(&self.agent, self.task.as_ref(), stamp);
        });
    }
}

/// A claim was taken from its holder by authority.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClaimForced {
    pub path: FilePath,
    pub loser: AgentId,
    pub winner: AgentId,
}

impl Event for ClaimForced {
    const KIND: &'static str = "file.forced";

    fn subject(&self) -> Subject<'_> {
        Subject { path: Some(&self.path), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path)]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        File::change(rows, &self.path, |file| file.claim = None);
    }
}

impl Command for ClaimFile {
    const NAME: &'static str = "ClaimFile";

    type Reply = FileClaimOutcome;

    fn read_set(&self) -> ReadSet {
        let mut read_set = overlap_asks(&self.path);
        read_set.push(Key::Agent(self.agent.clone()).into());
        read_set.push(Key::lead().into());
        read_set.extend(self.task.iter().map(|task| Key::Task(task.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<FileClaimOutcome>, Undecided> {
        // A refused claim has no effect: with the same idempotency key it may be granted later.
        let refused = |owner: Option<&AgentId>, reason: String| {
            let outcome = FileClaimOutcome::Refused { owner: owner.cloned(), reason };
            Ok(Decision::unchanged(ReplySource::claim(outcome)).forgettable())
        };
        match cx.view.find_agent(&self.agent)? {
            Some(agent) if agent.is_online() => {}
            Some(agent) if !agent.has_left() => return refused(None, format!("Agent {} is offline", self.agent)),
            _ => return refused(None, format!("Agent {} is not registered", self.agent)),
        }
        cx.view.ensure_may_act_for(cx.caller, &self.agent)?;
        let task = self.task(cx.view)?;
        let own = cx.view.find_file(self.path.key())?.and_then(|file| file.claim.as_ref());
        let own = own.filter(|claim| claim.holder == self.agent);
        self.ensure_fence(cx.caller, own, task)?;
        let unknown_task = self.task.clone().filter(|_| task.is_none());
        let granted = match &unknown_task {
            Some(task) => FileClaimOutcome::GrantedWithoutTask { task: task.clone() },
            None => FileClaimOutcome::Granted,
        };
        if own.is_some() {
            return Ok(Decision::unchanged(ReplySource::claim(granted)));
        }
        if let Some((file, by)) = lock_on(cx.view, &self.path)? {
            return refused(file.holder(), format!("Resource locked by {by}"));
        }
        let others = overlapping(cx.view, &self.path, &self.agent)?;
        let mut facts = Vec::new();
        if let Some(other) = others.first() {
            let owner = other.holder();
            if self.insist == ClaimMode::Request {
                let name = owner.map_or("another agent", AgentId::as_str);
                let how = if other.path == self.path { "".to_owned() } else { format!(" through {}", other.path) };
                return refused(owner, format!("Resource claimed by {name}{how}"));
            }
            cx.view.ensure_authority(cx.caller, "force a claim")?;
            facts = taken(cx.view, &others, &self.agent)?;
        }
        facts.push(AnyEvent::new(FileClaimed {
            path: self.path.clone(),
            agent: self.agent.clone(),
            task: task.map(|task| task.id.clone()),
            unknown_task,
            hash: self.hash.clone(),
            site: self.site.clone(),
            from: None,
        }));
        Ok(Decision::new(facts, ReplySource::claim(granted)))
    }
}

impl ClaimFile {
    /// The task that the path is claimed for, if it is known. One that has ended would never free it.
    fn task<'v>(&self, view: &'v View) -> Result<Option<&'v Task>, Undecided> {
        let Some(id) = &self.task else { return Ok(None) };
        match view.find_task(id)? {
            Some(task) if task.state.is_open() => Ok(Some(task)),
            Some(_) => Err(Rejection::new(Code::UnknownReference, format!("task_id: {id} has ended"))
                .hint("leave out task_id, or name a task that is open")
                .into()),
            None => Ok(None),
        }
    }

    /// A fence that is given is that of the claim itself, or of the task it is made for, as far as there is one.
    fn ensure_fence(&self, caller: &Caller, own: Option<&FileClaim>, task: Option<&Task>) -> Result<(), Rejection> {
        let of_task = task.and_then(|task| task.claim.as_ref()).map(|claim| claim.fence);
        let fences = [own.map(|claim| claim.fence), of_task];
        if caller.fence.is_some() && fences.contains(&caller.fence) {
            return Ok(());
        }
        match fences.into_iter().flatten().next() {
            Some(fence) => ensure_fence(caller, Some(fence)),
            None => Ok(()),
        }
    }
}

/// Takes these claims from their holders by authority; the conflicts about them are settled by that.
pub(crate) fn taken(view: &View, files: &[&File], winner: &AgentId) -> Result<Vec<AnyEvent>, Undecided> {
    let mut facts: Vec<AnyEvent> =
        conflicts_about(view, files)?.into_iter().filter_map(ConflictResolved::without_winner).collect();
    facts.extend(files.iter().filter_map(|file| {
        let loser = file.holder()?.clone();
        Some(AnyEvent::new(ClaimForced { path: file.path.clone(), loser, winner: winner.clone() }))
    }));
    Ok(facts)
}

/// The conflicts that go with these claims: about the paths themselves, and about unclaimed ones above or below.
pub(crate) fn conflicts_about<'v>(view: &'v View, files: &[&File]) -> Result<Vec<&'v File>, Undecided> {
    view.ensure_loaded(files.iter().flat_map(|file| overlap_asks(&file.path)).collect())?;
    let mut found: BTreeMap<&str, &File> = BTreeMap::new();
    for ending in files {
        for file in standing(view, &ending.path)? {
            if file.conflict.is_some() && (file.claim.is_none() || file.path.key() == ending.path.key()) {
                found.insert(file.path.key(), file);
            }
        }
    }
    Ok(found.into_values().collect())
}

pub(crate) fn overlap_asks(path: &FilePath) -> ReadSet {
    let mut read_set: ReadSet = vec![Key::file(path).into(), Lookup::files_claimed_under(path.below()).into()];
    read_set.extend(path.covers().into_iter().map(|key| Key::File(key).into()));
    read_set
}

/// What stands in the way of any claim: a lock on this path, above it or below it, and by whom.
pub(crate) fn lock_on<'v>(view: &'v View, path: &FilePath) -> Result<Option<(&'v File, &'v str)>, Undecided> {
    Ok(standing(view, path)?.into_iter().find_map(|file| Some((file, file.locked_by.as_deref()?))))
}

/// Every tracked path that is this one or above it, and every claimed, locked or conflicted one below it.
fn standing<'v>(view: &'v View, path: &FilePath) -> Result<Vec<&'v File>, Undecided> {
    view.ensure_loaded(overlap_asks(path))?;
    let mut files: Vec<&File> = view.find_file(path.key())?.into_iter().collect();
    for key in path.covers() {
        files.extend(view.find_file(&key)?);
    }
    for file in view.files_held_under(&path.below())? {
        if !files.iter().any(|known| known.path.key() == file.path.key()) {
            files.push(file);
        }
    }
    Ok(files)
}

/// The claims of agents other than `agent` that overlap with the path, the path's own first.
pub fn overlapping<'v>(view: &'v View, path: &FilePath, agent: &AgentId) -> Result<Vec<&'v File>, Undecided> {
    let files = standing(view, path)?;
    Ok(files.into_iter().filter(|file| file.holder().is_some_and(|holder| holder != agent)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnyReply;
    use crate::files::{LockFile, UnlockFile};
    use crate::registry::EventRef;
    use crate::testing::{World, anna, by, claim_file, path};
    use crate::traits::AnyReplySource;

    fn force(agent: &str, at: &str) -> ClaimFile {
        ClaimFile { insist: ClaimMode::Force, ..claim_file(agent, at) }
    }

    fn owner(name: &str) -> Result<Vec<AnyEvent>, Option<String>> {
        Err(Some(name.to_owned()))
    }

    #[test]
    fn a_path_has_one_holder_and_a_claim_again_is_no_new_grant() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.claims_file("a", "src/x").unwrap().len(), 1);
        assert_eq!(w.claims_file("a", "./src//x").unwrap(), []);
        assert_eq!(w.claims_file("b", "src/x"), owner("a"));
        let claim = w.file("src/x").claim.as_ref().unwrap();
        assert_eq!(claim.fence.0 as usize, w.log.len());
        assert_eq!(w.file("src/x").content_hash, "h0");
    }

    #[test]
    fn claims_above_and_below_stand_in_the_way_whichever_came_first() {
        for (first, second) in
            [("src/", "src/a/b"), ("src/a/", "src/"), ("src", "src/a"), ("src", "src/"), ("a/b/c", "a")]
        {
            for (one, other) in [(first, second), (second, first)] {
                let mut w = World::of(&["a", "b"]);
                w.claims_file("a", one).unwrap();
                assert_eq!(w.claims_file("b", other), owner("a"), "{other} after {one}");
                assert!(w.claims_file("a", other).is_ok(), "one's own claims may overlap");
            }
        }
        for (one, other) in [("src/a", "src/b"), ("src/", "src2/x"), ("src/a", "src/ab"), ("a/b/", "a/bc/d")] {
            let mut w = World::of(&["a", "b"]);
            w.claims_file("a", one).unwrap();
            assert!(w.claims_file("b", other).is_ok(), "{other} beside {one}");
        }
    }

    #[test]
    fn claim_of_unregistered_agent_is_refused() {
        let mut w = World::of(&["lead", "a", "b"]);
        assert_eq!(w.asks_file(&by("x"), claim_file("x", "f")), Err(None));
        assert_eq!(w.refuses(&by("b"), claim_file("a", "f")), Code::Forbidden);
    }

    #[test]
    fn claim_for_an_unknown_task_is_granted_without_it() {
        let mut w = World::of(&["a", "b"]);
        let claim = ClaimFile { task: Some("t".into()), ..claim_file("a", "f") };
        let outcome = FileClaimOutcome::GrantedWithoutTask { task: "t".into() };
        for appended in [1, 0] {
            let (events, reply) = w.run(&by("a"), claim.clone()).unwrap();
            assert_eq!((events.len(), reply), (appended, AnyReplySource::Value(AnyReply::FileClaim(outcome.clone()))));
        }
        let Some(EventRef::FileClaimed(claimed)) = w.log.last().map(|row| row.event.typed()) else { unreachable!() };
        assert_eq!((&claimed.task, &claimed.unknown_task), (&None, &Some("t".into())));
        assert_eq!(w.file("f").claim.as_ref().map(|claim| (&claim.holder, &claim.task)), Some((&"a".into(), &None)));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn only_the_lead_and_people_force_and_every_loser_is_told() {
        let mut w = World::of(&["lead", "a", "b", "c"]);
        w.claims_file("a", "src/x").unwrap();
        w.claims_file("b", "src/y").unwrap();
        assert_eq!(w.refuses(&by("c"), force("c", "src/")), Code::Forbidden);
        assert_eq!(w.refuses(&Caller::anonymous(), force("c", "src/")), Code::Forbidden);
        let facts = w.asks_file(&by("lead"), force("c", "src/")).unwrap();
        let losers: Vec<_> =
            facts.iter().filter_map(|fact| fact.get().map(|forced: &ClaimForced| forced.loser.as_str())).collect();
        assert_eq!(losers, ["a", "b"]);
        assert_eq!((w.file_holder("src/x"), w.file_holder("src/y"), w.file_holder("src/")), (None, None, Some("c")));
        assert!(w.asks_file(&anna(), force("a", "src/x")).is_ok());
        assert_eq!((w.file_holder("src/x"), w.file_holder("src/")), (Some("a"), None));
        assert!(w.asks_file(&by("b"), force("b", "doc")).is_ok(), "nothing to force, nothing to ask for");
    }

    #[test]
    fn nobody_claims_what_is_locked() {
        let mut w = World::of(&["lead", "a"]);
        assert_eq!(w.refuses(&by("a"), LockFile { path: path("src/") }), Code::Forbidden);
        assert_eq!(w.refuses(&anna(), UnlockFile { path: path("src/") }), Code::ResourceNotFound);
        assert_eq!(w.does(&by("lead"), LockFile { path: path("src/") }), ["file.locked"]);
        assert_eq!(w.does(&anna(), LockFile { path: path("src/") }), [""; 0]);
        for at in ["src/", "src", "src/x", "src/x/y"] {
            assert_eq!(w.claims_file("a", at), Err(None), "{at}");
            assert_eq!(w.asks_file(&anna(), force("a", at)), Err(None), "unlock first");
        }
        assert_eq!(w.refuses(&by("a"), UnlockFile { path: path("src/") }), Code::Forbidden);
        assert_eq!(w.does(&by("lead"), UnlockFile { path: path("src/") }), ["file.unlocked"]);
        assert_eq!(w.does(&by("lead"), UnlockFile { path: path("src/") }), [""; 0]);
        assert!(w.claims_file("a", "src/x").is_ok());
        w.does(&anna(), LockFile { path: path("src/x") });
        assert_eq!(w.claims_file("a", "src/x"), Ok(vec![]), "the holder keeps what it has");
        assert_eq!(w.file("src/x").state(), crate::model::file::FileState::Locked);
        assert_eq!(w.claims_file("lead", "src/"), Err(Some("a".to_owned())));
    }

    #[test]
    fn a_claim_for_a_task_needs_one_that_is_open_and_its_fence() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        let claims = |path: &str| ClaimFile { task: Some("t".into()), ..claim_file("a", path) };
        let fence = w.task("t").claim.as_ref().map(|claim| claim.fence);
        let zombie = Caller { fence: Some(crate::kernel::id::Seq(1)), ..by("a") };
        assert_eq!(w.refuses(&zombie, claims("x")), Code::StaleFence);
        let holder = Caller { fence, ..by("a") };
        assert_eq!(w.does(&holder, claims("x")), ["file.claimed"]);
        assert_eq!(w.does(&holder, claims("x")), [""; 0], "either fence will do");
        let own = Caller { fence: w.file("x").claim.as_ref().map(|claim| claim.fence), ..by("a") };
        assert_eq!(w.does(&own, claim_file("a", "x")), [""; 0]);
        assert_eq!(w.refuses(&zombie, claim_file("a", "x")), Code::StaleFence);
        assert_eq!(w.does(&zombie, claim_file("a", "y")), ["file.claimed"], "nothing to compare it with");
        w.does(&by("a"), crate::testing::complete("t"));
        assert_eq!(w.refuses(&by("a"), claims("z")), Code::UnknownReference);
    }
}
