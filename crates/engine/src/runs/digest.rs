//! What the tasks of a run amount to. Pure: everything was read before.

use std::collections::BTreeMap;

use rookery_core::model::run::Run;
use rookery_core::model::task::{Task, TaskState};
use rookery_core::{RunId, TaskId};
use serde_json::json;

use super::{
    BlockedTask, CompletedDependency, CurrentTask, Dependencies, GroupProgress, NextTask, NextTasks, PendingDependency,
    Progress, Search, Summary, SummaryFormat, Workflow, gives_work, status_word,
};

pub(super) fn next_tasks(workflow: &Workflow, search: &Search) -> NextTasks {
    let Workflow { run, tasks } = workflow;
    let mut eligible: Vec<&Task> = tasks.iter().filter(|task| gives_work(run.status) && search.takes(task)).collect();
    eligible.sort_by_key(|task| !search.has_kept(task));
    let next = offered(&eligible, tasks);
    NextTasks {
        recommended_count: next.len().min(run.brief.max_parallel_tasks as usize),
        max_parallel: run.brief.max_parallel_tasks,
        workflow_status: run.status,
        all_complete: !tasks.is_empty() && tasks.iter().all(|task| task.state.is_finished()),
        tasks: next,
    }
}

/// How many of these tasks to begin now. A workflow says how many of its own go on at once, and some do already; what
/// belongs to none is not counted.
pub(super) fn recommended(runs: &[Run], eligible: &[Task], running: &[Task]) -> usize {
    let of = |tasks: &[Task], run: &RunId| tasks.iter().filter(|task| task.run == *run).count();
    let fits = |run: &Run| {
        let most = run.brief.max_parallel_tasks as usize;
        of(eligible, &run.id).min(most.saturating_sub(of(running, &run.id)))
    };
    runs.iter().map(fits).sum::<usize>() + of(eligible, &RunId::project_default())
}

/// These tasks as somebody sees them who looks for one; `known` are those that they depended on.
pub(super) fn offered(eligible: &[&Task], known: &[Task]) -> Vec<NextTask> {
    let name = |id: &TaskId| known.iter().find(|task| task.id == *id).map(|task| task.title.clone());
    let next = |task: &&Task| {
        let group = task.details.parallel_group.as_ref();
        let in_group = |other: &Task| other.run == task.run && other.details.parallel_group.as_ref() == group;
        let beside = |other: &&&Task| group.is_some() && other.id != task.id && in_group(other);
        NextTask {
            task: (*task).clone(),
            can_parallelize: group.is_some(),
            parallel_with: eligible.iter().filter(beside).map(|other| other.id.clone()).collect(),
            dependencies_completed: task.depends_on.iter().filter_map(name).collect(),
        }
    };
    eligible.iter().map(next).collect()
}

pub(super) fn progress(workflow: &Workflow) -> Progress {
    let tasks = &workflow.tasks;
    let name =
        |id: &TaskId| tasks.iter().find(|task| task.id == *id).map_or_else(|| id.to_string(), |t| t.title.clone());
    let mut by_status = BTreeMap::new();
    let mut parallel_groups: BTreeMap<String, GroupProgress> = BTreeMap::new();
    for task in tasks {
        *by_status.entry(status_word(task)).or_insert(0) += 1;
        if let Some(group) = &task.details.parallel_group {
            let group = parallel_groups.entry(group.clone()).or_default();
            group.task_count += 1;
            group.completed += usize::from(task.state.is_finished());
        }
    }
    let blocked = tasks.iter().filter(|task| task.is_blocked()).map(|task| BlockedTask {
        id: task.id.clone(),
        name: task.title.clone(),
        blocked_by: task.waiting_on.iter().map(name).collect(),
    });
    let current = tasks.iter().find(|task| !task.state.is_finished()).map(|task| task.sequence);
    let done = tasks.iter().take_while(|task| task.state.is_finished()).last().map_or(0, |task| task.sequence);
    let current_tasks = tasks.iter().filter(|task| is_begun(task)).map(|task| CurrentTask {
        id: task.id.clone(),
        name: task.title.clone(),
        status: status_word(task),
        sequence: task.sequence,
        assigned_agent_id: task.assignee().cloned(),
        checkpoints: task.checkpoints,
    });
    Progress {
        total_tasks: tasks.len(),
        by_status,
        completed_sequence: done,
        current_sequence: current,
        current_tasks: current_tasks.collect(),
        blocked_tasks: blocked.collect(),
        parallel_groups,
        estimated_remaining: tasks.iter().filter(|task| !task.state.is_finished()).count(),
    }
}

/// Somebody has it, or had it and left something behind.
fn is_begun(task: &Task) -> bool {
    let touched = task.held_by().is_some() || task.started_at.is_some() || task.checkpoints > 0;
    !task.state.is_finished() && (touched || task.state != TaskState::Pending)
}

pub(super) fn summary(workflow: &Workflow, format: SummaryFormat) -> Summary {
    let text = match format {
        SummaryFormat::Json => as_json(workflow),
        SummaryFormat::Markdown => as_markdown(workflow),
    };
    Summary { token_estimate: estimate_tokens(text.chars().count()), summary: text }
}

fn as_json(workflow: &Workflow) -> String {
    let Workflow { run, tasks } = workflow;
    let task = |task: &Task| {
        json!({
            "id": task.id,
            "sequence": task.sequence,
            "name": task.title,
            "status": status_word(task),
            "assigned_agent_id": task.assignee(),
            "outcome": task.outcome,
            "error": error_of(task),
        })
    };
    json!({
        "id": run.id,
        "name": run.brief.title,
        "status": run.status,
        "plan_summary": run.summary,
        "last_status_reason": run.reason,
        "progress": progress(workflow),
        "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
    })
    .to_string()
}

fn as_markdown(workflow: &Workflow) -> String {
    let Workflow { run, tasks } = workflow;
    let done = tasks.iter().filter(|task| task.state.is_finished()).count();
    let mut lines = vec![
        format!("# {}", one_line(&run.brief.title)),
        String::new(),
        format!("Status: {} ({done} of {} tasks finished)", run.status.as_str(), tasks.len()),
    ];
    if let Some(summary) = &run.summary {
        lines.extend([String::new(), summary.clone()]);
    }
    if !tasks.is_empty() {
        lines.extend([String::new(), "## Tasks".to_owned(), String::new()]);
    }
    for task in tasks {
        let mut line = format!("{}. {} [{}]", task.sequence, one_line(&task.title), status_word(task));
        if let Some(agent) = task.assignee() {
            line.push_str(&format!(" by {agent}"));
        }
        if let Some(told) = task.outcome.as_deref().or(error_of(task)) {
            line.push_str(&format!(": {}", one_line(told)));
        }
        lines.push(line);
    }
    lines.join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Why a task failed.
pub fn error_of(task: &Task) -> Option<&str> {
    task.reason.as_deref().filter(|_| task.state == TaskState::Failed)
}

pub(super) fn dependencies(task: &Task, found: &[Task]) -> Dependencies {
    let mut told = Dependencies { satisfied: task.waiting_on.is_empty(), pending: vec![], completed: vec![] };
    for dep in task.depends_on.iter().filter_map(|id| found.iter().find(|dep| dep.id == *id)) {
        if dep.state.is_finished() {
            told.completed.push(CompletedDependency {
                id: dep.id.clone(),
                name: dep.title.clone(),
                outcome: dep.outcome.clone(),
            });
        } else {
            told.pending.push(PendingDependency {
                id: dep.id.clone(),
                name: dep.title.clone(),
                status: status_word(dep),
            });
        }
    }
    told
}

/// Estimates the tokens of a text from its characters.
pub fn estimate_tokens(chars: usize) -> usize {
    chars.div_ceil(4)
}
