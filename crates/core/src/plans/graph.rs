//! A plan as a graph: tasks name each other, and whatever cannot be worked off is refused before anything is written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::TaskId;
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::task::{Details, Task};

/// A task as a plan describes it. Others are named by their name, or by their id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlannedTask {
    pub id: TaskId,
    pub title: String,
    pub description: String,
    /// Files that it will probably change.
    pub resources: Vec<String>,
    pub depends_on: Vec<String>,
    pub context_from: Vec<String>,
    pub details: Details,
}

/// The same with every name resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Resolved {
    pub(crate) task: PlannedTask,
    pub(crate) depends_on: Vec<TaskId>,
    pub(crate) context_from: Vec<TaskId>,
    /// Those of `depends_on` that are not finished yet.
    pub(crate) waiting_on: Vec<TaskId>,
}

/// Checks new tasks against each other and against those that stay, and resolves their names. A name that one of those
/// has already is refused with the code `taken`.
pub(crate) fn resolve(stay: &[&Task], new: &[PlannedTask], taken: Code) -> Result<Vec<Resolved>, Rejection> {
    if stay.len() + new.len() > limit::RUN_TASKS {
        return Err(Rejection::new(Code::TooLarge, format!("a workflow has at most {} tasks", limit::RUN_TASKS))
            .hint("split it into several workflows"));
    }
    limit::json("plan", &new, limit::PLAN_BYTES)?;
    let names = Names::of(stay, new, taken)?;
    let mut resolved = Vec::with_capacity(new.len());
    for task in new {
        check(task)?;
        resolved.push(names.resolve(task, stay)?);
    }
    match cycle(&resolved) {
        Some(names) => Err(Rejection::new(Code::DependencyCycle, format!("the tasks wait for each other: {names}"))
            .hint("take one of these dependencies out")),
        None => Ok(resolved),
    }
}

fn check(task: &PlannedTask) -> Result<(), Rejection> {
    if task.title.trim().is_empty() {
        return Err(Rejection::new(Code::Invalid, "the name of a task must not be empty"));
    }
    limit::text("name", &task.title, limit::TITLE_BYTES)?;
    limit::text("description", &task.description, limit::TEXT_BYTES)?;
    limit::paths("files_likely_affected", &task.resources)?;
    limit::text("parallel_group", task.details.parallel_group.as_deref().unwrap_or(""), limit::NAME_BYTES)?;
    limit::text("repository_path", task.details.repository_path.as_deref().unwrap_or(""), limit::PATH_BYTES)
}

/// What the tasks of a run are called.
struct Names<'a> {
    ids: BTreeMap<&'a str, &'a TaskId>,
}

impl<'a> Names<'a> {
    fn of(stay: &[&'a Task], new: &'a [PlannedTask], taken: Code) -> Result<Names<'a>, Rejection> {
        let mut ids: BTreeMap<&str, &TaskId> = BTreeMap::new();
        for task in stay {
            ids.entry(task.title.as_str()).or_insert(&task.id);
        }
        for task in new {
            if stay.iter().any(|old| old.title == task.title) {
                return Err(Rejection::new(taken, format!("the workflow has a task '{}' already", task.title))
                    .hint("choose another name: tasks refer to each other by theirs"));
            }
            if ids.insert(task.title.as_str(), &task.id).is_some() {
                return Err(Rejection::new(Code::DuplicateTaskName, format!("two tasks are named '{}'", task.title))
                    .hint("names are unique within a workflow, because dependencies refer to them"));
            }
        }
        // An id is good where nothing has it for a name.
        for id in stay.iter().map(|task| &task.id).chain(new.iter().map(|task| &task.id)) {
            ids.entry(id.as_str()).or_insert(id);
        }
        Ok(Names { ids })
    }

    fn resolve(&self, task: &PlannedTask, stay: &[&Task]) -> Result<Resolved, Rejection> {
        let depends_on = self.all(task, "depends_on", &task.depends_on)?;
        let finished = |id: &&TaskId| stay.iter().any(|old| old.id == **id && old.state.is_finished());
        Ok(Resolved {
            context_from: self.all(task, "context_from", &task.context_from)?,
            waiting_on: depends_on.iter().filter(|id| !finished(id)).cloned().collect(),
            task: task.clone(),
            depends_on,
        })
    }

    /// Each once, however often it is named.
    fn all(&self, task: &PlannedTask, field: &'static str, names: &[String]) -> Result<Vec<TaskId>, Rejection> {
        limit::list(field, names)?;
        let mut found: Vec<TaskId> = Vec::with_capacity(names.len());
        for name in names {
            let Some(id) = self.ids.get(name.as_str()) else {
                return Err(Rejection::new(
                    Code::UnknownDependency,
                    format!("{field} of '{}': there is no task '{name}' in this workflow", task.title),
                )
                .hint("name tasks exactly as they are written in the plan"));
            };
            if **id == task.id {
                return Err(Rejection::new(Code::SelfDependency, format!("{field} of '{}' names itself", task.title)));
            }
            if !found.contains(id) {
                found.push((*id).clone());
            }
        }
        Ok(found)
    }
}

/// The names along a cycle, the first one again at its end. Only new tasks can be part of one: those that stay never
/// wait for what did not exist.
fn cycle(tasks: &[Resolved]) -> Option<String> {
    let places: BTreeMap<&TaskId, usize> = tasks.iter().enumerate().map(|(at, task)| (&task.task.id, at)).collect();
    let follows: Vec<Vec<usize>> =
        tasks.iter().map(|task| task.depends_on.iter().filter_map(|dep| places.get(dep).copied()).collect()).collect();
    let mut done = vec![false; tasks.len()];
    for start in 0..tasks.len() {
        // The path from the start to where we are, each with how many of its dependencies were looked at.
        let mut path: Vec<(usize, usize)> = if done[start] { vec![] } else { vec![(start, 0)] };
        while let Some((at, next)) = path.last().copied() {
            let Some(dep) = follows[at].get(next).copied() else {
                done[at] = true;
                path.pop();
                continue;
            };
            if let Some(last) = path.last_mut() {
                last.1 += 1;
            }
            if let Some(from) = path.iter().position(|(seen, _)| *seen == dep) {
                let around = path[from..].iter().map(|(at, _)| *at).chain([dep]);
                return Some(around.map(|at| tasks[at].task.title.as_str()).collect::<Vec<_>>().join(" → "));
            }
            if !done[dep] {
                path.push((dep, 0));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::planned;

    fn refused(tasks: &[PlannedTask]) -> (Code, String) {
        let refusal = resolve(&[], tasks, Code::NameConflict).unwrap_err();
        (refusal.code, refusal.message)
    }

    #[test]
    fn names_are_unique_known_and_of_others() {
        assert_eq!(refused(&[planned("a", &[]), planned("a", &[])]).0, Code::DuplicateTaskName);
        assert_eq!(refused(&[planned("a", &["a"])]).0, Code::SelfDependency);
        assert_eq!(refused(&[planned("a", &["b"])]).0, Code::UnknownDependency);
        let context = PlannedTask { context_from: vec!["b".to_owned()], ..planned("a", &[]) };
        assert_eq!(refused(&[context]).0, Code::UnknownDependency);
        assert_eq!(refused(&[planned(" ", &[])]).0, Code::Invalid);
    }

    #[test]
    fn a_cycle_is_named() {
        let tasks = [planned("a", &["c"]), planned("b", &["a"]), planned("c", &["b"]), planned("d", &["a"])];
        assert_eq!(refused(&tasks), (Code::DependencyCycle, "the tasks wait for each other: a → c → b → a".to_owned()));
        let apart = [planned("x", &[]), planned("y", &["x", "z"]), planned("z", &["y"])];
        assert_eq!(refused(&apart).1, "the tasks wait for each other: y → z → y");
    }

    #[test]
    fn a_diamond_is_no_cycle_and_twice_is_once() {
        let tasks = [
            planned("top", &["left", "right"]),
            planned("left", &["base"]),
            planned("right", &["base", "base"]),
            planned("base", &[]),
        ];
        let resolved = resolve(&[], &tasks, Code::NameConflict).unwrap();
        assert_eq!(resolved[2].depends_on, ["tk_base".into()]);
        assert_eq!(resolved[0].waiting_on, resolved[0].depends_on);
    }

    #[test]
    fn a_deep_plan_needs_no_deep_stack() {
        let name = |n: usize| format!("t{n}");
        let tasks: Vec<PlannedTask> = (0..limit::RUN_TASKS)
            .map(|n| if n == 0 { planned("t0", &[]) } else { planned(&name(n), &[&name(n - 1)]) })
            .collect();
        assert!(resolve(&[], &tasks, Code::NameConflict).is_ok());
        let mut more = tasks;
        more.push(planned("one too many", &[]));
        assert_eq!(refused(&more).0, Code::TooLarge);
    }
}
