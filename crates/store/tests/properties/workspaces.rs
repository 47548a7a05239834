//! Random requests about workspaces, and their invariants.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use rookery_core::kernel::caller::Caller;
use rookery_core::model::workspace::{Uncommitted, Workspace, WorkspaceEffect, WorkspaceStatus, Worktree};
use rookery_core::workspaces::{
    BranchFate, BranchOrigin, ConcludeWorkspace, CreateWorkspace, MergeWorkspace, Outcome, UpdateWorkspace,
};
use rookery_core::{AnyCommand, Code, IntentId, Key, Row, WorkspaceId};

use crate::steps::AGENTS;

const IDS: [&str; 4] = ["w0", "w1", "w2", "w3"];

fn id() -> impl Strategy<Value = WorkspaceId> {
    select(&IDS[..]).prop_map(WorkspaceId::from)
}

/// Never repeated, like generated ids.
fn intent() -> impl Strategy<Value = IntentId> {
    any::<u64>().prop_map(|number| IntentId::new(format!("int_w{number}")))
}

pub(crate) fn random_request() -> BoxedStrategy<(Caller, AnyCommand)> {
    let caller = prop_oneof![1 => select(&AGENTS[..]).prop_map(Caller::asserted), 2 => Just(Caller::person("anna"))];
    let create = (id(), select(vec!["x", "y"]), prop::option::weighted(0.8, intent()), any::<bool>());
    let create = create.prop_map(|(id, branch, make, elsewhere)| CreateWorkspace {
        id,
        run: None,
        path: format!("/r-worktrees/{branch}"),
        branch: branch.to_owned(),
        base_branch: None,
        repo_path: Some("/r".to_owned()),
        tasks: vec!["t0".into()],
        config: serde_json::Map::from_iter([("note".to_owned(), "one".into())]),
        site: if elsewhere { "site_b" } else { "site_a" }.into(),
        make,
    });
    let status = prop::option::of(select(WorkspaceStatus::ALL.to_vec()));
    let update = (id(), status, any::<bool>(), prop::option::weighted(0.7, intent()));
    let update = update.prop_map(|(workspace, status, with_commit, remove)| UpdateWorkspace {
        workspace,
        status,
        merge_commit: with_commit.then(|| "abc".to_owned()),
        pr_url: None,
        config: serde_json::Map::from_iter([("more".to_owned(), "two".into())]),
        remove,
    });
    let merge = (id(), intent()).prop_map(|(workspace, intent)| MergeWorkspace {
        workspace,
        uncommitted: Uncommitted::Refuse,
        intent,
    });
    let command = prop_oneof![
        3 => create.prop_map(AnyCommand::from),
        6 => update.prop_map(AnyCommand::from),
        1 => merge.prop_map(AnyCommand::from),
    ];
    (caller, command).boxed()
}

/// Concludes pending work of a workspace; with a stale intent if none is pending.
pub(crate) fn conclusion_of_pending(rows: &BTreeMap<Key, Row>, pick: &Index, well: bool) -> ConcludeWorkspace {
    let busy: Vec<&Workspace> = workspaces(rows).filter(|workspace| workspace.under_way.is_some()).collect();
    let (workspace, under_way) = match busy.is_empty() {
        true => (WorkspaceId::from(IDS[0]), None),
        false => {
            let chosen = pick.get(&busy);
            (chosen.id.clone(), chosen.under_way.clone())
        }
    };
    let outcome = match under_way.as_ref().map(|under_way| under_way.work) {
        Some(WorkspaceEffect::Making) if well => {
            Outcome::Made { base_branch: "main".to_owned(), branch: BranchOrigin::Created }
        }
        Some(WorkspaceEffect::Merging) if well => Outcome::Merged { merge_commit: "def".to_owned() },
        Some(WorkspaceEffect::Removing) if well => Outcome::Removed { backup_ref: None, branch: BranchFate::Kept },
        _ => Outcome::Failed { code: Code::GitFailed, reason: "one".to_owned() },
    };
    let intent = under_way.map_or_else(|| "int_none".into(), |under_way| under_way.intent);
    ConcludeWorkspace { workspace, intent, outcome }
}

fn workspaces(rows: &BTreeMap<Key, Row>) -> impl Iterator<Item = &Workspace> {
    rows.values().filter_map(|row| if let Row::Workspace(workspace) = row { Some(workspace) } else { None })
}

/// Worktrees have distinct paths and branches, and pending work has its intent.
pub(crate) fn check(rows: &BTreeMap<Key, Row>) {
    let (mut places, mut branches) = (BTreeSet::new(), BTreeSet::new());
    for workspace in workspaces(rows) {
        if matches!(workspace.worktree, Worktree::Planned | Worktree::Present) {
            assert!(places.insert((&workspace.site, &workspace.path)), "{workspace:?}");
            assert!(branches.insert((&workspace.site, &workspace.branch)), "{workspace:?}");
        }
        if let Some(under_way) = &workspace.under_way {
            assert!(rows.contains_key(&Key::Intent(under_way.intent.clone())), "{workspace:?}");
        }
        assert_eq!(workspace.worktree == Worktree::Planned, is_being_made(workspace), "{workspace:?}");
        assert!(workspace.status != WorkspaceStatus::Merged || workspace.merge_commit.is_some(), "{workspace:?}");
    }
    let open = rows.keys().filter(|key| matches!(key, Key::Intent(id) if id.as_str().starts_with("int_w"))).count();
    assert_eq!(open, workspaces(rows).filter(|workspace| workspace.under_way.is_some()).count());
}

fn is_being_made(workspace: &Workspace) -> bool {
    workspace.under_way.as_ref().is_some_and(|under_way| under_way.work == WorkspaceEffect::Making)
}
