//! From the settings to a store: which engine, which file, and what to say when it cannot be opened.

use std::path::PathBuf;
use std::sync::Arc;

use rookery_core::LogId;
use rookery_engine::Ids;
use rookery_store::artifact::ArtifactDir;
use rookery_store::sqlite::{OfflineError, OpenError, Options, SqliteStore};
use rookery_store::{Clock, PresenceBoard, Store};

use crate::cli::Failure;
use crate::config::{Origin, Settings};
use crate::project::Project;

/// What a store is opened with.
#[derive(Debug, Clone)]
pub struct Means {
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub board: Arc<PresenceBoard>,
}

/// A store, and whose it is.
#[expect(missing_debug_implementations, reason = "a store shows nothing of itself")]
pub struct Opened {
    pub store: Arc<dyn Store>,
    pub project_id: String,
    pub project_name: String,
    /// Whether other daemons can have the same one.
    pub shared: bool,
}

/// Opens the store of the settings.
pub async fn open_store(settings: &Settings, project: &Project, means: &Means) -> anyhow::Result<Opened> {
    let log = LogId::new(means.ids.mint("log_"));
    let path = sqlite_path(settings, project)?;
    let mut options = Options::new(path, log, means.clock.clone(), means.board.clone());
    options.project = settings.project.to_string();
    options.artifacts = ArtifactDir::new(project.artifacts());
    options.limits.commands = *settings.queue_commands as usize;
    options.limits.bytes = usize::try_from(settings.queue_bytes.get()).unwrap_or(usize::MAX);
    let store = SqliteStore::open(options).map_err(explain)?;
    Ok(Opened {
        store: Arc::new(store),
        project_id: project.id(),
        project_name: settings.project.to_string(),
        shared: false,
    })
}

/// The SQLite file of the settings.
pub fn sqlite_path(settings: &Settings, project: &Project) -> anyhow::Result<PathBuf> {
    if settings.store.origin == Origin::Default {
        return Ok(project.database());
    }
    let url = settings.store.secret();
    match url.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(project.root().join(path.trim_start_matches("//"))),
        _ => Err(Failure::new(format!("store {} is not one that this version can open", *settings.store))
            .hint("use sqlite:PATH, or leave it out for the project's own database")
            .into()),
    }
}

/// Why a store cannot be opened, with what to do about it.
pub fn explain(error: OpenError) -> anyhow::Error {
    let hint = match &error {
        OpenError::Locked { .. } => "use the daemon that has it, or stop that one first with `rookery down`",
        _ => "`rookery doctor` says more; `rookery restore FILE` brings back a backup",
    };
    // With the causes: they say what the system had against it.
    Failure::new(format!("{:#}", anyhow::Error::new(error))).hint(hint).into()
}

/// Why the files of a store cannot be worked on, with what to do about it.
pub fn explain_offline(error: OfflineError) -> anyhow::Error {
    let hint = match &error {
        OfflineError::Exists { .. } => {
            "`rookery restore --force` keeps what is there aside; an import needs an empty project"
        }
        OfflineError::NotABackup { .. } => "a file that `rookery export` wrote is read by `rookery import`",
        OfflineError::Line { .. } => "a file that `rookery backup` wrote is read by `rookery restore`",
        OfflineError::Open(OpenError::Locked { .. }) => "stop the daemon first with `rookery down`",
        _ => "`rookery doctor` checks the set-up and says how to mend it",
    };
    Failure::new(format!("{:#}", anyhow::Error::new(error))).hint(hint).into()
}
