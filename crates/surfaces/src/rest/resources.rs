//! Resources: claims on paths, locks, conflicts.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use rookery_core::files::{ClaimMode, LockFile, ReleaseFile, ResolveConflict, UnlockFile};
use rookery_core::model::file::{File, FileClaimOutcome, FileReleaseOutcome};
use rookery_core::{AgentId, Rejection, Row};
use rookery_engine::Committed;
use rookery_engine::query::{FileFilter, FileSelection};

use super::translate;
use super::wire::{self, ClaimResult, ReleaseResult, ResourceFilter};
use crate::http::extract::{self, Call, JsonBody, Query, Segment};
use crate::http::{App, HttpError, answer, paging, paths, shared_answers};

/// Claim a path before changing it.
#[utoipa::path(post, path = "/resources/claim", tag = "resources", request_body = wire::ClaimRequest,
    responses((status = 200, body = ClaimResult), (status = 409, body = ClaimResult)))]
pub async fn claim(call: Call, body: JsonBody<wire::ClaimRequest>) -> Result<Response, HttpError> {
    let [path, agent] = extract::need("path and agent_id are required", [&body.value.path, &body.value.agent_id])?;
    let insist = if body.value.force == Some(true) { ClaimMode::Force } else { ClaimMode::Request };
    let task = body.value.task_id.as_deref().filter(|task| !task.is_empty()).map(Into::into);
    let command = paths::claim(call.app().engine(), &path, AgentId::from(agent.as_str()), task, insist).await?;
    let committed = call.submit(call.caller(Some(&agent))?, command, &body.bytes).await?;
    let (outcome, committed) = committed.into_parts();
    let (status, result) = match outcome {
        FileClaimOutcome::Granted => (StatusCode::OK, ClaimResult::grant(None)),
        FileClaimOutcome::GrantedWithoutTask { task } => (StatusCode::OK, ClaimResult::grant(Some(&task))),
        FileClaimOutcome::Refused { owner, reason } => {
            let owner = owner.map(|owner| owner.to_string());
            (StatusCode::CONFLICT, ClaimResult { granted: false, note: None, owner, reason: Some(reason) })
        }
    };
    Ok(answer::written(status, &committed, result))
}

/// Give a path back.
#[utoipa::path(post, path = "/resources/release", tag = "resources", request_body = wire::ReleaseRequest,
    responses((status = 200, body = ReleaseResult)))]
pub async fn release(call: Call, body: JsonBody<wire::ReleaseRequest>) -> Result<Response, HttpError> {
    let [path, agent] = extract::need("path and agent_id are required", [&body.value.path, &body.value.agent_id])?;
    let path = call.app().engine().paths().resolve(&path).await?;
    let command = ReleaseFile { path, agent: AgentId::from(agent.as_str()) };
    let committed = call.submit(call.caller(Some(&agent))?, command, &body.bytes).await?;
    let (outcome, committed) = committed.into_parts();
    let result = match outcome {
        FileReleaseOutcome::Released => ReleaseResult { released: true, reason: None },
        FileReleaseOutcome::NotReleased { reason } => ReleaseResult { released: false, reason: Some(reason) },
    };
    Ok(answer::written(StatusCode::OK, &committed, result))
}

/// End a conflict: the winner holds the path from now on. For the lead and people.
#[utoipa::path(post, path = "/resources/resolve", tag = "resources", request_body = wire::ResolveRequest,
    responses((status = 200, body = wire::Resource)))]
pub async fn resolve(call: Call, body: JsonBody<wire::ResolveRequest>) -> Result<Response, HttpError> {
    let [path, winner] = extract::need("path and winner are required", [&body.value.path, &body.value.winner])?;
    let path = call.app().engine().paths().resolve(&path).await?;
    let command = ResolveConflict { path, winner: AgentId::from(winner.as_str()) };
    let committed = call.submit(call.caller(body.value.agent_id.as_deref())?, command, &body.bytes).await?;
    Ok(respond(committed))
}

/// Keep everybody from claiming a path. For the lead and people.
#[utoipa::path(post, path = "/resources/lock", tag = "resources", request_body = wire::LockRequest,
    responses((status = 200, body = wire::Resource)))]
pub async fn lock(call: Call, body: JsonBody<wire::LockRequest>) -> Result<Response, HttpError> {
    let [path] = extract::need("path is required", [&body.value.path])?;
    let command = LockFile { path: call.app().engine().paths().resolve(&path).await? };
    Ok(respond(call.submit(call.caller(body.value.agent_id.as_deref())?, command, &body.bytes).await?))
}

/// Let a locked path be claimed again. For the lead and people.
#[utoipa::path(post, path = "/resources/unlock", tag = "resources", request_body = wire::LockRequest,
    responses((status = 200, body = wire::Resource)))]
pub async fn unlock(call: Call, body: JsonBody<wire::LockRequest>) -> Result<Response, HttpError> {
    let [path] = extract::need("path is required", [&body.value.path])?;
    let command = UnlockFile { path: call.app().engine().paths().resolve(&path).await? };
    Ok(respond(call.submit(call.caller(body.value.agent_id.as_deref())?, command, &body.bytes).await?))
}

fn respond(committed: Committed<File>) -> Response {
    let (file, committed) = committed.into_parts();
    answer::written(StatusCode::OK, &committed, translate::resource(file))
}

/// Every path that was claimed, locked or changed at some time, in the order of paths: all, or pages by `limit` and `after`.
#[utoipa::path(get, path = "/resources", tag = "resources", params(wire::ResourceQuery),
    responses((status = 200, body = Vec<wire::Resource>)))]
pub async fn list(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    query: Query<wire::ResourceQuery>,
) -> Result<Response, HttpError> {
    call.reader().await?;
    let wire::ResourceQuery { filter, limit, after } = query.0;
    paging::ensure_limit(limit)?;
    let state = match filter {
        None => FileSelection::Any,
        Some(ResourceFilter::Claimed) => FileSelection::Claimed,
        Some(ResourceFilter::Conflicted) => FileSelection::Conflicted,
    };
    let after = match after {
        None => None,
        Some(path) => Some(app.engine().paths().resolve(&path).await?.key().to_owned()),
    };
    let filter = FileFilter { state, after, limit };
    let files = app.engine().query();
    if paging::is_small(filter.limit) {
        let found = files.files(&filter).await?;
        return Ok(answer::at(found.map(|files| files.into_iter().map(translate::resource).collect::<Vec<_>>())));
    }
    let entry = |row| if let Row::File(file) = row { Some(translate::resource(file)) } else { None };
    let read = |visitor| files.visit_files(&filter, visitor);
    shared_answers::respond_with_list(&app, &headers, &format!("/resources {filter:?}"), entry, read).await
}

/// One path.
#[utoipa::path(get, path = "/resources/{path}", tag = "resources",
    params(("path" = String, Path, description = "May contain slashes.")),
    responses((status = 200, body = wire::Resource)))]
pub async fn get(State(app): State<App>, call: Call, Segment(path): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    let path = app.engine().paths().resolve(&path).await?;
    let found = app.engine().query().file(path.key()).await?;
    Ok(answer::at_or_else(found.map(|file| file.map(translate::resource)), Rejection::not_tracked()))
}

/// Reads a file that has the name of one of our verbs.
macro_rules! named {
    ($($handler:ident = $name:literal),+ $(,)?) => {$(
        pub async fn $handler(app: State<App>, call: Call) -> Result<Response, HttpError> {
            get(app, call, Segment($name.to_owned())).await
        }
    )+};
}

named! {
    named_claim = "claim",
    named_release = "release",
    named_resolve = "resolve",
    named_lock = "lock",
    named_unlock = "unlock",
}
