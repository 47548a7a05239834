//! Giving a path back.

use serde::{Deserialize, Serialize};

use super::{ConflictResolved, conflicts_about};
use crate::kernel::id::AgentId;
use crate::model::file::{File, FileReleaseOutcome, ReleaseReason};
use crate::model::file_path::FilePath;
use crate::model::task::ensure_fence;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReleaseFile {
    pub path: FilePath,
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileReleased {
    pub path: FilePath,
    pub holder: AgentId,
    pub because: ReleaseReason,
}

impl Event for FileReleased {
    const KIND: &'static str = "file.released";

    fn subject(&self) -> Subject<'_> {
        Subject { holder: Some(&self.holder), path: Some(&self.path), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path)]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        File::change(rows, &self.path, |file| file.claim = None);
    }
}

impl Command for ReleaseFile {
    const NAME: &'static str = "ReleaseFile";

    type Reply = FileReleaseOutcome;

    fn read_set(&self) -> ReadSet {
        vec![Key::file(&self.path).into(), Key::lead().into(), Key::Agent(self.agent.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<FileReleaseOutcome>, Undecided> {
        let not =
            |reason: String| Ok(Decision::unchanged(ReplySource::release(FileReleaseOutcome::NotReleased { reason })));
        let Some(file) = cx.view.find_file(self.path.key())? else {
            return not(format!("{} is not tracked", self.path));
        };
        let Some(claim) = &file.claim else { return not(format!("{} is not claimed", self.path)) };
        ensure_fence(cx.caller, cx.caller.fence.and(Some(claim.fence)))?;
        if claim.holder != self.agent && !cx.view.has_authority(cx.caller)? {
            return not(format!("{} is claimed by {}", self.path, claim.holder));
        }
        cx.view.ensure_may_act_for(cx.caller, &self.agent)?;
        Ok(Decision::new(
            free_files(cx.view, &[file], ReleaseReason::Released)?,
            ReplySource::release(FileReleaseOutcome::Released),
        ))
    }
}

/// Frees these paths; the conflicts about them are settled by that.
pub(crate) fn free_files(view: &View, files: &[&File], because: ReleaseReason) -> Result<Vec<AnyEvent>, Undecided> {
    let mut facts: Vec<AnyEvent> =
        conflicts_about(view, files)?.into_iter().filter_map(ConflictResolved::without_winner).collect();
    facts.extend(files.iter().filter_map(|file| {
        let holder = file.holder()?.clone();
        Some(AnyEvent::new(FileReleased { path: file.path.clone(), holder, because }))
    }));
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::kernel::code::Code;
    use crate::kernel::id::Seq;
    use crate::model::file::FileState;
    use crate::testing::{World, anna, by, path};
    use crate::traits::{AnyReply, AnyReplySource};

    fn release(agent: &str, at: &str) -> ReleaseFile {
        ReleaseFile { path: path(at), agent: agent.into() }
    }

    #[test]
    fn the_holder_the_lead_and_people_give_a_path_back() {
        for (caller, agent) in [(by("a"), "a"), (by("lead"), "lead"), (anna(), "a"), (Caller::anonymous(), "a")] {
            let mut w = World::of(&["lead", "a"]);
            w.claims_file("a", "x").unwrap();
            let (facts, reply) = w.run(&caller, release(agent, "x")).unwrap();
            let released = AnyReply::FileRelease(FileReleaseOutcome::Released);
            assert_eq!((facts.len(), reply), (1, AnyReplySource::Value(released)));
            assert_eq!(w.file("x").state(), FileState::Free, "it stays tracked");
        }
    }

    #[test]
    fn what_is_not_ones_own_is_not_released_and_no_error() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.claims_file("a", "x").unwrap();
        w.claims_file("a", "y").unwrap();
        w.does(&by("a"), release("a", "y"));
        for (agent, at) in [("b", "x"), ("a", "unknown"), ("a", "y")] {
            let (facts, reply) = w.run(&by(agent), release(agent, at)).unwrap();
            let AnyReplySource::Value(AnyReply::FileRelease(FileReleaseOutcome::NotReleased { .. })) = reply else {
                panic!("{agent} {at}: {reply:?}");
            };
            assert!(facts.is_empty(), "{agent} {at}");
        }
        assert_eq!(w.refuses(&by("b"), release("a", "x")), Code::Forbidden);
        let stale = Caller { fence: Some(Seq(1)), ..by("a") };
        assert_eq!(w.refuses(&stale, release("a", "x")), Code::StaleFence);
        let fence = w.file("x").claim.as_ref().map(|claim| claim.fence);
        assert_eq!(w.does(&Caller { fence, ..by("a") }, release("a", "x")), ["file.released"]);
    }
}
