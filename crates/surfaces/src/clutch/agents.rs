//! The registry: cards of agents, whichever face they joined by.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use rookery_core::agents::{EndpointGrant, LeaveTeam, RegisterAgent};
use rookery_core::clutch::Heartbeat;
use rookery_core::model::agent::Agent;
use rookery_core::model::capabilities::Card;
use rookery_core::{Code, Rejection};
use rookery_engine::At;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::IntoParams;

use super::call::{Call, Json, MaybeBody, NamedAgent, Query};
use super::openapi::LifeSign;
use super::wire::{AgentCard, AgentCards, Beaten};
use super::{ClutchError, ClutchErrorBody};
use crate::http::App;
use crate::http::answer;
use crate::http::answer::Done;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RegisterQuery {
    /// Allow messages to be posted to the host and port of the card's `endpoints.clutch`, also on this machine and in private
    /// networks. Only people may; it holds until the agent leaves.
    #[serde(default)]
    pub allow_endpoint: bool,
}

/// Register an agent by its card, or replace the card and bring the agent back.
#[utoipa::path(put, path = "/clutch/v0/agents/{id}", tag = "clutch", operation_id = "clutch_register",
    params(("id" = String, Path), RegisterQuery), request_body = AgentCard, responses((status = 200, body = AgentCard)))]
pub async fn register(
    call: Call,
    NamedAgent(id): NamedAgent,
    Query(query): Query<RegisterQuery>,
    Json(body): Json,
) -> Result<Response, ClutchError> {
    let card = Card::parse(&body)?;
    if card.agent_id != id {
        let told = format!("names 'agent:{}', and the address 'agent:{id}'", card.agent_id);
        return Err(ClutchError::invalid("/agent_id", told));
    }
    let caller = call.caller(&id)?;
    call.app().engine().intake().check_card(&caller, &card).await?;
    let endpoint = if query.allow_endpoint { EndpointGrant::ByPerson } else { EndpointGrant::Unchanged };
    let committed = call.submit(caller, RegisterAgent::with_card(card, endpoint), &body).await?;
    Ok(answer::written(StatusCode::OK, &committed, shown(&committed.reply)))
}

/// The cards of all agents that have not left.
#[utoipa::path(get, path = "/clutch/v0/agents", tag = "clutch", operation_id = "clutch_agents",
    responses((status = 200, body = AgentCards)))]
pub async fn list(State(app): State<App>, call: Call) -> Result<Response, ClutchError> {
    call.reader().await?;
    let found = app.engine().query().agents().await?;
    Ok(answer::at(found.map(|agents| AgentCards { agents: agents.iter().map(shown).collect() })))
}

/// One agent's card; also that of one that has left.
#[utoipa::path(get, path = "/clutch/v0/agents/{id}", tag = "clutch", operation_id = "clutch_agent",
    params(("id" = String, Path)), responses((status = 200, body = AgentCard), (status = 404, body = ClutchErrorBody)))]
pub async fn get(State(app): State<App>, call: Call, NamedAgent(id): NamedAgent) -> Result<Response, ClutchError> {
    call.reader().await?;
    let found = app.engine().query().agent(&id).await?;
    let card = found.value.as_ref().map(shown);
    let card = card.ok_or_else(|| Rejection::new(Code::AgentNotFound, "Agent not found"))?;
    Ok(answer::at(At { value: card, head: found.head }))
}

/// Take the agent out of the team; everything it holds is freed.
#[utoipa::path(delete, path = "/clutch/v0/agents/{id}", tag = "clutch", operation_id = "clutch_leave",
    params(("id" = String, Path)), responses((status = 200, body = Done)))]
pub async fn leave(call: Call, NamedAgent(id): NamedAgent) -> Result<Response, ClutchError> {
    let caller = call.caller(&id)?;
    let committed = call.submit(caller, LeaveTeam { agent: id }, &Bytes::new()).await?;
    Ok(answer::written(StatusCode::OK, &committed, Done { ok: true }))
}

/// Show a sign of life, and say what the agent does if the body says `status` or `current_task_id`.
#[utoipa::path(post, path = "/clutch/v0/agents/{id}/heartbeat", tag = "clutch", operation_id = "clutch_heartbeat",
    params(("id" = String, Path)), request_body = Option<LifeSign>, responses((status = 200, body = Beaten)))]
pub async fn heartbeat(
    call: Call,
    NamedAgent(id): NamedAgent,
    MaybeBody(said): MaybeBody<Option<Map<String, Value>>>,
) -> Result<axum::Json<Beaten>, ClutchError> {
    let caller = call.caller(&id)?;
    let engine = call.app().engine();
    engine.intake().heartbeat(&caller, &Heartbeat::read(id, &said.unwrap_or_default())).await?;
    let interval = engine.settings().heartbeat_interval.as_millis();
    Ok(axum::Json(Beaten { ok: true, next_heartbeat_ms: u64::try_from(interval).unwrap_or(u64::MAX) }))
}

fn shown(agent: &Agent) -> AgentCard {
    AgentCard::of(agent)
}
