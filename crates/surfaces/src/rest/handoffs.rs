//! Handoffs: offering a task with what the next agent needs to know, and answering once.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use rookery_core::handoffs::{AcceptHandoff, OfferHandoff, RejectHandoff};
use rookery_core::model::handoff::HandoffNote;
use rookery_core::{AgentId, Code, HandoffId, Row, TaskId};
use rookery_engine::query::HandoffFilter;

use super::{translate, wire};
use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{self, Call, JsonBody, Query, Segment};
use crate::http::{paging, shared_answers};

/// Offer a task to another agent, or to whoever takes it.
#[utoipa::path(post, path = "/handoffs", tag = "handoffs", request_body = wire::NewHandoff,
    responses((status = 201, body = wire::Handoff)))]
pub async fn create(call: Call, body: JsonBody<wire::NewHandoff>) -> Result<Response, HttpError> {
    let request = body.value;
    let [from, task, summary] = extract::need(
        "from_agent, task_id and summary are required",
        [&request.from_agent, &request.task_id, &request.summary],
    )?;
    let command = OfferHandoff {
        id: call.app().engine().mint_handoff(),
        from: AgentId::from(from.as_str()),
        to: request.to_agent.as_deref().filter(|agent| !agent.is_empty()).map(AgentId::from),
        task: TaskId::from(task.as_str()),
        note: HandoffNote {
            summary,
            files_modified: request.files_modified.unwrap_or_default(),
            files_created: request.files_created.unwrap_or_default(),
            context: request.context.unwrap_or_default(),
            blockers: request.blockers.unwrap_or_default(),
        },
    };
    let committed = call.submit(call.caller(Some(&from))?, command, &body.bytes).await?;
    let (handoff, committed) = committed.into_parts();
    Ok(answer::written(StatusCode::CREATED, &committed, translate::handoff(handoff)))
}

/// Accept: the task, its claim and its file claims become the agent's in one step.
#[utoipa::path(patch, path = "/handoffs/{id}/accept", tag = "handoffs", params(("id" = String, Path)),
    request_body = wire::HandoffAnswer, responses((status = 200, body = wire::Accepted)))]
pub async fn accept(
    call: Call,
    Segment(id): Segment,
    body: JsonBody<wire::HandoffAnswer>,
) -> Result<Response, HttpError> {
    let [agent] = extract::need("agent_id is required", [&body.value.agent_id])?;
    let command = AcceptHandoff { handoff: HandoffId::from(id.as_str()), agent: AgentId::from(agent.as_str()) };
    let committed = call.submit(call.caller(Some(&agent))?, command, &body.bytes).await?;
    Ok(answer::written_task(StatusCode::OK, &committed, wire::Accepted { accepted: true }))
}

/// Reject, with a reason if there is one.
#[utoipa::path(patch, path = "/handoffs/{id}/reject", tag = "handoffs", params(("id" = String, Path)),
    request_body = wire::HandoffAnswer, responses((status = 200, body = wire::Rejected)))]
pub async fn reject(
    call: Call,
    Segment(id): Segment,
    body: JsonBody<wire::HandoffAnswer>,
) -> Result<Response, HttpError> {
    let [agent] = extract::need("agent_id is required", [&body.value.agent_id])?;
    let command = RejectHandoff {
        handoff: HandoffId::from(id.as_str()),
        agent: AgentId::from(agent.as_str()),
        reason: body.value.reason.unwrap_or_default(),
    };
    let committed = call.submit(call.caller(Some(&agent))?, command, &body.bytes).await?;
    Ok(answer::written(StatusCode::OK, &committed, wire::Rejected { rejected: true }))
}

/// Handoffs in the order they were offered: all, or pages by `limit` and `after`.
#[utoipa::path(get, path = "/handoffs", tag = "handoffs", params(wire::HandoffQuery),
    responses((status = 200, body = Vec<wire::Handoff>)))]
pub async fn list(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    query: Query<wire::HandoffQuery>,
) -> Result<Response, HttpError> {
    call.reader().await?;
    let wire::HandoffQuery { status, to_agent, limit, after } = query.0;
    paging::ensure_limit(limit)?;
    let status = status.map(|status| match status {
        wire::HandoffStatus::Pending => "pending",
        wire::HandoffStatus::Accepted => "accepted",
        wire::HandoffStatus::Rejected => "rejected",
    });
    let after = match after.as_deref().map(HandoffId::from) {
        None => None,
        Some(id) => match app.engine().query().handoff(&id).await?.value {
            Some(handoff) => Some(handoff.created),
            None => return Err(HttpError::invalid(format!("after: {id} is not a handoff known here"))),
        },
    };
    let filter = HandoffFilter { status, to: to_agent.as_deref().map(AgentId::from), after, limit };
    let handoffs = app.engine().query();
    if paging::is_small(filter.limit) {
        let found = handoffs.handoffs(&filter).await?;
        return Ok(answer::at(found.map(|page| page.into_iter().map(translate::handoff).collect::<Vec<_>>())));
    }
    let entry = |row| if let Row::Handoff(handoff) = row { Some(translate::handoff(handoff)) } else { None };
    let read = |visitor| handoffs.visit_handoffs(&filter, visitor);
    shared_answers::respond_with_list(&app, &headers, &format!("/handoffs {filter:?}"), entry, read).await
}

/// One handoff.
#[utoipa::path(get, path = "/handoffs/{id}", tag = "handoffs", params(("id" = String, Path)),
    responses((status = 200, body = wire::Handoff)))]
pub async fn get(State(app): State<App>, call: Call, Segment(id): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    let found = app.engine().query().handoff(&HandoffId::from(id.as_str())).await?;
    Ok(answer::at_or(found.map(|handoff| handoff.map(translate::handoff)), Code::HandoffNotFound, "Handoff not found"))
}
