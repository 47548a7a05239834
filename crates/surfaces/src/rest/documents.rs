//! Documents of a context, for people: read, compare versions, and write over the version that was read.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rookery_core::documents::{Base, WriteDocument, Writer};
use rookery_core::model::document::{Change, Document, DocumentId, Version};
use rookery_core::model::document_path::DocumentPath;
use rookery_core::{Actor, AgentId, Code, Instance, Rejection};
use rookery_engine::documents::{Changed, DocumentText};
use rookery_engine::{At, Request};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::App;
use crate::http::HttpError;
use crate::http::answer;
use crate::http::extract::{Call, JsonBody, Query, Segment, Segments};

/// A document as it is listed.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentInfo {
    pub path: String,
    pub version: u64,
    pub bytes: u64,
    pub author: String,
    /// Unix epoch milliseconds.
    pub changed_at: i64,
}

/// The text of a document at a version.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentBody {
    pub path: String,
    /// What to write over.
    pub version: u64,
    pub author: String,
    /// Unix epoch milliseconds.
    pub changed_at: i64,
    pub text: String,
}

/// A change of a document.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentChange {
    pub version: u64,
    pub author: String,
    /// Unix epoch milliseconds.
    pub at: i64,
    pub seq: u64,
    /// `created`, `written`, `appended` or `deleted`.
    pub change: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct VersionQuery {
    /// The text as it was then; as it is now if left out.
    pub version: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub struct NewText {
    #[schema(required = true)]
    pub text: Option<String>,
    /// The version that was read; 0 if there was none. Refused with 409 if there is a newer one.
    #[schema(required = true)]
    pub version: Option<u64>,
}

/// The documents of a context, by path.
#[utoipa::path(get, path = "/contexts/{instance}/documents", tag = "contexts", params(("instance" = String, Path)),
    responses((status = 200, body = Vec<DocumentInfo>)))]
pub async fn list(State(app): State<App>, call: Call, Segment(name): Segment) -> Result<Response, HttpError> {
    call.reader().await?;
    let At { value, head } = app.engine().documents().list(&Instance::new(name).run()).await?;
    Ok(answer::at(At { value: value.into_iter().map(listed).collect::<Vec<_>>(), head }))
}

/// The text of a document, now or at an earlier version.
#[utoipa::path(get, path = "/contexts/{instance}/documents/{path}", tag = "contexts",
    params(("instance" = String, Path), ("path" = String, Path), VersionQuery),
    responses((status = 200, body = DocumentBody)))]
pub async fn get(
    State(app): State<App>,
    call: Call,
    Segments(name, path): Segments,
    Query(query): Query<VersionQuery>,
) -> Result<Response, HttpError> {
    call.reader().await?;
    let id = named(&name, &path)?;
    let found = match query.version {
        Some(version) => app.engine().documents().text_at(&id, version).await?,
        None => app.engine().documents().text(&id).await?,
    };
    let head = app.engine().query().tallies().await?.head;
    let missing = format!("document '{path}' has no text there");
    Ok(answer::at_or_else(At { value: found.map(shown), head }, Rejection::new(Code::DocumentNotFound, missing)))
}

/// The changes of a document, newest first.
#[utoipa::path(get, path = "/contexts/{instance}/history/{path}", tag = "contexts",
    params(("instance" = String, Path), ("path" = String, Path)),
    responses((status = 200, body = Vec<DocumentChange>)))]
pub async fn history(
    State(app): State<App>,
    call: Call,
    Segments(name, path): Segments,
) -> Result<Response, HttpError> {
    call.reader().await?;
    let At { value, head } = app.engine().documents().history(&named(&name, &path)?, None).await?;
    Ok(answer::at(At { value: value.iter().map(change).collect::<Vec<_>>(), head }))
}

/// Write a document over the version that was read. If there is a newer one nothing is done, and the answer has it as `newer`.
#[utoipa::path(put, path = "/contexts/{instance}/documents/{path}", tag = "contexts",
    params(("instance" = String, Path), ("path" = String, Path)), request_body = NewText,
    responses((status = 200, body = DocumentInfo), (status = 409, body = crate::http::error::ErrorBody)))]
pub async fn write(call: Call, Segments(name, path): Segments, body: JsonBody<NewText>) -> Result<Response, HttpError> {
    let (Some(text), Some(version)) = (body.value.text, body.value.version) else {
        return Err(HttpError::invalid("text and version are required"));
    };
    let caller = call.caller(None)?;
    let writer = match &caller.actor {
        Actor::Agent(agent) => agent.clone(),
        Actor::Person(_) => AgentId::new(caller.actor.to_string()),
        _ => {
            return Err(HttpError::new(Code::Forbidden, "nobody in particular cannot write")
                .hint("send X-Agent-Id, or sign in: 'rookery open' prints how"));
        }
    };
    let id = named(&name, &path)?;
    let command = WriteDocument { id: id.clone(), text, writer: Writer::Named(writer), base: Base::Version(version) };
    let request = Request::new(caller, command).with_body(body.bytes.to_vec());
    match call.app().engine().documents().change(&id, request).await? {
        Changed::Done(document) => Ok(axum::Json(listed(document)).into_response()),
        Changed::Stale { refusal, newer } => Ok(stale(refusal, newer)),
    }
}

fn stale(refusal: Rejection, newer: Option<DocumentText>) -> Response {
    #[derive(Serialize)]
    struct Stale {
        error: String,
        code: &'static str,
        newer: Option<DocumentBody>,
    }
    let body = Stale { error: refusal.message, code: "STALE_VERSION", newer: newer.map(shown) };
    (StatusCode::CONFLICT, axum::Json(body)).into_response()
}

fn named(instance: &str, path: &str) -> Result<DocumentId, HttpError> {
    let path = DocumentPath::parse(path).map_err(Rejection::from)?;
    Ok(DocumentId { run: Instance::new(instance).run(), path })
}

fn listed(document: Document) -> DocumentInfo {
    DocumentInfo {
        path: document.id.path.to_string(),
        version: document.version,
        bytes: document.bytes,
        author: document.author,
        changed_at: document.changed_at.0,
    }
}

fn shown(DocumentText { version, text }: DocumentText) -> DocumentBody {
    DocumentBody {
        path: version.id.path.to_string(),
        version: version.version,
        author: version.author,
        changed_at: version.at.0,
        text,
    }
}

fn change(version: &Version) -> DocumentChange {
    let change = match version.change {
        Change::Created => "created",
        Change::Written => "written",
        Change::Appended => "appended",
        Change::Deleted => "deleted",
    };
    DocumentChange {
        version: version.version,
        author: version.author.clone(),
        at: version.at.0,
        seq: version.seq.0,
        change: change.to_owned(),
    }
}
