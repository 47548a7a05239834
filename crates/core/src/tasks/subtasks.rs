//! Tasks within tasks: what is part of a task ends with it.

use crate::kernel::code::Code;
use crate::kernel::id::TaskId;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::task::Task;
use crate::model::{Lookup, ReadItem, Undecided, View};

/// Why the parts of a completed task are cancelled.
pub(super) const WHOLE_IS_COMPLETED: &str = "the task that it was part of is completed";

/// Every open task that is part of this one, directly or within others.
pub(super) fn open_parts<'v>(view: &'v View, task: &Task) -> Result<Vec<&'v Task>, Undecided> {
    let mut open = Vec::new();
    let mut level: Vec<TaskId> = Vec::from_iter(task.has_parts.then(|| task.id.clone()));
    while !level.is_empty() {
        view.ensure_loaded(level.iter().map(|id| Lookup::subtasks_of(id).into()).collect())?;
        let mut parts = Vec::new();
        for id in &level {
            parts.extend(view.parts_of(id)?);
        }
        level = parts.iter().filter(|part| part.has_parts).map(|part| part.id.clone()).collect();
        open.extend(parts.into_iter().filter(|part| part.state.is_open()));
        if open.len() > limit::TASK_PARTS {
            let message = format!("more than {} open tasks are part of {}", limit::TASK_PARTS, task.id);
            return Err(Rejection::new(Code::TooLarge, message).hint("end some of them first").into());
        }
    }
    view.ensure_loaded(open.iter().flat_map(|part| ends_of(&part.id)).collect())?;
    Ok(open)
}

fn ends_of(task: &TaskId) -> [ReadItem; 2] {
    [Lookup::next_dependents(task, None).into(), Lookup::files_of_task(task).into()]
}
