//! Commands and events of tasks: claims with fences, dependencies that block, checkpoints and alarms.

mod alarm;
mod assign;
mod cancel;
mod checkpoint;
mod claim;
mod complete;
mod create;
mod plan;
mod release;
mod reopen;
mod request;
mod retry;
mod start;
mod step;
mod subtasks;
#[cfg(test)]
mod timing;
#[cfg(test)]
mod transitions;
mod unblock;

pub use alarm::{FireAlarm, RoutingResumed, TaskTimedOut, TimeLimit};
pub use assign::{AssignTask, TaskReassigned};
pub use cancel::{CancelTask, CancelTo, TaskCancelled, TaskSkipped};
pub use checkpoint::{AddCheckpoint, CheckpointAdded};
pub(crate) use claim::ack_request;
pub use claim::{ClaimTask, TaskClaimed};
pub use complete::{CompleteTask, FailTask, FailureRetry, Required, TaskCompleted, TaskFailed};
pub use create::{CreateTask, TaskCreated, TaskReserved};
pub use plan::{ReplanTask, SetTaskPlan, TaskPlanned};
pub use release::{IfFailed, IfUnclaimed, ReleaseTask, RetryTask, TaskReleased, TaskRetried, recovery, released};
pub use reopen::{ReopenTask, TaskReopened};
pub use request::Request;
pub(crate) use retry::doubled;
pub use retry::{MAX_ATTEMPTS, RETRY_BACKOFF_MILLIS, TaskAttemptsExhausted};
pub use start::{HeldByOther, StartTask, TaskStarted};
pub use step::{SetTaskStep, TaskStepSet};
pub use unblock::DependentsUnblocked;
