//! What becomes of a workspace: merged, abandoned, and its worktree removed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kernel::code::Code;
use crate::kernel::id::{IntentId, RunId, SiteId, WorkspaceId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::intent::Effect;
use crate::model::workspace::{
    Workspace, WorkspaceEffect, WorkspaceStatus, Worktree, change, is_free, keys, open_intent,
};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Debug)]
pub struct UpdateWorkspace {
    pub workspace: WorkspaceId,
    pub status: Option<WorkspaceStatus>,
    pub merge_commit: Option<String>,
    pub pr_url: Option<String>,
    /// Laid over what is there.
    pub config: Map<String, Value>,
    /// For the intent to remove the worktree, if it shall go.
    pub remove: Option<IntentId>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkspaceUpdated {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub from: WorkspaceStatus,
    pub status: WorkspaceStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    pub site: SiteId,
    /// The intent to remove its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removing: Option<IntentId>,
}

impl Event for WorkspaceUpdated {
    const KIND: &'static str = "workspace.updated";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.run.as_ref(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        keys(&self.workspace, self.removing.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change(rows, &self.workspace, stamp.at, |workspace| workspace.update(self));
        if let Some(intent) = &self.removing {
            let effect = Effect::RemoveWorktree { workspace: self.workspace.clone() };
            open_intent(rows, intent, effect, &self.site, stamp.seq);
        }
    }

    fn opens_intent(&self) -> bool {
        self.removing.is_some()
    }
}

impl Workspace {
    fn update(&mut self, updated: &WorkspaceUpdated) {
        self.status = updated.status;
        self.merge_commit.clone_from(&updated.merge_commit);
        self.pr_url.clone_from(&updated.pr_url);
        self.config.clone_from(&updated.config);
        if let Some(intent) = &updated.removing {
            self.begin(WorkspaceEffect::Removing, intent);
        }
    }
}

impl Command for UpdateWorkspace {
    const NAME: &'static str = "UpdateWorkspace";

    type Reply = Workspace;

    fn read_set(&self) -> ReadSet {
        vec![Key::Workspace(self.workspace.clone()).into(), Key::lead().into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Workspace>, Undecided> {
        let workspace = cx.view.workspace_known(&self.workspace)?;
        cx.view.ensure_may_change(cx.caller, workspace)?;
        self.check(workspace)?;
        is_free(workspace)?;
        // What is gone need not be removed again.
        let removing = self.remove.clone().filter(|_| workspace.worktree != Worktree::Removed);
        let fact = WorkspaceUpdated { removing, ..self.updated(workspace) };
        limit::json("config", &fact.config, limit::METADATA_BYTES)?;
        let reply = ReplySource::row(self.workspace.clone());
        if fact.changes(workspace) {
            return Ok(Decision::new(vec![AnyEvent::new(fact)], reply));
        }
        Ok(Decision::unchanged(reply))
    }
}

impl UpdateWorkspace {
    fn check(&self, workspace: &Workspace) -> Result<(), Rejection> {
        let next = self.status.unwrap_or(workspace.status);
        let taken_up = next == WorkspaceStatus::Active && workspace.status != WorkspaceStatus::Active;
        if !workspace.status.may_become(next) || (taken_up && workspace.worktree == Worktree::Removed) {
            let (from, to) = (workspace.status.as_str(), next.as_str());
            return Err(Rejection::new(Code::InvalidTransition, format!("a workspace cannot go from {from} to {to}"))
                .hint("make another workspace on the branch"));
        }
        if next == WorkspaceStatus::Merged && self.merge_commit.is_none() && workspace.merge_commit.is_none() {
            return Err(Rejection::new(Code::MissingMergeCommit, "merged needs merge_commit")
                .hint("give the commit, or let workspace_merge do the merge"));
        }
        if self.remove.is_some() && next == WorkspaceStatus::Active {
            return Err(Rejection::new(Code::InvalidState, "the worktree of an active workspace is not removed")
                .hint("give status merged or abandoned along with cleanup_worktree"));
        }
        limit::name("merge_commit", self.merge_commit.as_deref().unwrap_or("none"), limit::NAME_BYTES)?;
        limit::text("pr_url", self.pr_url.as_deref().unwrap_or(""), limit::PATH_BYTES)
    }

    fn updated(&self, workspace: &Workspace) -> WorkspaceUpdated {
        let mut config = workspace.config.clone();
        config.extend(self.config.clone());
        WorkspaceUpdated {
            workspace: workspace.id.clone(),
            run: workspace.run.clone(),
            from: workspace.status,
            status: self.status.unwrap_or(workspace.status),
            merge_commit: self.merge_commit.clone().or_else(|| workspace.merge_commit.clone()),
            pr_url: self.pr_url.clone().or_else(|| workspace.pr_url.clone()),
            config,
            site: workspace.site.clone(),
            removing: None,
        }
    }
}

impl WorkspaceUpdated {
    fn changes(&self, workspace: &Workspace) -> bool {
        let mut after = workspace.clone();
        after.update(self);
        after != *workspace
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::kernel::caller::Caller;
    use crate::testing::{World, anna, by, claim, made, makes, removed, sets, tells};
    use crate::workspaces::CreateWorkspace;

    #[test]
    fn the_table_of_statuses() {
        use WorkspaceStatus::*;
        for (from, to, allowed) in [
            (Active, Active, true),
            (Active, Merged, true),
            (Active, Abandoned, true),
            (Merged, Active, false),
            (Merged, Merged, true),
            (Merged, Abandoned, false),
            (Abandoned, Active, true),
            (Abandoned, Merged, false),
            (Abandoned, Abandoned, true),
        ] {
            let mut w = World::of(&["a"]);
            w.does(&by("a"), tells("ws_1", "/w"));
            w.does(&by("a"), sets("ws_1", from));
            match allowed {
                true => drop(w.does(&by("a"), sets("ws_1", to))),
                false => assert_eq!(w.refuses(&by("a"), sets("ws_1", to)), Code::InvalidTransition, "{from:?} {to:?}"),
            }
        }
    }

    #[test]
    fn merged_names_its_commit_and_nothing_new_is_no_fact() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), tells("ws_1", "/w"));
        let bare = UpdateWorkspace { merge_commit: None, ..sets("ws_1", WorkspaceStatus::Merged) };
        assert_eq!(w.refuses(&by("a"), bare.clone()), Code::MissingMergeCommit);
        assert_eq!(w.does(&by("a"), sets("ws_1", WorkspaceStatus::Merged)), ["workspace.updated"]);
        assert_eq!(w.does(&by("a"), bare), [""; 0], "the commit is known by now");
        assert_eq!(w.refuses(&by("a"), sets("ws_9", WorkspaceStatus::Merged)), Code::WorkspaceNotFound);
    }

    #[test]
    fn config_is_laid_over_what_is_there() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), tells("ws_1", "/w"));
        let with = |name: &str, value: i32| UpdateWorkspace {
            status: None,
            config: Map::from_iter([(name.to_owned(), value.into())]),
            ..sets("ws_1", WorkspaceStatus::Active)
        };
        w.does(&by("a"), with("one", 1));
        w.does(&by("a"), with("two", 2));
        w.does(&by("a"), with("one", 3));
        assert_eq!(serde_json::to_string(&w.workspace("ws_1").config).unwrap(), r#"{"one":3,"two":2}"#);
    }

    #[test]
    fn a_worktree_is_removed_once_and_not_while_it_is_worked_in() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), makes("ws_1", "b"));
        let remove = |status| UpdateWorkspace { remove: Some("int_r".into()), ..sets("ws_1", status) };
        assert_eq!(w.refuses(&by("a"), remove(WorkspaceStatus::Abandoned)), Code::InvalidState, "it is being made");
        w.does(&Caller::system(), made("ws_1"));
        assert_eq!(w.refuses(&by("a"), remove(WorkspaceStatus::Active)), Code::InvalidState);
        w.does(&by("a"), remove(WorkspaceStatus::Abandoned));
        assert_eq!(
            w.refuses(&by("a"), sets("ws_1", WorkspaceStatus::Active)),
            Code::InvalidState,
            "it is being removed"
        );
        w.does(&Caller::system(), removed("ws_1", "int_r"));
        assert_eq!(w.workspace("ws_1").worktree, Worktree::Removed);
        assert_eq!(w.does(&by("a"), remove(WorkspaceStatus::Abandoned)), [""; 0], "it is gone");
        assert_eq!(w.refuses(&by("a"), sets("ws_1", WorkspaceStatus::Active)), Code::InvalidTransition);
        w.does(&by("a"), makes("ws_2", "b"));
    }

    #[test]
    fn strangers_may_not_change_it_until_its_maker_is_gone() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("task_1", &[]);
        w.does(&by("a"), CreateWorkspace { tasks: vec!["task_1".into()], ..tells("ws_1", "/w") });
        let tell = |n: i32| UpdateWorkspace {
            pr_url: Some(n.to_string()),
            status: None,
            ..sets("ws_1", WorkspaceStatus::Active)
        };
        assert_eq!(w.refuses(&by("b"), tell(1)), Code::Forbidden);
        w.does(&by("lead"), tell(2));
        w.does(&anna(), tell(3));
        w.does(&by("b"), claim("b", "task_1"));
        w.does(&by("b"), tell(4));
        w.does(&by("b"), crate::testing::release("task_1"));
        assert_eq!(w.refuses(&by("b"), tell(5)), Code::Forbidden);
        w.does(&by("a"), LeaveTeam { agent: "a".into() });
        w.does(&by("b"), tell(5));
    }
}
