//! Bringing the work of a workspace into the branch that it came from.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::{IntentId, RunId, SiteId, WorkspaceId};
use crate::kernel::rejection::Rejection;
use crate::model::intent::Effect;
use crate::model::workspace::{
    Uncommitted, Workspace, WorkspaceEffect, WorkspaceStatus, Worktree, change, is_free, keys, open_intent,
};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergeWorkspace {
    pub workspace: WorkspaceId,
    pub uncommitted: Uncommitted,
    pub intent: IntentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WorkspaceMerging {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub uncommitted: Uncommitted,
    pub site: SiteId,
    pub intent: IntentId,
}

impl Event for WorkspaceMerging {
    const KIND: &'static str = "workspace.merging";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.run.as_ref(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        keys(&self.workspace, Some(&self.intent))
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change(rows, &self.workspace, stamp.at, |workspace| workspace.begin(WorkspaceEffect::Merging, &self.intent));
        let effect = Effect::MergeWorktree { workspace: self.workspace.clone(), uncommitted: self.uncommitted };
        open_intent(rows, &self.intent, effect, &self.site, stamp.seq);
    }

    fn opens_intent(&self) -> bool {
        true
    }
}

impl Command for MergeWorkspace {
    const NAME: &'static str = "MergeWorkspace";

    type Reply = Workspace;

    fn read_set(&self) -> ReadSet {
        vec![Key::Workspace(self.workspace.clone()).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Workspace>, Undecided> {
        let workspace = cx.view.workspace_known(&self.workspace)?;
        cx.view.ensure_may_change(cx.caller, workspace)?;
        is_free(workspace)?;
        // One that was merged may have gone on.
        if workspace.status == WorkspaceStatus::Abandoned {
            return Err(Rejection::new(Code::InvalidTransition, "the workspace was abandoned")
                .hint("take it up again with workspace_update, status active")
                .into());
        }
        if workspace.worktree == Worktree::Removed || workspace.repo_path.is_none() {
            return Err(Rejection::new(Code::InvalidState, "the workspace has no worktree of a known repository")
                .hint("merge its branch yourself and tell the commit with workspace_update")
                .into());
        }
        let fact = AnyEvent::new(WorkspaceMerging {
            workspace: workspace.id.clone(),
            run: workspace.run.clone(),
            uncommitted: self.uncommitted,
            site: workspace.site.clone(),
            intent: self.intent.clone(),
        });
        Ok(Decision::new(vec![fact], ReplySource::row(self.workspace.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::testing::{World, by, made, makes, sets, tells};
    use crate::workspaces::{BranchFate, ConcludeWorkspace, Outcome};

    fn merge() -> MergeWorkspace {
        MergeWorkspace { workspace: "ws_1".into(), uncommitted: Uncommitted::Refuse, intent: "int_m".into() }
    }

    fn settled(outcome: Outcome) -> ConcludeWorkspace {
        ConcludeWorkspace { workspace: "ws_1".into(), intent: "int_m".into(), outcome }
    }

    #[test]
    fn a_merge_ends_as_merged_or_leaves_everything_as_it_was() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), makes("ws_1", "b"));
        assert_eq!(w.refuses(&by("a"), merge()), Code::InvalidState);
        w.does(&Caller::system(), made("ws_1"));
        assert_eq!(w.does(&by("a"), merge()), ["workspace.merging"]);
        assert_eq!(w.refuses(&by("a"), merge()), Code::InvalidState);
        let failed = Outcome::Failed { code: Code::MergeConflict, reason: "both changed x".to_owned() };
        w.does(&Caller::system(), settled(failed));
        assert_eq!((w.workspace("ws_1").status, &w.workspace("ws_1").under_way), (WorkspaceStatus::Active, &None));
        w.does(&by("a"), merge());
        w.does(&Caller::system(), settled(Outcome::Merged { merge_commit: "abc".to_owned() }));
        assert_eq!(w.workspace("ws_1").merge_commit.as_deref(), Some("abc"));
        let removed = Outcome::Removed { backup_ref: None, branch: BranchFate::Deleted };
        assert_eq!(w.refuses(&Caller::system(), settled(removed)), Code::Stale);
        w.does(&by("a"), merge());
        w.does(&Caller::system(), settled(Outcome::Merged { merge_commit: "def".to_owned() }));
        assert_eq!(w.workspace("ws_1").merge_commit.as_deref(), Some("def"), "it went on and was merged again");
    }

    #[test]
    fn a_folder_of_no_known_repository_is_not_merged() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), tells("ws_1", "/w"));
        assert_eq!(w.refuses(&by("a"), merge()), Code::InvalidState);
        w.does(&by("a"), sets("ws_1", WorkspaceStatus::Abandoned));
        assert_eq!(w.refuses(&by("a"), merge()), Code::InvalidTransition);
    }
}
