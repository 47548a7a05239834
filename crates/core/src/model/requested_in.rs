//! The conversation and the trace that a task was requested in, kept with every event about the task.

use serde::{Deserialize, Serialize};

use super::task::Task;
use super::trace::Trace;
use crate::kernel::id::ThreadId;

/// Where a task was requested: a reader that follows the conversation or the trace sees what becomes of the task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RequestedIn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Trace::is_none")]
    pub trace: Trace,
}

impl RequestedIn {
    pub fn of(task: &Task) -> RequestedIn {
        let terms = task.origin.terms.as_ref();
        RequestedIn {
            thread: task.origin.thread.clone(),
            trace: terms.map(|terms| terms.trace.clone()).unwrap_or_default(),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == RequestedIn::default()
    }
}
