//! Trying a part of a run again: a task that has ended, and with it everything that went on from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::complete::freed_files;
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, TaskId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::file::ReleaseReason;
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::run::Run;
use crate::model::task::{Task, TaskState, task_keys};
use crate::model::{EventStamp, Key, Lookup, ReadItem, ReadSet, RowWriter, Undecided, View, run};
use crate::runs;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// How many runs, one after the other, what depends on a task may lie apart from it.
const RUNS_APART: usize = 5;

/// Opens a task of a run again that has ended, its subtasks, and all that depends on one of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReopenTask {
    pub run: RunId,
    pub task: TaskId,
}

/// The task begins anew, whatever came of it. Whoever held it holds it no longer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskReopened {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<AgentId>,
    pub from: TaskState,
    pub attempt: u32,
    /// The task that was to be tried again, if that was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because_of: Option<TaskId>,
    /// The tasks that have to wait for this one again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for TaskReopened {
    const KIND: &'static str = "task.reopened";

    fn subject(&self) -> Subject<'_> {
        let holder = self.holder.as_ref().or(self.reserved_for.as_ref());
        Subject { holder, ..Subject::task(&self.task, self.run.as_ref()) }.requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &self.blocks, self.run.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.reopen(self.attempt, stamp));
        if let Some(holder) = &self.holder {
            rows.update(holder.clone(), |agent: &mut Agent| agent.gave_up(&self.task));
        }
        for dependent in self.blocks.iter().filter(|dependent| **dependent != self.task) {
            rows.update(dependent.clone(), |dependent: &mut Task| dependent.wait_for(&self.task));
        }
        if let Some(run) = run::row_id(self.run.as_ref()) {
            rows.update(run, |run: &mut Run| run.reopen_task(self.from, stamp.at));
        }
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        Some(NotificationRule::withdrawing(Audience::RequesterAndHolder))
    }
}

impl Command for ReopenTask {
    const NAME: &'static str = "ReopenTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        let mut read_set = crate::model::task::read_set(&self.task, None);
        if self.run != RunId::project_default() {
            read_set.push(Key::Run(self.run.clone()).into());
            read_set.push(Lookup::tasks_of_run(&self.run).into());
        }
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let of_run = self.run_known(cx.view)?;
        let task = cx.view.task(&self.task).map_err(at_task)?;
        if task.run != self.run {
            let message = format!("task {} is in run {}", task.id, task.run);
            return Err(Rejection::new(Code::Invalid, message).about("/task_id").into());
        }
        if task.state.is_open() {
            let message = format!("task {} is {}: only what has ended is tried again", task.id, task.state.as_str());
            return Err(Rejection::new(Code::InvalidTransition, message)
                .hint("wait for its end, or cancel it first")
                .about("/task_id")
                .into());
        }
        if let Some(run) = of_run {
            runs::ensure_accepts_tasks(run)?;
        }
        let facts = self.opens_again(cx.view, cx.caller, task)?;
        Ok(Decision::new(facts, ReplySource::row(self.task.clone())))
    }
}

impl ReopenTask {
    /// The run; the project's default one has no row.
    fn run_known<'v>(&self, view: &'v View) -> Result<Option<&'v Run>, Undecided> {
        if self.run == RunId::project_default() {
            return Ok(None);
        }
        let unknown = || Rejection::new(Code::WorkflowNotFound, "Run not found").hint("list the runs to see their ids");
        Ok(Some(view.run(&self.run)?.ok_or_else(unknown)?))
    }

    fn opens_again(&self, view: &View, caller: &Caller, task: &Task) -> Result<Vec<AnyEvent>, Undecided> {
        let found = self.went_on_from(view, task)?;
        let begun = |found: &&Task| found.state != TaskState::Pending || found.held_by().is_some();
        let opened: Vec<&Task> = found.into_iter().filter(begun).collect();
        may_reopen_all(view, caller, &opened)?;
        let files = |task: &&Task| Lookup::files_of_task(&task.id).into();
        view.ensure_loaded(opened.iter().map(files).collect())?;
        let mut facts = Vec::new();
        for opened in &opened {
            facts.push(AnyEvent::new(TaskReopened {
                task: opened.id.clone(),
                run: opened.run_if_named(),
                holder: opened.holder().cloned(),
                reserved_for: opened.reserved_for.clone(),
                from: opened.state,
                attempt: opened.attempt.saturating_add(1),
                because_of: Some(task.id.clone()).filter(|because_of| *because_of != opened.id),
                blocks: view.dependents(&opened.id)?.into_iter().map(|edge| edge.task.clone()).collect(),
                requested_in: RequestedIn::of(opened),
            }));
            facts.extend(freed_files(view, opened, ReleaseReason::TaskEnded)?);
        }
        facts.extend(runs::resume_run(view, &opened)?);
        Ok(facts)
    }

    /// The task itself, and whatever is part of it or depends on it, directly or by others. Those of its run are found at
    /// once, those of other runs one run after the other.
    fn went_on_from<'v>(&self, view: &'v View, task: &'v Task) -> Result<Vec<&'v Task>, Undecided> {
        let of_run = if task.run_if_named().is_some() { view.tasks_of_run(&self.run)? } else { vec![] };
        let mut found = BTreeMap::from([(task.id.clone(), task)]);
        let mut asked = BTreeSet::new();
        for _ in 0..=RUNS_APART {
            within(&of_run, &mut found);
            if found.len() > limit::TASK_PARTS {
                let message = format!("more than {} tasks went on from {}", limit::TASK_PARTS, task.id);
                return Err(Rejection::new(Code::TooLarge, message).hint("retry them one by one").into());
            }
            let next: Vec<TaskId> = found.keys().filter(|id| !asked.contains(*id)).cloned().collect();
            if next.is_empty() {
                let mut found: Vec<&Task> = found.into_values().collect();
                found.sort_by_key(|found| (found.id != task.id, found.created));
                return Ok(found);
            }
            found.extend(beyond(view, &next)?.into_iter().map(|task| (task.id.clone(), task)));
            asked.extend(next);
        }
        let message = format!("what went on from {} is too many steps away from it", task.id);
        Err(Rejection::new(Code::TooLarge, message).hint("retry what depends on it one by one").into())
    }
}

/// The lead and people may have anything begin anew. Others need a right to each task, where whoever has one to the whole
/// has it to its parts, and take nothing away from whoever works on it.
fn may_reopen_all(view: &View, caller: &Caller, opened: &[&Task]) -> Result<(), Undecided> {
    if view.has_authority(caller)? {
        return Ok(());
    }
    let runs: BTreeSet<RunId> = opened.iter().filter_map(|task| task.run_if_named()).collect();
    view.ensure_loaded(runs.into_iter().map(|run| Key::Run(run).into()).collect())?;
    let ids: BTreeSet<&TaskId> = opened.iter().map(|task| &task.id).collect();
    for task in opened {
        if !task.origin.parent.as_ref().is_some_and(|whole| ids.contains(whole)) {
            may_reopen(view, caller, task)?;
        }
    }
    spares_others(caller, opened)
}

/// Whoever asked for a task may, and whoever steers its run. Where nobody does, what has failed is anybody's to try again, as it
/// is to claim; but what was done, skipped or cancelled is undone only by whoever worked on it.
fn may_reopen(view: &View, caller: &Caller, task: &Task) -> Result<(), Undecided> {
    let named = caller.actor != Actor::Anonymous;
    if named && task.assigned_by == caller.actor.to_string() {
        return Ok(());
    }
    if let Some(run) = task.run_if_named()
        && let Some(run) = view.run(&run)?
    {
        view.may_steer(caller, run)?;
        if named && run.created_by == caller.actor.to_string() {
            return Ok(());
        }
    }
    if !task.state.is_finished() {
        return Ok(());
    }
    match (&task.last_holder, caller.actor.agent()) {
        (Some(worker), Some(agent)) if worker == agent => Ok(()),
        (Some(worker), None) if !named => view.ensure_may_act_for(caller, worker),
        (None, None) if !named => Ok(()),
        (worker, _) => Err(is_of_others(task, worker.as_ref()).into()),
    }
}

fn is_of_others(task: &Task, worker: Option<&AgentId>) -> Rejection {
    let state = task.state.as_str();
    let by = worker.map(|worker| format!(", and {worker} had it")).unwrap_or_default();
    Rejection::new(Code::Forbidden, format!("task {} is {state}: {} asked for it{by}", task.id, task.assigned_by))
        .hint(format!("ask {}, the lead or a person to have it tried again", task.assigned_by))
        .about("/task_id")
}

/// How many tasks a refusal names.
const MAX_NAMED_TASKS: usize = 5;

fn spares_others(caller: &Caller, opened: &[&Task]) -> Result<(), Undecided> {
    let others = opened.iter().filter_map(|task| {
        let holder = task.holder().filter(|holder| caller.actor.agent() != Some(holder))?;
        Some(format!("{} (held by {holder})", task.id))
    });
    let others: Vec<String> = others.collect();
    if others.is_empty() {
        return Ok(());
    }
    let more = others.len().saturating_sub(MAX_NAMED_TASKS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = others.iter().take(MAX_NAMED_TASKS).map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(Rejection::new(Code::AlreadyClaimed, format!("others work on what would begin anew with it: {named}{more}"))
        .hint("wait until they have ended or given it back, or have the lead or a person try it again")
        .about("/task_id")
        .into())
}

fn at_task(halt: Undecided) -> Undecided {
    match halt {
        Undecided::Rejected(refusal) => refusal.about("/task_id").into(),
        missing @ Undecided::Missing(_) => missing,
    }
}

/// Adds those of a run that are part of, or depend on, what was found.
fn within<'v>(of_run: &[&'v Task], found: &mut BTreeMap<TaskId, &'v Task>) {
    loop {
        let before = found.len();
        for task in of_run {
            let part = task.origin.parent.iter().chain(&task.depends_on).any(|id| found.contains_key(id));
            if part {
                found.insert(task.id.clone(), task);
            }
        }
        if found.len() == before {
            return;
        }
    }
}

/// What is part of these tasks or depends on them.
fn beyond<'v>(view: &'v View, tasks: &[TaskId]) -> Result<Vec<&'v Task>, Undecided> {
    let read_set = |id: &TaskId| [ReadItem::from(Lookup::subtasks_of(id)), Lookup::dependents(id).into()];
    view.ensure_loaded(tasks.iter().flat_map(read_set).collect())?;
    let (mut found, mut dependents) = (Vec::new(), Vec::new());
    for id in tasks {
        found.extend(view.parts_of(id)?);
        dependents.extend(view.dependents(id)?.into_iter().map(|edge| edge.task.clone()));
    }
    view.ensure_loaded(dependents.iter().map(|id| Key::Task(id.clone()).into()).collect())?;
    for id in &dependents {
        found.extend(view.find_task(id)?);
    }
    Ok(found)
}
