//! From the settings to a store: which engine, which file, and what to say when it cannot be opened.

use std::path::PathBuf;

use rookery_store::sqlite::OpenError;

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
    anyhow::Error::new(error)
}
