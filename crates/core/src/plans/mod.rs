//! Run plans: the graph of tasks that a run consists of, changes to it, and templates from which runs are made.

mod add_task;
mod graph;
mod placeholders;
mod remove_task;
mod replan;
mod set;
mod template_apply;
mod template_create;

pub use add_task::{AddRunTask, RunReordered, SequenceChange};
pub use graph::PlannedTask;
pub(crate) use graph::{Resolved, resolve};
pub use remove_task::{DependencyChange, RemoveRunTask, TaskRemoved};
pub use replan::{ReplanRun, RunReplanned};
pub use set::{RunPlanned, SetRunPlan};
pub(crate) use set::{check_summary, planned};
pub use template_apply::ApplyTemplate;
pub use template_create::{CreateTemplate, TemplateCreated, TemplateSource, TemplateTask};
