//! Workflow files of the project, and starting one without a terminal. For people.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rookery_core::kernel::instance::Instance;
use rookery_core::model::team::not_found;
use rookery_core::teams::TeamStartFailed;
use rookery_core::{AnyEvent, Code, Rejection, TeamId};
use rookery_engine::teams::TEAM_START_TIMEOUT;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::teams;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{Call, JsonBody, MaybeBody, Segment};

#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowFiles {
    /// By their paths.
    pub files: Vec<WorkflowFileView>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowFileView {
    /// Relative to the project.
    #[schema(example = "review.yaml")]
    pub path: String,
    /// What the file calls itself.
    pub name: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TeamStartRequest {
    /// The workflow file, relative to the project.
    #[schema(example = "review.yaml")]
    pub file: String,
    /// Values for its parameters, as on a command line: `["--depth", "2"]`.
    #[serde(default)]
    pub params: Vec<String>,
}

/// What a file would do.
#[derive(Debug, Serialize, ToSchema)]
pub struct TeamFileCheck {
    /// It can be started.
    pub ok: bool,
    /// What would happen, as `rookery check --json` tells it.
    pub plan: Option<Value>,
    /// Everything that is wrong with the file, each with its line and column.
    pub faults: Option<Value>,
    /// In one sentence why it cannot be started.
    pub reason: Option<String>,
}

/// A team that is being started still.
#[derive(Debug, Serialize, ToSchema)]
pub struct PendingTeamStart {
    pub team: String,
    /// What to look for in the log: its end is `x.team.spawned` or `x.team.start_failed`. None if the same was asked for before.
    pub pending: Option<String>,
}

/// The workflow files of the project.
#[utoipa::path(get, path = "/team-files", operation_id = "list_team_files", tag = "teams",
    responses((status = 200, body = WorkflowFiles)))]
pub async fn files(call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    let found = call.app().engine().teams().starter()?.files().await;
    let files = found.into_iter().map(|file| WorkflowFileView { path: file.path, name: file.name }).collect();
    Ok(axum::Json(WorkflowFiles { files }).into_response())
}

/// What starting a file as this team would do, or what is wrong with it. Nothing happens. For people.
#[utoipa::path(post, path = "/teams/{id}/dry-run", operation_id = "dry_run_team_file", tag = "teams",
    params(("id" = String, Path)), request_body = TeamStartRequest, responses((status = 200, body = TeamFileCheck)))]
pub async fn check(call: Call, Segment(id): Segment, body: JsonBody<TeamStartRequest>) -> Result<Response, HttpError> {
    call.person()?;
    let (instance, engine) = (instance(&id)?, call.app().engine());
    let start = engine.teams().start_spec(&body.value.file, body.value.params)?;
    let checked = match engine.teams().starter()?.check(instance, start).await {
        Ok(plan) => TeamFileCheck { ok: true, plan: Some(plan), faults: None, reason: None },
        Err(refusing) => {
            TeamFileCheck { ok: false, plan: None, faults: refusing.faults, reason: Some(refusing.reason) }
        }
    };
    Ok(axum::Json(checked).into_response())
}

/// Start a workflow file in the background, as `rookery start FILE --background` does. For people.
#[utoipa::path(post, path = "/teams/{id}/start-request", operation_id = "request_team_start", tag = "teams",
    params(("id" = String, Path)), request_body = TeamStartRequest,
    responses((status = 200, body = teams::TeamView), (status = 202, body = PendingTeamStart)))]
pub async fn request_start(
    call: Call,
    Segment(id): Segment,
    body: JsonBody<TeamStartRequest>,
) -> Result<Response, HttpError> {
    let caller = call.person()?;
    instance(&id)?;
    let (team, engine) = (TeamId::parse(&id)?, call.app().engine());
    let command = engine.teams().prepare_start(team.clone(), &body.value.file, body.value.params)?;
    let intent = command.intent.clone();
    let committed = call.submit(caller, command, &body.bytes).await?;
    // What an earlier request with the same key asked for may still be under way: it is told by the log.
    let outcome = match committed.duplicate {
        true => None,
        false => engine.workspaces().wait_for_outcome(&intent, committed.at, TEAM_START_TIMEOUT).await,
    };
    let failed = outcome.as_ref().and_then(AnyEvent::get::<TeamStartFailed>);
    if let Some(failed) = failed {
        return Err(Rejection::new(Code::InvalidState, failed.reason.clone())
            .hint("'rookery check FILE' tells what a file would do")
            .into());
    }
    match outcome {
        Some(_) => teams::shown_now(&call, &team).await,
        None => {
            let pending = (!committed.duplicate).then(|| intent.to_string());
            let pending_start = PendingTeamStart { team: team.to_string(), pending };
            Ok(answer::written(StatusCode::ACCEPTED, &committed, pending_start))
        }
    }
}

/// End a team whose runner is gone (`lost`), as `rookery stop` does, with what that one left behind put in order. For people.
#[utoipa::path(post, path = "/teams/{id}/force-end", operation_id = "force_end_team", tag = "teams",
    params(("id" = String, Path)), responses((status = 200, body = teams::TeamView)))]
pub async fn force_end(
    call: Call,
    Segment(id): Segment,
    _body: MaybeBody<Option<Value>>,
) -> Result<Response, HttpError> {
    call.person()?;
    let (team, engine) = (TeamId::parse(&id)?, call.app().engine());
    let team_starter = engine.teams().starter()?;
    let found = engine.query().team(&team).await?.value.ok_or_else(|| not_found(&team))?;
    if !team_starter.is_lost(&found) {
        let refusal = Rejection::new(Code::InvalidState, format!("{team} has a runner, or is over"));
        return Err(refusal.hint("ask it to stop: POST /teams/{id}/stop").into());
    }
    team_starter
        .force_end(team.clone())
        .await
        .map_err(|refusing| Rejection::new(Code::InvalidState, refusing.reason))?;
    teams::shown_now(&call, &team).await
}

/// A file makes the team of an instance.
fn instance(id: &str) -> Result<Instance, Rejection> {
    let team = TeamId::parse(id)?;
    match team.alone() {
        None => Ok(team.instance()),
        Some(_) => Err(Rejection::new(Code::Invalid, "a workflow file makes the team of an instance, such as '@pr-1'")),
    }
}
