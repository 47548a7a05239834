//! The file form of a team's context: `channel.md` and documents in `.workflow/<instance>/`, rendered from the log.
//!
//! The log is the truth. A rendering follows it and adds no facts, with one exception: what a person saves into a
//! document's file becomes a version by `external`. `run` follows log and disk and decides whose turn it is, `keeper` does
//! a round for one instance, `channel` and `papers` know the two kinds of files, `swaps` what came out of its
//! place, and only `room` touches the disk.
//!
//! What must hold: nothing that ever stood in such a file becomes unreachable, whoever saves at whatever moment, and
//! whenever we are ended. What cannot be written is a warning and tried again; nobody who speaks waits for it.

mod channel;
mod documents;
mod fault_points;
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
use instance_dir::RoomError;

/// Makes the files that an instance's folder has besides channel and documents.
pub type Makes = dyn Fn(&Instance, &TeamContext) -> Vec<Generated> + Send + Sync;

/// How files are rendered; whoever wires the engine chooses.
#[derive(Clone)]
pub struct Rendering {
    /// Where is kept what was rendered last.
    pub state: PathBuf,
    /// The files that an instance's folder has besides channel and documents, made from settings alone.
    pub generated: Arc<Makes>,
}

impl fmt::Debug for Rendering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendering").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A file that is made from settings alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generated {
    pub name: String,
    pub text: String,
}

/// What is rendered right now, and what a person should know about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RendererStatus {
    /// The folders of instances that are in use here.
    pub folders: Vec<Folder>,
    pub warnings: Vec<String>,
}

/// The folder of an instance, by its full path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    pub instance: Instance,
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum RenderError {
    #[error(transparent)]
    Room(#[from] RoomError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot read {path}: {source}")]
    Unreadable { path: String, source: io::Error },
    #[error("{path} is a link or a folder, where a file is needed")]
    InTheWay { path: String },
    #[error("{path} was there before and is left alone: move it away, or give the instance another folder")]
    NotOurs { path: String },
    #[error("{path} was edited so often that there is no room for another copy: remove the '.edited' files beside it")]
    Crowded { path: String },
    #[error("files in {path}/.swap are kept open by other programs: nothing is written until they are closed")]
    Stuck { path: String },
    #[error("cannot note what was rendered of instance '{instance}': {source}")]
    State { instance: String, source: io::Error },
}

impl RenderError {
    /// Whether it is about a file, and others may do well.
    fn is_of_a_file(&self) -> bool {
        !matches!(self, RenderError::Engine(_) | RenderError::Read(_) | RenderError::State { .. })
    }
}
