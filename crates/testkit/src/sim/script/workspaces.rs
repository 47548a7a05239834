//! Commands about workspaces.

use rand::Rng;
use rand::seq::IteratorRandom;
use rookery_core::model::workspace::{Uncommitted, WorkspaceStatus};
use rookery_core::workspaces::{CreateWorkspace, MergeWorkspace, UpdateWorkspace};
use rookery_core::{AnyCommand, IntentId, Row, WorkspaceId};

use super::Script;

impl Script<'_> {
    pub(super) fn workspace_command(&mut self) -> AnyCommand {
        let intent = IntentId::new(format!("int_{}", self.serial));
        let all = self.model.rows().filter_map(|(_, row)| match row {
            Row::Workspace(workspace) => Some(workspace.id.clone()),
            _ => None,
        });
        let known = all.choose(self.rng);
        let Some(workspace) = known.filter(|_| self.rng.random_bool(0.7)) else { return self.create_workspace(intent) };
        match self.rng.random_range(0..5) {
            0..2 => MergeWorkspace { workspace, uncommitted: Uncommitted::Commit, intent }.into(),
            _ => self.update_workspace(workspace, intent),
        }
    }

    fn create_workspace(&mut self, intent: IntentId) -> AnyCommand {
        let branch = format!("branch-{}", self.rng.random_range(0..6));
        CreateWorkspace {
            id: WorkspaceId::new(format!("ws_{}", self.serial)),
            run: None,
            path: format!("/repo-worktrees/{branch}"),
            branch,
            base_branch: None,
            repo_path: Some("/repo".to_owned()),
            tasks: vec![],
            config: serde_json::Map::new(),
            site: "site_0".into(),
            make: self.rng.random_bool(0.9).then_some(intent),
        }
        .into()
    }

    fn update_workspace(&mut self, workspace: WorkspaceId, intent: IntentId) -> AnyCommand {
        let status = WorkspaceStatus::ALL.into_iter().choose(self.rng);
        UpdateWorkspace {
            workspace,
            status,
            merge_commit: self.rng.random_bool(0.5).then(|| "abc".to_owned()),
            pr_url: self.reason(),
            config: serde_json::Map::new(),
            remove: self.rng.random_bool(0.6).then_some(intent),
        }
        .into()
    }
}
