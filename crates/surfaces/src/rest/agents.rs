//! Agents: announcing, heartbeats, status, leaving.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rookery_core::agents::{CurrentTask, LeaveTeam, PauseAgent, RegisterAgent, ResumeAgent, SetAgentStatus};
use rookery_core::model::agent::{Agent, Profile, StatedRole};
use rookery_core::{AgentId, Code, Seq};
use rookery_engine::{At, Committed};

use super::translate;
use super::wire;
use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::answer::Done;
use crate::http::answer_writer::AnswerWriter;
use crate::http::extract::{self, Call, JsonBody, MaybeBody, Query, Segment};
use crate::http::paging;
use crate::http::shared_answers;
use crate::http::shared_body::{self, AnswerPart, AnswerVersion, NextChunk};

/// Register an agent, or update one and bring it back.
#[utoipa::path(post, path = "/agents/announce", tag = "agents", request_body = wire::AnnounceRequest,
    responses((status = 201, body = wire::Agent)))]
pub async fn announce(call: Call, body: JsonBody<wire::AnnounceRequest>) -> Result<Response, HttpError> {
    let [id, tool] = extract::need("id and tool are required", [&body.value.id, &body.value.tool])?;
    let caller = call.caller(Some(&id))?;
    let request = body.value;
    let capabilities = match request.capabilities {
        Some(said) => said,
        None => call
            .app()
            .engine()
            .query()
            .declared_capabilities(&AgentId::from(id.as_str()))
            .await?
            .unwrap_or_else(|| vec!["code".to_owned()]),
    };
    let StatedRole { role, name: role_name } = translate::role(request.role.as_deref().unwrap_or("worker"));
    let profile = Profile {
        tool,
        role,
        capabilities,
        name: request.name,
        workspace_path: request.workspace_path,
        metadata: request.metadata.unwrap_or_default(),
        card: None,
        role_name,
        session_id: None,
    };
    let command = RegisterAgent::with_profile(AgentId::from(id.as_str()), profile);
    let committed = call.submit(caller, command, &body.bytes).await?;
    let (agent, committed) = committed.into_parts();
    let presence = call.app().engine().board().get(&agent.id);
    Ok(answer::written(StatusCode::CREATED, &committed, translate::agent(agent, presence)))
}

/// Show a sign of life.
#[utoipa::path(post, path = "/agents/{id}/heartbeat", tag = "agents", params(("id" = String, Path)),
    request_body = wire::HeartbeatRequest, responses((status = 200, body = Done)))]
pub async fn heartbeat(
    call: Call,
    Segment(id): Segment,
    body: MaybeBody<Option<wire::HeartbeatRequest>>,
) -> Result<axum::Json<Done>, HttpError> {
    let caller = call.caller(Some(&id))?;
    let agent = AgentId::from(id.as_str());
    let session = body.value.and_then(|body| body.session_id);
    call.app().engine().liveness().heartbeat_of_session(&caller, &agent, session).await?;
    Ok(axum::Json(Done { ok: true }))
}

/// Say what the agent is doing.
#[utoipa::path(patch, path = "/agents/{id}/status", tag = "agents", params(("id" = String, Path)),
    request_body = wire::StatusChange, responses((status = 200, body = Done)))]
pub async fn set_status(
    call: Call,
    Segment(id): Segment,
    body: JsonBody<wire::StatusChange>,
) -> Result<Response, HttpError> {
    let status = body.value.status.ok_or_else(|| HttpError::invalid("status is required"))?;
    let command = SetAgentStatus {
        agent: AgentId::from(id.as_str()),
        status: translate::agent_status(status),
        current_task: CurrentTask::named(body.value.current_task.as_deref()),
    };
    let committed = call.submit(call.caller(Some(&id))?, command, &body.bytes).await?;
    Ok(answer::written(StatusCode::OK, &committed, Done { ok: true }))
}

/// Give the agent nothing new to do: it finishes what it has, takes no task and is not woken. For the lead and people.
#[utoipa::path(post, path = "/agents/{id}/pause", tag = "agents", params(("id" = String, Path)),
    request_body = wire::PauseRequest, responses((status = 200, body = wire::Agent)))]
pub async fn pause(
    call: Call,
    Segment(id): Segment,
    body: MaybeBody<wire::PauseRequest>,
) -> Result<Response, HttpError> {
    let command = PauseAgent { agent: AgentId::from(id.as_str()), reason: body.value.reason };
    Ok(respond(&call, call.submit(call.caller(None)?, command, &body.bytes).await?))
}

/// Let the agent go on. For the lead and people.
#[utoipa::path(post, path = "/agents/{id}/resume", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = wire::Agent)))]
pub async fn resume(
    call: Call,
    Segment(id): Segment,
    body: MaybeBody<Option<serde_json::Value>>,
) -> Result<Response, HttpError> {
    let command = ResumeAgent { agent: AgentId::from(id.as_str()) };
    Ok(respond(&call, call.submit(call.caller(None)?, command, &body.bytes).await?))
}

fn respond(call: &Call, committed: Committed<Agent>) -> Response {
    let (agent, committed) = committed.into_parts();
    answer::written(StatusCode::OK, &committed, shown(call.app(), agent))
}

/// Take the agent out of the team; everything it holds is freed. One that is not in it is out of it already.
#[utoipa::path(delete, path = "/agents/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = Done)))]
pub async fn leave(
    call: Call,
    Segment(id): Segment,
    body: MaybeBody<Option<serde_json::Value>>,
) -> Result<Response, HttpError> {
    let command = LeaveTeam { agent: AgentId::from(id.as_str()) };
    match call.submit(call.caller(Some(&id))?, command, &body.bytes).await {
        Ok(committed) => Ok(answer::written(StatusCode::OK, &committed, Done { ok: true })),
        Err(error) if error.code() == Code::AgentNotFound => Ok(axum::Json(Done { ok: true }).into_response()),
        Err(error) => Err(error),
    }
}

/// Agents that have not left, in the order they joined: all, or pages by `limit` and `after`.
#[utoipa::path(get, path = "/agents", tag = "agents", params(wire::AgentListQuery),
    responses((status = 200, body = Vec<wire::Agent>)))]
pub async fn list(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    query: Query<wire::AgentListQuery>,
) -> Result<Response, HttpError> {
    call.reader().await?;
    let wire::AgentListQuery { limit, after } = query.0;
    paging::ensure_limit(limit)?;
    if limit.is_some() || after.is_some() {
        let found = app.engine().query().agents().await?;
        let joined = match after.as_deref().map(AgentId::from) {
            None => None,
            Some(id) => Some(find_join_position(&app, &id).await?),
        };
        let page = |agents: Vec<Agent>| {
            let later = agents.into_iter().filter(|agent| joined.is_none_or(|joined| agent.joined > joined));
            later
                .take(limit.map_or(usize::MAX, |limit| limit as usize))
                .map(|agent| shown(&app, agent))
                .collect::<Vec<_>>()
        };
        return Ok(answer::at(found.map(page)));
    }
    let head = app.engine().query().head().await?;
    if let Some(response) = shared_body::not_modified(&headers, &head) {
        return Ok(response);
    }
    let read = async || {
        let At { value: agents, head } = app.engine().query().agents().await?;
        Ok(AnswerVersion::new(head, agents, AnswerWriter::default()))
    };
    let version = shared_answers::version_for(&app, "/agents", &head, read).await?;
    let agents = render(&app, version.part.clone(), "[", "]");
    Ok(version.respond(&headers, Some(agents)))
}

/// When an agent joined, whether or not it has left since.
async fn find_join_position(app: &App, id: &AgentId) -> Result<Seq, HttpError> {
    let known = app.engine().query().agent(id).await?.value;
    let missing = || HttpError::invalid(format!("after: {id} is not an agent known here"));
    Ok(known.ok_or_else(missing)?.joined)
}

/// Renders agents with their newest heartbeats.
pub fn render(app: &App, part: Arc<AnswerPart>, before: &'static str, after: &'static str) -> NextChunk {
    let app = app.clone();
    let values = (0..).map_while(move |index| Some(shown(&app, part.agent(index)?)));
    shared_body::render_lazily(before, after, values)
}

/// One agent of the team; with `?include=left` also one that has left.
#[utoipa::path(get, path = "/agents/{id}", tag = "agents", params(("id" = String, Path), wire::AgentQuery),
    responses((status = 200, body = wire::Agent)))]
pub async fn get(
    State(app): State<App>,
    call: Call,
    Segment(id): Segment,
    query: Query<wire::AgentQuery>,
) -> Result<Response, HttpError> {
    call.reader().await?;
    let left_too = query.0.include == Some(wire::Included::Left);
    let found = app.engine().query().agent(&AgentId::from(id.as_str())).await?;
    let found = found.map(|agent| agent.filter(|agent| left_too || !agent.has_left()));
    Ok(answer::at_or(found.map(|agent| agent.map(|agent| shown(&app, agent))), Code::AgentNotFound, "Agent not found"))
}

/// An agent may be called `announce`.
pub async fn named_announce(
    app: State<App>,
    call: Call,
    query: Query<wire::AgentQuery>,
) -> Result<Response, HttpError> {
    get(app, call, Segment("announce".to_owned()), query).await
}

pub async fn leave_announce(call: Call, body: MaybeBody<Option<serde_json::Value>>) -> Result<Response, HttpError> {
    leave(call, Segment("announce".to_owned()), body).await
}

pub fn shown(app: &App, agent: rookery_core::model::agent::Agent) -> wire::Agent {
    let presence = app.engine().board().get(&agent.id);
    translate::agent(agent, presence)
}
