//! Schemas of payloads. What is registered stays as it was sent, and goes out so.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rookery_core::contracts::RegisterSchema;
use rookery_core::model::payload_type::PayloadType;
use rookery_core::{Code, Rejection, Seq};
use rookery_engine::At;
use rookery_engine::contracts::{KnownSchema, UnfitSchema};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Json, Query, Segment};
use super::{ClutchError, ClutchErrorBody};
use crate::http::paging::PageQuery;
use crate::http::{App, answer};

/// A schema as it is listed.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedSchema {
    payload_type: String,
    schema_ref: String,
    /// Whether it is there from the beginning.
    built_in: bool,
    /// By whom, when (in epoch milliseconds) and where in the log; not of what is there from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    registered_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    registered_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SchemaList {
    schemas: Vec<ListedSchema>,
    /// What to ask for next with `after`, if there may be more.
    next: Option<u64>,
}

/// Register the JSON Schema (2020-12) of a payload type. A version never changes: the same again is fine, another is refused.
#[utoipa::path(put, path = "/clutch/v0/schemas/{payload_type}", tag = "clutch", operation_id = "clutch_register_schema",
    params(("payload_type" = String, Path, description = "As in `research.summary.v1`")), request_body = Value,
    responses((status = 200, body = ListedSchema), (status = 400, body = ClutchErrorBody),
        (status = 409, body = ClutchErrorBody)))]
pub async fn register(call: Call, Segment(name): Segment, Json(body): Json) -> Result<Response, ClutchError> {
    let payload_type = named(&name)?;
    let caller = call.anybody()?;
    let text = text(&body)?;
    let engine = call.app().engine();
    engine.contracts().check_schema(&text).await?;
    let command = RegisterSchema { payload_type: payload_type.clone(), text };
    let committed = call.submit(caller, command, &body).await?;
    let known = engine.contracts().schema(&payload_type).await?.ok_or_else(|| missing(&payload_type))?;
    Ok(answer::written(StatusCode::OK, &committed, listed(&known)))
}

/// The schema of a payload type, as it was registered.
#[utoipa::path(get, path = "/clutch/v0/schemas/{payload_type}", tag = "clutch", operation_id = "clutch_schema",
    params(("payload_type" = String, Path)),
    responses((status = 200, body = Value), (status = 404, body = ClutchErrorBody)))]
pub async fn get(State(app): State<App>, call: Call, Segment(name): Segment) -> Result<Response, ClutchError> {
    call.reader().await?;
    let payload_type = named(&name)?;
    let known = app.engine().contracts().schema(&payload_type).await?.ok_or_else(|| missing(&payload_type))?;
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], known.text().to_owned()).into_response())
}

/// The schemas in the order in which they were registered, after those that are there from the beginning.
#[utoipa::path(get, path = "/clutch/v0/schemas", tag = "clutch", operation_id = "clutch_schemas", params(PageQuery),
    responses((status = 200, body = SchemaList)))]
pub async fn list(State(app): State<App>, call: Call, Query(page): Query<PageQuery>) -> Result<Response, ClutchError> {
    call.reader().await?;
    let At { value: known, head } = app.engine().contracts().schemas(page.after(), page.limit()).await?;
    let registered: Vec<Seq> = known.iter().filter_map(registered_at).collect();
    let schemas = known.iter().map(listed).collect();
    Ok(answer::at(At { value: SchemaList { schemas, next: page.next(&registered) }, head }))
}

fn named(name: &str) -> Result<PayloadType, ClutchError> {
    PayloadType::parse(name).ok_or_else(|| {
        let message = format!("'{name}' is no payload type");
        Rejection::new(Code::Invalid, message).hint("a name with a version, like 'research.summary.v1'").into()
    })
}

fn text(body: &Bytes) -> Result<String, ClutchError> {
    let not_utf8 = |_| ClutchError::new(Code::InvalidSchema, "not UTF-8; JSON is sent as UTF-8");
    String::from_utf8(body.to_vec()).map_err(not_utf8)
}

fn missing(payload_type: &PayloadType) -> ClutchError {
    let message = format!("no schema is registered for '{payload_type}'");
    Rejection::new(Code::SchemaNotFound, message).hint("list the schemas to see which there are").into()
}

fn registered_at(known: &KnownSchema) -> Option<Seq> {
    match known {
        KnownSchema::Registered(schema) => Some(schema.registered),
        KnownSchema::BuiltIn { .. } => None,
    }
}

fn listed(known: &KnownSchema) -> ListedSchema {
    let registered = match known {
        KnownSchema::BuiltIn { .. } => None,
        KnownSchema::Registered(schema) => Some(schema),
    };
    ListedSchema {
        payload_type: known.payload_type().to_string(),
        schema_ref: known.payload_type().schema_ref(),
        built_in: registered.is_none(),
        registered_by: registered.map(|schema| schema.registered_by.clone()),
        registered_at: registered.map(|schema| schema.registered_at.0),
        seq: registered.map(|schema| schema.registered.0),
    }
}

impl From<UnfitSchema> for ClutchError {
    fn from(error: UnfitSchema) -> ClutchError {
        match error {
            UnfitSchema::Faulty(fault) => {
                let message = format!("not a schema that is taken: {fault}");
                ClutchError::new(Code::InvalidSchema, message)
                    .detail("pointer", fault.pointer)
                    .hint("correct it at the pointer; nothing was registered")
            }
            UnfitSchema::Engine(error) => error.into(),
        }
    }
}
