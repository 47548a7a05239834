//! Renders a team's context as files: `channel.md` and documents in `.workflow/<instance>/`.
//!
//! The log is the truth. The renderer follows it and appends nothing, with one exception: an edit that a person saves into
//! a document's file becomes a version by `external`. `service` follows the log and the disk and schedules the instances,
//! `instance` does one round for an instance, `channel` and `documents` handle the two kinds of files, `recovered` handles
//! the files that were replaced, and only `instance_dir` accesses the disk.
//!
//! Invariant: no content of such a file is ever lost, whichever program saves at whichever moment, and whenever the daemon
//! is killed. A file that cannot be written causes a warning and a retry; senders of messages never wait for it.

mod change_hints;
mod channel;
mod documents;
mod fault_points;
mod file_stamp;
mod instance;
mod instance_dir;
mod recovered;
mod service;
mod state;
#[cfg(test)]
mod tests;
mod writers;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rookery_core::Instance;
use rookery_core::model::context_settings::TeamContext;
use rookery_store::ReadError;

pub(crate) use service::run;

use crate::error::EngineError;
use instance_dir::InstanceDirError;

/// Makes the files of an instance's folder besides channel and documents.
pub type GenerateFiles = dyn Fn(&Instance, &TeamContext) -> Vec<GeneratedFile> + Send + Sync;

/// The settings of the renderer, given by the wiring.
#[derive(Clone)]
pub struct RendererConfig {
    /// The folder for the state of the renderer: hashes of the files that it wrote.
    pub state: PathBuf,
    /// Makes the files of an instance's folder besides channel and documents, from settings alone.
    pub generated: Arc<GenerateFiles>,
}

impl fmt::Debug for RendererConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RendererConfig").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A file that is made from settings alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GeneratedFile {
    pub name: String,
    pub text: String,
}

/// The folders that are rendered now, and warnings for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RendererStatus {
    /// The folders of instances that are in use at this site.
    pub folders: Vec<RenderedFolder>,
    pub warnings: Vec<String>,
}

/// The folder of an instance, by its full path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderedFolder {
    pub instance: Instance,
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum RenderError {
    #[error(transparent)]
    InstanceDir(#[from] InstanceDirError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot read {path}: {source}")]
    Unreadable { path: String, source: io::Error },
    #[error("{path} is a link or a folder, but must be a file: remove it")]
    InTheWay { path: String },
    #[error("{path} existed before and is left alone: move it away, or give the instance another folder")]
    NotOurs { path: String },
    #[error("{path} has too many edited copies: remove the '.edited' files beside it")]
    Crowded { path: String },
    #[error("other programs keep too many files in {path}/.swap open: close them; nothing is written until then")]
    Stuck { path: String },
    #[error("cannot save the renderer's state of instance '{instance}': {source}")]
    SaveState { instance: String, source: io::Error },
}

impl RenderError {
    /// Whether the error concerns one file, so that others can still be written.
    fn concerns_one_file(&self) -> bool {
        !matches!(self, RenderError::Engine(_) | RenderError::Read(_) | RenderError::SaveState { .. })
    }
}
