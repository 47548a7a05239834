//! How an effect on a workspace ended. A second telling is refused as stale.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::{IntentId, RunId, WorkspaceId};
use crate::kernel::rejection::Rejection;
use crate::model::intent::Intent;
use crate::model::workspace::{Workspace, WorkspaceEffect, change, keys};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConcludeWorkspace {
    pub workspace: WorkspaceId,
    pub intent: IntentId,
    pub outcome: Outcome,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Made {
        /// The branch that it was made from.
        base_branch: String,
        branch: BranchOrigin,
    },
    Merged {
        merge_commit: String,
    },
    Removed {
        /// What keeps the work that was nowhere else, if there was any.
        backup_ref: Option<String>,
        branch: BranchFate,
    },
    Failed {
        code: Code,
        reason: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchOrigin {
    Created,
    /// It was there before.
    Reused,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchFate {
    /// All of it is in the base branch.
    Deleted,
    /// It has work that is nowhere else, or is in use.
    Kept,
    /// There is no such branch.
    Gone,
}

impl BranchFate {
    pub fn as_str(self) -> &'static str {
        match self {
            BranchFate::Deleted => "deleted",
            BranchFate::Kept => "kept",
            BranchFate::Gone => "gone",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkspaceReady {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub intent: IntentId,
    pub base_branch: String,
    pub branch: BranchOrigin,
}

impl Event for WorkspaceReady {
    const KIND: &'static str = "workspace.ready";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.run.as_ref(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        keys(&self.workspace, Some(&self.intent))
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change(rows, &self.workspace, stamp.at, |workspace| workspace.finish_making(&self.base_branch));
        rows.remove::<Intent>(self.intent.clone());
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Some(&self.intent)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkspaceMerged {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub intent: IntentId,
    pub merge_commit: String,
}

impl Event for WorkspaceMerged {
    const KIND: &'static str = "workspace.merged";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.run.as_ref(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        keys(&self.workspace, Some(&self.intent))
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change(rows, &self.workspace, stamp.at, |workspace| workspace.finish_merging(&self.merge_commit));
        rows.remove::<Intent>(self.intent.clone());
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Some(&self.intent)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkspaceRemoved {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub intent: IntentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_ref: Option<String>,
    pub branch: BranchFate,
}

impl Event for WorkspaceRemoved {
    const KIND: &'static str = "workspace.removed";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.run.as_ref(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        keys(&self.workspace, Some(&self.intent))
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change(rows, &self.workspace, stamp.at, |workspace| workspace.finish_removing(self.backup_ref.as_deref()));
        rows.remove::<Intent>(self.intent.clone());
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Some(&self.intent)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkspaceFailed {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub intent: IntentId,
    pub work: WorkspaceEffect,
    pub code: Code,
    pub reason: String,
}

impl Event for WorkspaceFailed {
    const KIND: &'static str = "workspace.failed";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.run.as_ref(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        keys(&self.workspace, Some(&self.intent))
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        match self.work {
            // What could not be made is as if it had never been asked for.
            WorkspaceEffect::Making => rows.remove::<Workspace>(self.workspace.clone()),
            WorkspaceEffect::Merging | WorkspaceEffect::Removing => {
                change(rows, &self.workspace, stamp.at, |workspace| workspace.under_way = None);
            }
        }
        rows.remove::<Intent>(self.intent.clone());
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Some(&self.intent)
    }
}

impl Command for ConcludeWorkspace {
    const NAME: &'static str = "ConcludeWorkspace";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Workspace(self.workspace.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        if cx.caller.actor != Actor::System {
            return Err(Rejection::new(Code::Forbidden, "only whoever did it tells how it ended").into());
        }
        let workspace = cx.view.workspace_known(&self.workspace)?;
        let under_way = workspace.under_way.as_ref().filter(|under_way| under_way.intent == self.intent);
        let Some(fact) = under_way.and_then(|under_way| self.fact(workspace, under_way.work)) else {
            return Err(Rejection::new(Code::Stale, format!("intent {} is closed", self.intent)).into());
        };
        Ok(Decision::new(vec![fact], ReplySource::done()))
    }
}

impl ConcludeWorkspace {
    /// The outcome as a fact, if that is how this work can end.
    fn fact(&self, of: &Workspace, work: WorkspaceEffect) -> Option<AnyEvent> {
        let (workspace, run, intent) = (of.id.clone(), of.run.clone(), self.intent.clone());
        Some(match (work, self.outcome.clone()) {
            (work, Outcome::Failed { code, reason }) => {
                AnyEvent::new(WorkspaceFailed { workspace, run, intent, work, code, reason })
            }
            (WorkspaceEffect::Making, Outcome::Made { base_branch, branch }) => {
                AnyEvent::new(WorkspaceReady { workspace, run, intent, base_branch, branch })
            }
            (WorkspaceEffect::Merging, Outcome::Merged { merge_commit }) => {
                AnyEvent::new(WorkspaceMerged { workspace, run, intent, merge_commit })
            }
            (WorkspaceEffect::Removing, Outcome::Removed { backup_ref, branch }) => {
                AnyEvent::new(WorkspaceRemoved { workspace, run, intent, backup_ref, branch })
            }
            (WorkspaceEffect::Making | WorkspaceEffect::Merging | WorkspaceEffect::Removing, _) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::model::workspace::{WorkspaceStatus, Worktree};
    use crate::testing::{World, by, made, makes, removes};

    fn failed(intent: &str) -> ConcludeWorkspace {
        let outcome = Outcome::Failed { code: Code::GitFailed, reason: "fatal: no".to_owned() };
        ConcludeWorkspace { workspace: "ws_1".into(), intent: intent.into(), outcome }
    }

    #[test]
    fn what_could_not_be_made_leaves_no_row_and_no_intent() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), makes("ws_1", "b"));
        assert_eq!(w.does(&Caller::system(), failed("int_ws_1")), ["workspace.failed"]);
        assert!(!w.rows().contains_key(&Key::Workspace("ws_1".into())));
        assert!(!w.rows().contains_key(&Key::Intent("int_ws_1".into())));
        assert_eq!(w.rebuilt(), *w.rows());
        w.does(&by("a"), makes("ws_1", "b"));
    }

    #[test]
    fn an_outcome_is_told_once_by_whoever_did_it() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), makes("ws_1", "b"));
        assert_eq!(w.refuses(&by("a"), made("ws_1")), Code::Forbidden);
        assert_eq!(w.does(&Caller::system(), made("ws_1")), ["workspace.ready"]);
        assert_eq!(w.workspace("ws_1").base_branch.as_deref(), Some("main"));
        assert_eq!(w.refuses(&Caller::system(), made("ws_1")), Code::Stale);
        assert!(!w.rows().contains_key(&Key::Intent("int_ws_1".into())));
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn a_worktree_that_stays_is_still_there() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), makes("ws_1", "b"));
        w.does(&Caller::system(), made("ws_1"));
        w.does(&by("a"), removes("ws_1", "int_r"));
        assert_eq!(w.refuses(&Caller::system(), failed("int_other")), Code::Stale);
        w.does(&Caller::system(), failed("int_r"));
        let workspace = w.workspace("ws_1");
        assert_eq!((workspace.worktree, workspace.status), (Worktree::Present, WorkspaceStatus::Abandoned));
        w.does(&by("a"), removes("ws_1", "int_r2"));
    }
}
