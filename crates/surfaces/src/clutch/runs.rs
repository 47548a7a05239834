//! Runs, and each as a tree of its tasks: who did what, how often it was tried, and how long it took.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use rookery_core::kernel::time;
use rookery_core::model::task::AlarmKind;
use rookery_core::{Seq, Timestamp};
use rookery_engine::runs::{MESSAGES, RunEntry, RunList, RunTree, TaskAttempt, TaskNode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::call::{Call, Query, Segment};
use super::{ClutchError, ClutchErrorBody, filter};
use crate::http::{App, answer};

/// Which page: of runs the newest come first, of a run's tasks the oldest.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct NextQuery {
    /// The `next` of the page before.
    pub after: Option<String>,
    /// 100 if left out, at most 1000.
    pub limit: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Runs {
    runs: Vec<RunInfo>,
    /// What to send as `after` for the next page; null if there is no more.
    next: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RunInfo {
    run_id: String,
    title: String,
    /// `planning`, `ready`, `in_progress`, `paused`, `completed`, `failed` or `abandoned`. `run_default` is always in
    /// progress.
    status: &'static str,
    /// How many tasks it has; null where there are too many to count.
    task_count: Option<u32>,
    /// How many of them are left to do; failed ones are among them, because they can be tried again.
    unfinished_count: Option<u32>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RunDetail {
    #[serde(flatten)]
    run: RunInfo,
    /// The tasks that have no parent, with those below them.
    tasks: Vec<TaskInfo>,
    /// What to send as `after` for the tasks that were left out; null if these are all.
    next: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TaskInfo {
    task_id: String,
    parent_task_id: Option<String>,
    title: String,
    /// `pending`, `planning`, `in_progress`, `review`, `paused`, `completed`, `failed`, `skipped` or `cancelled`.
    state: &'static str,
    /// Who has it, or had it last.
    agent: Option<String>,
    /// Everybody who worked on it, in the order of their first attempt.
    agents: Vec<String>,
    depends_on: Vec<String>,
    /// The dependencies that are not finished.
    waiting_on: Vec<String>,
    /// Which attempt it is at, from 1.
    attempt: u32,
    attempts: Vec<AttemptInfo>,
    /// The task's alarms with their times: `deadline` (it fails), `accept` (it is offered to another agent), `runtime` (the
    /// attempt ends), `retry_backoff` (the next attempt starts), `reroute` (agents that did not accept are asked again).
    clocks: BTreeMap<&'static str, String>,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was finished.
    #[schema(format = DateTime)]
    completed_at: Option<String>,
    /// From its creation until somebody took it up; null while it waits.
    queued_ms: Option<i64>,
    /// How long the attempts took that have ended.
    working_ms: i64,
    outcome: Option<String>,
    /// Why it is paused, failed or cancelled, or was given back.
    reason: Option<String>,
    /// How many messages are about it.
    message_count: u32,
    /// Whether there are more than were counted.
    message_count_is_partial: bool,
    #[schema(no_recursion)]
    children: Vec<TaskInfo>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct AttemptInfo {
    /// Which attempt of the task: a retry is the next one, another agent in the same is not.
    attempt: u32,
    agent: String,
    #[schema(format = DateTime)]
    started_at: String,
    /// Null while it goes on.
    #[schema(format = DateTime)]
    ended_at: Option<String>,
    duration_ms: Option<i64>,
    /// `completed`, `failed`, `timed_out`, `not_accepted`, `released`, `handed_over`, `reopened`, `cancelled` or `skipped`.
    outcome: Option<&'static str>,
    /// Why it did not end well, if somebody said so.
    error: Option<String>,
}

/// Every run that has tasks, newest first.
#[utoipa::path(get, path = "/clutch/v0/runs", tag = "clutch", operation_id = "clutch_runs", params(NextQuery),
    responses((status = 200, body = Runs)))]
pub async fn list(State(app): State<App>, call: Call, query: Query<NextQuery>) -> Result<Response, ClutchError> {
    call.reader().await?;
    let limit = filter::page(query.0.limit.as_deref())?;
    let found = app.engine().runs().list(cursor(&query.0)?, limit).await?;
    Ok(answer::at(found.map(Runs::from)))
}

/// A run as a tree of its tasks: a page of them, oldest first, 100 if `limit` is left out. A task whose parent is on an earlier page
/// stands at the top, with its `parent_task_id`; go on with `after` until `next` is null for the whole tree.
#[utoipa::path(get, path = "/clutch/v0/runs/{id}", tag = "clutch", operation_id = "clutch_run",
    params(("id" = String, Path), NextQuery),
    responses((status = 200, body = RunDetail), (status = 404, body = ClutchErrorBody)))]
pub async fn tree(
    State(app): State<App>,
    call: Call,
    Segment(id): Segment,
    query: Query<NextQuery>,
) -> Result<Response, ClutchError> {
    call.reader().await?;
    let id = filter::run(&id)?;
    let limit = filter::page(query.0.limit.as_deref())?;
    let after = cursor(&query.0)?.unwrap_or(Seq::ZERO);
    let found = app.engine().runs().tree(&id, after, limit).await?;
    Ok(answer::at(found.map(RunDetail::from)))
}

fn cursor(query: &NextQuery) -> Result<Option<Seq>, ClutchError> {
    let Some(text) = &query.after else { return Ok(None) };
    match text.parse() {
        Ok(seq) => Ok(Some(Seq(seq))),
        Err(_) => Err(ClutchError::parameter("after", "must be the 'next' of the page before")),
    }
}

impl From<RunList> for Runs {
    fn from(list: RunList) -> Runs {
        Runs { runs: list.runs.into_iter().map(RunInfo::from).collect(), next: list.next.map(|seq| seq.0) }
    }
}

impl From<RunEntry> for RunInfo {
    fn from(run: RunEntry) -> RunInfo {
        RunInfo {
            run_id: run.id.to_string(),
            title: run.title,
            status: run.status.as_str(),
            task_count: run.tasks.map(|(all, _)| all),
            unfinished_count: run.tasks.map(|(_, unfinished)| unfinished),
            created_at: time::iso(run.created_at),
            updated_at: time::iso(run.updated_at),
        }
    }
}

impl From<RunTree> for RunDetail {
    fn from(tree: RunTree) -> RunDetail {
        RunDetail {
            run: tree.run.into(),
            tasks: tree.roots.into_iter().map(TaskInfo::from).collect(),
            next: tree.next.map(|seq| seq.0),
        }
    }
}

impl From<TaskNode> for TaskInfo {
    fn from(node: TaskNode) -> TaskInfo {
        let (queued_ms, working_ms) = (node.queued_millis(), node.working_millis());
        let task = node.task;
        let mut agents: Vec<String> = Vec::new();
        for agent in node.attempts.iter().map(|attempt| address(&attempt.agent)) {
            if !agents.contains(&agent) {
                agents.push(agent);
            }
        }
        TaskInfo {
            task_id: task.id.to_string(),
            parent_task_id: node.parent.map(|parent| parent.to_string()),
            agent: task.assignee().map(address),
            title: task.title,
            state: task.state.as_str(),
            agents,
            depends_on: task.depends_on.iter().map(ToString::to_string).collect(),
            waiting_on: task.waiting_on.iter().map(ToString::to_string).collect(),
            attempt: task.attempt,
            attempts: node.attempts.into_iter().map(AttemptInfo::from).collect(),
            clocks: task
                .clocks
                .iter()
                .filter(|(clock, _)| *clock != AlarmKind::Unblock)
                .map(|(clock, alarm)| (clock.as_str(), time::iso(alarm.due)))
                .collect(),
            created_at: time::iso(task.created_at),
            completed_at: task.completed_at.map(time::iso),
            queued_ms,
            working_ms,
            outcome: task.outcome,
            reason: task.reason,
            message_count: node.messages,
            message_count_is_partial: node.messages >= MESSAGES,
            children: node.children.into_iter().map(TaskInfo::from).collect(),
        }
    }
}

impl From<TaskAttempt> for AttemptInfo {
    fn from(attempt: TaskAttempt) -> AttemptInfo {
        let ended = attempt.ended.as_ref();
        AttemptInfo {
            attempt: attempt.number,
            agent: address(&attempt.agent),
            started_at: time::iso(attempt.started_at),
            ended_at: ended.map(|(at, _): &(Timestamp, _)| time::iso(*at)),
            duration_ms: attempt.millis(),
            outcome: ended.map(|(_, ending)| ending.as_str()),
            error: ended.and_then(|(_, ending)| ending.error()).map(str::to_owned),
        }
    }
}

fn address(agent: &rookery_core::AgentId) -> String {
    format!("agent:{agent}")
}
