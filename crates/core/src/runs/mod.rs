//! Creating runs, setting their status, and deriving it from their tasks.
//!
//! A run is in progress at the first claim and ends when none of its tasks is open: completed or, if some have failed, failed.

mod create;
mod rollup;
mod status;

pub use create::{CreateRun, RunCreated};
pub(crate) use rollup::{
    Ended, ends_with, ensure_accepts_tasks, ensure_open, is_begun, reopens, resume_run, roll_up, start_run,
};
pub use status::{RunStatusCause, RunStatusSet, SetRunStatus};
