//! Which trace a task belongs to: the one that its request names, else that of the task it is part of.

use rookery_core::TaskId;
use rookery_core::model::task::{Task, TaskState};
use rookery_core::model::trace::Trace;
use serde::Deserialize;

use crate::error::EngineError;
use crate::history::HistoryHandle;
use crate::runs::TaskNode;

/// A task that has ended, with what is told of it outside.
#[derive(Clone, PartialEq, Debug)]
pub struct Traced {
    pub node: TaskNode,
    /// The trace that it belongs to, if anybody named one.
    pub trace_id: Option<String>,
    /// The span that its own request named.
    pub span_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Said {
    #[serde(default)]
    trace: Option<SaidTrace>,
}

#[derive(Default, Deserialize)]
struct SaidTrace {
    trace_id: Option<String>,
    span_id: Option<String>,
}

impl HistoryHandle<'_> {
    /// A task that has ended, well or not; nothing while it goes on.
    pub async fn trace(&self, id: &TaskId) -> Result<Option<Traced>, EngineError> {
        let found = self.engine.query().task(id).await?;
        let has_ended = |task: &Task| task.state.is_finished() || task.state == TaskState::Failed;
        let Some(task) = found.value.filter(has_ended) else { return Ok(None) };
        let Trace { mut trace_id, span_id } = self.request_trace(&task).await?;
        let mut above = task.origin.parent.clone();
        while let (None, Some(parent)) = (&trace_id, &above) {
            let Some(parent) = self.engine.query().task(parent).await?.value else { break };
            trace_id = self.request_trace(&parent).await?.trace_id;
            above = parent.origin.parent;
        }
        let node = self.engine.runs().task_node(task, found.head.head).await?;
        Ok(Some(Traced { node, trace_id, span_id }))
    }

    async fn request_trace(&self, task: &Task) -> Result<Trace, EngineError> {
        let Some(terms) = &task.origin.terms else { return Ok(Trace::default()) };
        let body = self.request_body(&terms.request).await?;
        let said: Said = serde_json::from_slice(&body).unwrap_or_default();
        let SaidTrace { trace_id, span_id } = said.trace.unwrap_or_default();
        Ok(Trace { trace_id, span_id })
    }
}
