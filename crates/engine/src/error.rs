//! Why the engine could not do what was asked of it.

use rookery_core::Rejection;
use rookery_store::artifact::ArtifactError;
use rookery_store::{ReadError, SubmitError};

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl From<Rejection> for EngineError {
    fn from(refusal: Rejection) -> EngineError {
        EngineError::Submit(SubmitError::Refused(refusal))
    }
}
