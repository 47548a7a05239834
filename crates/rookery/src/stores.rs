//! From the settings to a store: which engine, which file, and what to say when it cannot be opened.

use std::path::PathBuf;

use rookery_store::sqlite::{OfflineError, OpenError};

use crate::cli::Failure;
use crate::config::{Origin, Settings};
use crate::project::Project;

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
        OfflineError::Open(OpenError::Locked { .. }) => "stop the daemon first with `rookery down`",
        _ => "`rookery doctor` checks the set-up and says how to mend it",
    };
    Failure::new(format!("{:#}", anyhow::Error::new(error))).hint(hint).into()
}
