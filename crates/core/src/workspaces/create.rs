//! A new workspace: a folder that is there already, or a worktree that is to be made.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kernel::code::Code;
use crate::kernel::id::{IntentId, RunId, Seq, SiteId, TaskId, Timestamp, WorkspaceId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::intent::Effect;
use crate::model::run::author;
use crate::model::workspace::{
    Workspace, WorkspaceEffect, WorkspaceEffectState, WorkspaceStatus, Worktree, branch_place, keys, open_intent, place,
};
use crate::model::{EventStamp, Key, Lookup, ReadItem, ReadSet, Row, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Debug)]
pub struct CreateWorkspace {
    pub id: WorkspaceId,
    pub run: Option<RunId>,
    pub path: String,
    pub branch: String,
    pub base_branch: Option<String>,
    pub repo_path: Option<String>,
    pub tasks: Vec<TaskId>,
    pub config: Map<String, Value>,
    pub site: SiteId,
    /// For the intent to make a worktree, if one is wanted.
    pub make: Option<IntentId>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkspaceCreated {
    pub workspace: WorkspaceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub path: String,
    pub branch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_path: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    pub site: SiteId,
    pub created_by: String,
    /// The intent to make its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub making: Option<IntentId>,
}

impl Command for CreateWorkspace {
    const NAME: &'static str = "CreateWorkspace";

    type Reply = Workspace;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet = vec![Key::Workspace(self.id.clone()).into()];
        read_set.extend(self.own_run().map(|run| ReadItem::from(Key::Run(run.clone()))));
        read_set.extend(self.tasks.iter().map(|task| ReadItem::from(Key::Task(task.clone()))));
        if self.make.is_some() {
            read_set.extend(self.places().into_iter().map(ReadItem::from));
        }
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Workspace>, Undecided> {
        self.check()?;
        if cx.view.get(&Key::Workspace(self.id.clone()))?.is_some() {
            return Err(Rejection::new(Code::AlreadyExists, format!("workspace {} exists", self.id)).into());
        }
        if let Some(run) = self.own_run() {
            cx.view.run_known(run)?;
        }
        self.tasks_fit(cx.view)?;
        if self.make.is_some() {
            self.is_vacant(cx.view)?;
        }
        let fact = AnyEvent::new(WorkspaceCreated {
            workspace: self.id.clone(),
            run: self.run.clone(),
            path: self.path.clone(),
            branch: self.branch.clone(),
            base_branch: self.base_branch.clone(),
            repo_path: self.repo_path.clone(),
            tasks: self.tasks.clone(),
            config: self.config.clone(),
            site: self.site.clone(),
            created_by: author(cx.caller),
            making: self.make.clone(),
        });
        Ok(Decision::new(vec![fact], ReplySource::row(self.id.clone())))
    }
}

impl CreateWorkspace {
    fn check(&self) -> Result<(), Rejection> {
        if self.path.is_empty() {
            return Err(missing_path());
        }
        if self.make.is_some() && self.repo_path.is_none() {
            return Err(missing_repo_path());
        }
        limit::text("path", &self.path, limit::PATH_BYTES)?;
        limit::text("repo_path", self.repo_path.as_deref().unwrap_or(""), limit::PATH_BYTES)?;
        limit::name("branch", &self.branch, limit::NAME_BYTES)?;
        if let Some(base) = &self.base_branch {
            limit::name("base_branch", base, limit::NAME_BYTES)?;
        }
        limit::list("task_ids", &self.tasks)?;
        limit::json("config", &self.config, limit::METADATA_BYTES)
    }

    /// The run, if it is one with a row.
    fn own_run(&self) -> Option<&RunId> {
        self.run.as_ref().filter(|run| **run != RunId::project_default())
    }

    fn tasks_fit(&self, view: &View) -> Result<(), Undecided> {
        let run = self.run.clone().unwrap_or_else(RunId::project_default);
        for id in &self.tasks {
            let task = view.task(id)?;
            if task.run != run {
                let message = format!("task {id} belongs to workflow {}, not to {run}", task.run);
                return Err(Rejection::new(Code::WorkflowMismatch, message)
                    .hint("name the task's own workflow, or leave the task out")
                    .into());
            }
        }
        Ok(())
    }

    fn places(&self) -> [Lookup; 2] {
        let repo = self.repo_path.as_deref().unwrap_or("");
        [
            Lookup::workspaces_at(&place(&self.site, &self.path)),
            Lookup::workspaces_on(&branch_place(&self.site, repo, &self.branch)),
        ]
    }

    /// No other worktree of ours is there, or has the branch.
    fn is_vacant(&self, view: &View) -> Result<(), Undecided> {
        for lookup in self.places() {
            if let Some(Row::Workspace(other)) = view.all(&lookup)?.first() {
                let message = format!("workspace {} has branch '{}' at {}", other.id, other.branch, other.path);
                return Err(Rejection::new(Code::NameConflict, message)
                    .hint("work there, end it with workspace_update, or choose another branch")
                    .into());
            }
        }
        Ok(())
    }
}

pub fn missing_path() -> Rejection {
    Rejection::new(Code::MissingPath, "a workspace needs a path")
        .hint("give path, or create_worktree with repo_path to have one made")
}

pub fn missing_repo_path() -> Rejection {
    Rejection::new(Code::MissingRepoPath, "create_worktree needs repo_path")
        .hint("give the folder of the git repository as repo_path")
}

impl WorkspaceCreated {
    pub(super) fn workspace(&self, seq: Seq, at: Timestamp) -> Workspace {
        let under_way =
            self.making.clone().map(|intent| WorkspaceEffectState { intent, work: WorkspaceEffect::Making });
        Workspace {
            id: self.workspace.clone(),
            run: self.run.clone(),
            path: self.path.clone(),
            branch: self.branch.clone(),
            base_branch: self.base_branch.clone(),
            repo_path: self.repo_path.clone(),
            tasks: self.tasks.clone(),
            status: WorkspaceStatus::Active,
            merge_commit: None,
            pr_url: None,
            config: self.config.clone(),
            site: self.site.clone(),
            worktree: if under_way.is_some() { Worktree::Planned } else { Worktree::Told },
            under_way,
            backup_ref: None,
            created_by: self.created_by.clone(),
            created_at: at,
            created: seq,
            updated_at: at,
        }
    }
}

impl Event for WorkspaceCreated {
    const KIND: &'static str = "workspace.created";

    fn subject(&self) -> Subject<'_> {
        Subject { run: self.run.as_ref(), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        keys(&self.workspace, self.making.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.workspace.clone(), self.workspace(stamp.seq, stamp.at));
        if let Some(intent) = &self.making {
            let effect = Effect::MakeWorktree { workspace: self.workspace.clone() };
            open_intent(rows, intent, effect, &self.site, stamp.seq);
        }
    }

    fn opens_intent(&self) -> bool {
        self.making.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, by, makes, tells};

    #[test]
    fn a_folder_is_recorded_and_a_worktree_is_asked_for() {
        let mut w = World::of(&["a"]);
        assert_eq!(w.does(&by("a"), tells("ws_1", "/w/one")), ["workspace.created"]);
        let told = w.workspace("ws_1");
        assert_eq!(
            (told.worktree, told.status, told.created_by.as_str()),
            (Worktree::Told, WorkspaceStatus::Active, "a")
        );
        w.does(&by("a"), makes("ws_2", "b2"));
        let planned = w.workspace("ws_2");
        assert_eq!(planned.worktree, Worktree::Planned);
        assert_eq!(planned.under_way.as_ref().map(|under_way| under_way.work), Some(WorkspaceEffect::Making));
        assert!(w.rows().contains_key(&Key::Intent("int_ws_2".into())));
        assert_eq!(w.refuses(&by("a"), tells("ws_1", "/w/two")), Code::AlreadyExists);
    }

    #[test]
    fn a_worktree_needs_a_place_and_a_branch_of_its_own() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), makes("ws_1", "b1"));
        assert_eq!(w.refuses(&by("a"), makes("ws_2", "b1")), Code::NameConflict);
        let same_place = CreateWorkspace { path: "/r-worktrees/b1".to_owned(), ..makes("ws_2", "b2") };
        assert_eq!(w.refuses(&by("a"), same_place), Code::NameConflict);
        let other_site = CreateWorkspace { site: "site_2".into(), ..makes("ws_2", "b1") };
        w.does(&by("a"), other_site);
        let other_repo =
            CreateWorkspace { repo_path: Some("/q".to_owned()), path: "/q/b1".to_owned(), ..makes("ws_3", "b1") };
        w.does(&by("a"), other_repo);
    }

    #[test]
    fn what_it_names_must_be_there_and_belong_together() {
        let mut w = World::of(&["a"]);
        w.plans("wf_1", &[("one", &[])]);
        w.plans("wf_2", &[("two", &[])]);
        w.creates("task_1", &[]);
        let with = |run: Option<&str>, task: &str| CreateWorkspace {
            run: run.map(RunId::from),
            tasks: vec![task.into()],
            ..tells("ws_1", "/w")
        };
        assert_eq!(w.refuses(&by("a"), with(Some("wf_9"), "tk_one")), Code::WorkflowNotFound);
        assert_eq!(w.refuses(&by("a"), with(Some("wf_1"), "tk_nine")), Code::TaskNotFound);
        assert_eq!(w.refuses(&by("a"), with(Some("wf_1"), "tk_two")), Code::WorkflowMismatch);
        assert_eq!(w.refuses(&by("a"), with(None, "tk_two")), Code::WorkflowMismatch);
        w.does(&by("a"), with(Some("wf_1"), "tk_one"));
        w.does(&by("a"), CreateWorkspace { id: "ws_2".into(), ..with(None, "task_1") });
        w.does(&by("a"), CreateWorkspace { id: "ws_3".into(), ..with(Some("run_default"), "task_1") });
    }

    #[test]
    fn what_is_missing_or_too_large_is_said() {
        let mut w = World::of(&["a"]);
        assert_eq!(w.refuses(&by("a"), tells("ws_1", "")), Code::MissingPath);
        let homeless = CreateWorkspace { repo_path: None, ..makes("ws_1", "b") };
        assert_eq!(w.refuses(&by("a"), homeless), Code::MissingRepoPath);
        assert_eq!(w.refuses(&by("a"), makes("ws_1", "")), Code::Invalid);
        assert_eq!(w.refuses(&by("a"), makes("ws_1", &"b".repeat(300))), Code::TooLarge);
        assert_eq!(w.refuses(&by("a"), tells("ws_1", &"p".repeat(5_000))), Code::TooLarge);
    }
}
