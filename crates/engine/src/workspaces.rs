//! Workspaces: queries and commands for surfaces, and the effects on real worktrees.
//!
//! A surface lets [`WorkspacesHandle::prepare`] check names and resolve paths, submits the command, and waits for its outcome.
//! The repository is changed after the commit, by the node of the site where the folder is.

use rookery_core::kernel::hex::hex;
use rookery_core::kernel::limit;
use rookery_core::{
    AnyEvent, Authority, Caller, Code, EventRef, IntentId, Key, Position, Rejection, Row, RunId, Seq, TaskId,
    WorkspaceId,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_core::model::Table;
use rookery_core::model::intent::Effect;
use rookery_core::model::workspace::{Uncommitted, Workspace, WorkspaceStatus, Worktree, not_found};
use rookery_core::workspaces::{CreateWorkspace, Outcome, missing_path, missing_repo_path};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{MergeRequest, RemovalRequest, Repository, WorktreeRequest, check_branch};
use crate::paths::{follow_links, lexical};
use crate::ports::effect_executor::Performed;
use crate::query::{At, QueryHandle};

/// Creates, inspects and removes git worktrees of tasks.
#[derive(Clone, Copy, Debug)]
pub struct WorkspacesHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`WorkspacesHandle`].
    pub fn workspaces(&self) -> WorkspacesHandle<'_> {
        WorkspacesHandle { engine: self }
    }
}

/// How long a caller waits for the outcome of an effect. After it, the answer says that the effect is still in progress.
pub const OUTCOME_TIMEOUT: Duration = Duration::from_secs(120);

/// The folder for worktrees inside of the project.
const WORKTREES: &str = ".worktrees";

/// The request for a workspace.
#[derive(Clone, PartialEq, Debug)]
pub struct NewWorkspace {
    pub run: Option<RunId>,
    pub path: Option<String>,
    pub branch: String,
    pub base_branch: Option<String>,
    pub repo_path: Option<String>,
    pub tasks: Vec<TaskId>,
    pub config: Map<String, Value>,
    pub worktree: WorktreeCreation,
}

/// Whether a worktree is created, or the folder already exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorktreeCreation {
    Create,
    Existing,
}

/// The state of the files in a worktree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorktreeChanges {
    Clean,
    Modified,
    Unknown,
}

impl WorktreeChanges {
    pub fn as_str(self) -> &'static str {
        match self {
            WorktreeChanges::Clean => "clean",
            WorktreeChanges::Modified => "modified",
            WorktreeChanges::Unknown => "unknown",
        }
    }
}

/// A filter on workspaces; every given condition must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkspaceFilter {
    pub run: Option<RunId>,
    /// One of these; any if empty.
    pub status: Vec<WorkspaceStatus>,
}

impl WorkspacesHandle<'_> {
    pub fn mint(&self) -> WorkspaceId {
        WorkspaceId::new(self.engine.mint("ws_"))
    }

    /// Whether a worktree has uncommitted changes.
    pub async fn changes(&self, workspace: &Workspace) -> WorktreeChanges {
        if !self.engine.cluster().is_own_site(&workspace.site) || workspace.worktree == Worktree::Removed {
            return WorktreeChanges::Unknown;
        }
        let clean = match self.project_repository().await {
            Ok(repository) => repository.is_clean(Path::new(&workspace.path)).await,
            Err(rejection) => Err(rejection),
        };
        match clean {
            Ok(true) => WorktreeChanges::Clean,
            Ok(false) => WorktreeChanges::Modified,
            Err(_) => WorktreeChanges::Unknown,
        }
    }

    /// Prepares the command that creates a workspace, after all checks that need this machine's files.
    pub async fn prepare(&self, caller: &Caller, wanted: NewWorkspace) -> Result<CreateWorkspace, EngineError> {
        check_branch("branch", &wanted.branch).await?;
        if let Some(base) = &wanted.base_branch {
            check_branch("base_branch", base).await?;
        }
        for (field, path) in [("path", &wanted.path), ("repo_path", &wanted.repo_path)] {
            check_path(field, path.as_deref())?;
        }
        if wanted.worktree == WorktreeCreation::Create && wanted.repo_path.is_none() {
            return Err(missing_repo_path().into());
        }
        if wanted.worktree == WorktreeCreation::Existing && wanted.path.is_none() {
            return Err(missing_path().into());
        }
        let repository = self.project_repository().await?;
        if let Some(named) = &wanted.repo_path {
            repository.check_named(&follow_links(&self.absolute(named)))?;
        }
        let path = match (&wanted.path, wanted.worktree) {
            (Some(path), WorktreeCreation::Create) => self.choose_folder(caller, path, &repository)?,
            (Some(path), WorktreeCreation::Existing) => {
                check_existing(&follow_links(&self.absolute(path)), &repository)?
            }
            (None, _) => default_path(&repository, &wanted.branch),
        };
        let repo_path = wanted.repo_path.is_some().then(|| utf8(&repository.root)).transpose()?;
        Ok(CreateWorkspace {
            id: self.mint(),
            run: wanted.run,
            path: utf8(&path)?,
            branch: wanted.branch,
            base_branch: wanted.base_branch,
            repo_path,
            tasks: wanted.tasks,
            config: wanted.config,
            site: self.engine.cluster().node().site.id.clone(),
            make: (wanted.worktree == WorktreeCreation::Create).then(|| self.engine.mint_intent()),
        })
    }

    /// The repository that the project belongs to. Work is done in no other one.
    async fn project_repository(&self) -> Result<Repository, Rejection> {
        Repository::of_project(self.engine.paths().root(), self.engine.config().bwrap.as_deref()).await
    }

    /// Resolves the path that a caller chose for a worktree. It must be in a folder for worktrees, except for people.
    fn choose_folder(&self, caller: &Caller, path: &str, repository: &Repository) -> Result<PathBuf, Rejection> {
        let path = follow_links(&self.absolute(path));
        let root = self.engine.paths().root();
        if path.starts_with(repository.common()) || path.starts_with(root.join(".rookery")) || root.starts_with(&path) {
            let message = format!("{} cannot be used for a worktree", path.display());
            return Err(Rejection::new(Code::Invalid, message).hint("leave path out, and a folder is chosen"));
        }
        let folders = [root.join(WORKTREES), beside(repository)];
        let is_below = |folder: &PathBuf| path != *folder && path.starts_with(folder);
        if caller.power == Authority::Person || folders.iter().any(is_below) {
            return Ok(path);
        }
        let [own, other] = folders.map(|folder| folder.display().to_string());
        Err(Rejection::new(Code::Forbidden, format!("{} is not in {own} or {other}", path.display()))
            .hint("leave path out, and a folder is chosen; only people may choose other folders"))
    }

    fn absolute(&self, path: &str) -> PathBuf {
        lexical(&self.engine.paths().root().join(path))
    }

    /// Waits for the event that closes an effect which was opened at or before a position; `None` after a timeout.
    pub async fn wait_for_outcome(&self, intent: &IntentId, opened: Seq, most: Duration) -> Option<AnyEvent> {
        let position = Position { log: None, seq: Seq(opened.0.saturating_sub(1)) };
        let waiting = async {
            let mut log = self.engine.subscribe(Some(position)).await.ok()?;
            loop {
                let chunk = log.next().await.ok()?;
                if let Some(row) = chunk.rows().iter().find(|row| row.event.closes_intent() == Some(intent)) {
                    return Some(row.event.clone());
                }
            }
        };
        tokio::time::timeout(most, waiting).await.ok().flatten()
    }

    /// Carries out an effect on a workspace.
    pub(crate) async fn perform(&self, effect: &Effect) -> Performed {
        let (id, work): (&WorkspaceId, WorkspaceJob) = match effect {
            Effect::MakeWorktree { workspace } => (workspace, WorkspaceJob::Make),
            Effect::MergeWorktree { workspace, uncommitted } => (workspace, WorkspaceJob::Merge(*uncommitted)),
            Effect::RemoveWorktree { workspace } => (workspace, WorkspaceJob::Remove),
            Effect::EraseArtifact { .. } | Effect::LaunchTeam { .. } => return Performed::Done,
        };
        let workspace = match self.engine.query().workspace(id).await {
            Ok(found) => found.value,
            Err(error) => return Performed::Failed(error.to_string()),
        };
        let outcome = match workspace {
            None => Err(not_found()),
            Some(workspace) => work.run(self.engine, &workspace).await,
        };
        let outcome = outcome.unwrap_or_else(|refusal| {
            let hint = refusal.hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
            Outcome::Failed { code: refusal.code, reason: format!("{}{hint}", refusal.message) }
        });
        Performed::Settled(id.clone(), outcome)
    }
}

impl QueryHandle<'_> {
    pub async fn workspace(&self, id: &WorkspaceId) -> Result<At<Option<Workspace>>, EngineError> {
        let (mut rows, head) = self.engine.store().rows(vec![Key::Workspace(id.clone())]).await?;
        Ok(At { value: rows.pop().flatten().and_then(workspace_of), head })
    }

    /// Workspaces in the order of their creation.
    pub async fn workspaces(&self, filter: &WorkspaceFilter) -> Result<At<Vec<Workspace>>, EngineError> {
        let mut query = RowQuery::all(Table::Workspaces).ordered_by("created");
        if let Some(run) = &filter.run {
            query = query.with("run", ColumnTest::Is(run.as_str().into()));
        }
        if !filter.status.is_empty() {
            query = query
                .with("status", ColumnTest::In(filter.status.iter().map(|status| status.as_str().into()).collect()));
        }
        let (rows, head) = self.engine.store().list(query).await?;
        Ok(At { value: rows.into_iter().filter_map(workspace_of).collect(), head })
    }
}

#[derive(Clone, Copy)]
enum WorkspaceJob {
    Make,
    Merge(Uncommitted),
    Remove,
}

impl WorkspaceJob {
    async fn run(self, engine: &Engine, workspace: &Workspace) -> Result<Outcome, Rejection> {
        let id = workspace.id.as_str();
        let repository = engine.workspaces().project_repository().await?;
        match (&workspace.repo_path, self) {
            // It may have been the project's repository when the workspace was made.
            (Some(named), _) => repository.check_named(Path::new(named))?,
            // A folder that was given by its path may be a worktree all the same.
            (None, WorkspaceJob::Remove) if workspace.worktree == Worktree::Told => {}
            (None, _) => return Err(missing_repo_path()),
        }
        let repository = repository.for_workspace(id).await?;
        let outcome = self.run_in(&repository, workspace).await;
        repository.release(id);
        outcome
    }

    async fn run_in(self, repository: &Repository, workspace: &Workspace) -> Result<Outcome, Rejection> {
        let (id, path) = (workspace.id.as_str(), Path::new(&workspace.path));
        let (branch, base) = (workspace.branch.as_str(), workspace.base_branch.as_deref());
        Ok(match self {
            WorkspaceJob::Make => {
                let made = repository.make(WorktreeRequest { workspace: id, path, branch, base }).await?;
                Outcome::Made { base_branch: made.base_branch, branch: made.branch }
            }
            WorkspaceJob::Merge(uncommitted) => {
                let base = repository.base(base).await?.name;
                let offered = MergeRequest { workspace: id, path, branch, base: &base, uncommitted };
                Outcome::Merged { merge_commit: repository.merge(offered).await? }
            }
            WorkspaceJob::Remove => {
                let removed = repository.remove(RemovalRequest { workspace: id, path, branch, base }).await?;
                Outcome::Removed { backup_ref: removed.backup_ref, branch: removed.branch }
            }
        })
    }
}

/// The rejection in the event of a failed effect.
pub fn failure_of(event: &AnyEvent) -> Option<Rejection> {
    let EventRef::WorkspaceFailed(failed) = event.typed() else { return None };
    let refusal = |message: &str| Rejection::new(failed.code, message);
    Some(match failed.reason.split_once('\n') {
        Some((message, hint)) => refusal(message).hint(hint),
        None => refusal(&failed.reason),
    })
}

/// The folder for worktrees beside the repository.
fn beside(repository: &Repository) -> PathBuf {
    let mut folder = repository.root.clone().into_os_string();
    folder.push("-worktrees");
    PathBuf::from(folder)
}

/// Checks that an existing folder is one of the repository's worktrees.
fn check_existing(path: &Path, repository: &Repository) -> Result<PathBuf, Rejection> {
    repository.check_worktree(path)?;
    Ok(path.to_owned())
}

/// The default path of a worktree: beside the repository, named after the branch.
fn default_path(repository: &Repository, branch: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' };
    let name: String = branch.chars().map(plain).collect();
    let folder = beside(repository);
    let path = folder.join(&name);
    let is_readable = name.chars().any(|c| c.is_ascii_alphanumeric());
    if is_readable && !path.exists() {
        return path;
    }
    // Another branch may result in the same name.
    let digest = hex(&Sha256::digest(branch));
    folder.join(format!("{}-{}", name.trim_matches('-'), digest.get(..8).unwrap_or(&digest)).trim_start_matches('-'))
}

fn check_path(field: &'static str, path: Option<&str>) -> Result<(), Rejection> {
    let Some(path) = path else { return Ok(()) };
    limit::text(field, path, limit::PATH_BYTES)?;
    if path.is_empty() || path.chars().any(char::is_control) {
        return Err(Rejection::new(Code::Invalid, format!("{field} is not a path"))
            .hint("name a folder, from the root of the file system or of the project"));
    }
    Ok(())
}

fn utf8(path: &Path) -> Result<String, Rejection> {
    let text = path.to_str().ok_or_else(|| Rejection::new(Code::Invalid, "the path is not valid UTF-8"))?;
    Ok(text.to_owned())
}

fn workspace_of(row: Row) -> Option<Workspace> {
    if let Row::Workspace(workspace) = row { Some(workspace) } else { None }
}
