//! Tasks: creating, moving along, listing, and a person's hand on them.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use rookery_core::kernel::limit;
use rookery_core::model::task::{Outcome, Task, TaskState};
use rookery_core::tasks::{
    AssignTask, CancelTask, CancelTo, ClaimTask, CompleteTask, CreateTask, FailTask, FailureRetry, HeldByOther,
    IfFailed, IfUnclaimed, ReleaseTask, Required, RetryTask, SetTaskStep, StartTask,
};
use rookery_core::{AgentId, Code, Row, RunId, TaskId};
use rookery_engine::query::TaskFilter;
use rookery_engine::{Committed, Request};

use super::translate;
use super::wire::{self, RequestedStatus};
use crate::http::answer::Done;
use crate::http::extract::{self, Call, JsonBody, MaybeBody, Query, Segment};
use crate::http::{App, HttpError, answer, paging, shared_answers};

/// Create a task; one with `assigned_to` is kept for that agent.
#[utoipa::path(post, path = "/tasks", tag = "tasks", request_body = wire::NewTask,
    responses((status = 201, body = wire::Task)))]
pub async fn create(call: Call, body: JsonBody<wire::NewTask>) -> Result<Response, HttpError> {
    let request = body.value;
    let [title, assigned_by] =
        extract::need("title and assigned_by are required", [&request.title, &request.assigned_by])?;
    let caller = call.caller(Some(&assigned_by))?;
    let command = CreateTask {
        id: call.app().engine().mint_task(),
        run: RunId::project_default(),
        title,
        description: request.description.unwrap_or_default(),
        assigned_by,
        assigned_to: request.assigned_to.as_deref().filter(|agent| !agent.is_empty()).map(AgentId::from),
        resources: normalised(call.app(), request.resources.unwrap_or_default()).await?,
        depends_on: request.depends_on.unwrap_or_default().iter().map(|id| TaskId::from(id.as_str())).collect(),
    };
    Ok(respond(StatusCode::CREATED, &call.submit(caller, command, &body.bytes).await?))
}

/// The paths a task is about, in the form that claims have.
async fn normalised(app: &App, resources: Vec<String>) -> Result<Vec<String>, HttpError> {
    let mut paths = Vec::with_capacity(resources.len());
    for raw in resources.iter().take(limit::LIST_ENTRIES + 1) {
        paths.push(app.engine().paths().resolve(raw).await?.to_string());
    }
    Ok(paths)
}

/// Move a task: `queued` gives it back, `assigned` claims it, `in_progress` starts it, `blocked` pauses it,
/// `done` and `failed` end it.
#[utoipa::path(patch, path = "/tasks/{id}", tag = "tasks", params(("id" = String, Path)),
    request_body = wire::TaskChange, responses((status = 200, body = Done)))]
pub async fn update(call: Call, Segment(id): Segment, body: JsonBody<wire::TaskChange>) -> Result<Response, HttpError> {
    let request = body.value;
    let (Some(status), Some(agent_id)) = (request.status, request.agent_id.filter(|agent| !agent.is_empty())) else {
        return Err(HttpError::invalid("status and agent_id are required"));
    };
    let (task, agent) = (TaskId::from(id.as_str()), AgentId::from(agent_id.as_str()));
    let named = Some(agent.clone());
    let caller = call.caller(Some(&agent_id))?;
    let request = match status {
        RequestedStatus::Queued => {
            let (if_unclaimed, if_failed) = (IfUnclaimed::Succeed, IfFailed::Retry);
            Request::new(caller, ReleaseTask { task, agent: named, reason: request.reason, if_unclaimed, if_failed })
        }
        RequestedStatus::Assigned => Request::new(caller, ClaimTask { task, agent }),
        RequestedStatus::InProgress => {
            Request::new(caller, StartTask { task, agent: named, held_by_other: HeldByOther::KeepHolder })
        }
        RequestedStatus::Review => Request::new(caller, step(task, named, TaskState::Review, None)),
        RequestedStatus::Blocked => Request::new(caller, step(task, named, TaskState::Paused, request.reason)),
        RequestedStatus::Done => {
            let outcome = Outcome { text: request.outcome, detail: request.outcome_detail };
            let (outcome_required, contract) = (Required::No, None);
            Request::new(caller, CompleteTask { task, agent: named, outcome, outcome_required, contract })
        }
        RequestedStatus::Failed => {
            let (error, error_required, retry) = (request.reason, Required::No, FailureRetry::Never);
            Request::new(caller, FailTask { task, agent: named, error, error_required, retry })
        }
    };
    let committed = call.submit_request(request, &body.bytes).await?;
    Ok(answer::written_task(StatusCode::OK, &committed, Done { ok: true }))
}

fn step(task: TaskId, agent: Option<AgentId>, to: TaskState, reason: Option<String>) -> SetTaskStep {
    SetTaskStep { task, agent, to, reason, waiting_for: None }
}

/// Decide who shall do a task, whoever has it now. For the lead and people.
#[utoipa::path(post, path = "/tasks/{id}/assign", tag = "tasks", params(("id" = String, Path)),
    request_body = wire::AssignRequest, responses((status = 200, body = wire::Task)))]
pub async fn assign(
    call: Call,
    Segment(id): Segment,
    body: JsonBody<wire::AssignRequest>,
) -> Result<Response, HttpError> {
    let [agent] = extract::need("agent_id is required", [&body.value.agent_id])?;
    let command = AssignTask { task: TaskId::from(id.as_str()), to: AgentId::from(agent.as_str()) };
    Ok(respond(StatusCode::OK, &call.submit(call.caller(None)?, command, &body.bytes).await?))
}

/// Try a failed task again.
#[utoipa::path(post, path = "/tasks/{id}/retry", tag = "tasks", params(("id" = String, Path)),
    responses((status = 200, body = wire::Task)))]
pub async fn retry(
    call: Call,
    Segment(id): Segment,
    body: MaybeBody<Option<serde_json::Value>>,
) -> Result<Response, HttpError> {
    let command = RetryTask { task: TaskId::from(id.as_str()), agent: None };
    Ok(respond(StatusCode::OK, &call.submit(call.caller(None)?, command, &body.bytes).await?))
}

/// Cancel a task that is not finished.
#[utoipa::path(post, path = "/tasks/{id}/cancel", tag = "tasks", params(("id" = String, Path)),
    request_body = Option<wire::CancelRequest>, responses((status = 200, body = wire::Task)))]
pub async fn cancel(
    call: Call,
    Segment(id): Segment,
    body: MaybeBody<wire::CancelRequest>,
) -> Result<Response, HttpError> {
    let (task, reason, to) = (TaskId::from(id.as_str()), body.value.reason, CancelTo::Cancelled);
    let command = CancelTask { task, agent: None, reason, to };
    Ok(respond(StatusCode::OK, &call.submit(call.caller(None)?, command, &body.bytes).await?))
}

fn respond(status: StatusCode, committed: &Committed<Task>) -> Response {
    answer::written_task(status, committed, translate::task(committed.reply.clone()))
}

/// Tasks in the order they were created: all, or pages by `limit` and `after`.
#[utoipa::path(get, path = "/tasks", tag = "tasks", params(wire::TaskQuery),
    responses((status = 200, body = Vec<wire::Task>)))]
pub async fn list(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    query: Query<wire::TaskQuery>,
) -> Result<Response, HttpError> {
    call.reader().await?;
    let query = query.0;
    paging::ensure_limit(query.limit)?;
    let after = match &query.after {
        None => None,
        Some(id) => match app.engine().query().task(&TaskId::from(id.as_str())).await?.value {
            Some(task) => Some(task.created),
            None => return Err(HttpError::invalid(format!("after: {id} is not a task known here"))),
        },
    };
    let filter = TaskFilter {
        any_of: query.status.map(translate::shapes).unwrap_or_default(),
        assignee: query.assigned_to.as_deref().map(AgentId::from),
        after,
        limit: query.limit,
    };
    let tasks = app.engine().query();
    if paging::is_small(filter.limit) {
        let found = tasks.tasks(&filter).await?;
        return Ok(answer::at(found.map(|tasks| tasks.into_iter().map(translate::task).collect::<Vec<_>>())));
    }
    let entry = |row| if let Row::Task(task) = row { Some(translate::task(task)) } else { None };
    let read = |visitor| tasks.visit_tasks(&filter, visitor);
    shared_answers::respond_with_list(&app, &headers, &format!("/tasks {filter:?}"), entry, read).await
}

/// One task.
#[utoipa::path(get, path = "/tasks/{id}", tag = "tasks", params(("id" = String, Path)),
    responses((status = 200, body = wire::Task)))]
pub async fn get(State(app): State<App>, call: Call, Segment(id): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    let found = app.engine().query().task(&TaskId::from(id.as_str())).await?;
    Ok(answer::at_or(found.map(|task| task.map(translate::task)), Code::TaskNotFound, "Task not found"))
}
