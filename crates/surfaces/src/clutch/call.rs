//! A request as the handlers of this face need it; what cannot be read is told in the protocol's form.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use rookery_core::AgentId;
use rookery_core::clutch::Address;

use super::ClutchError;
use crate::app::App;
use crate::rest::RestError;
use crate::rest::call::{self, Segment};

/// Who calls, and one way to submit.
#[derive(Debug)]
pub struct Call(pub call::Call);

impl FromRequestParts<App> for Call {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Call, ClutchError> {
        Ok(Call(call::Call::from_request_parts(parts, app).await?))
    }
}

/// The agent that the path names, with or without `agent:`.
#[derive(Debug)]
pub struct NamedAgent(pub AgentId);

impl FromRequestParts<App> for NamedAgent {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<NamedAgent, ClutchError> {
        let Segment(text) = Segment::from_request_parts(parts, app).await?;
        match Address::parse(&text) {
            Some(Address::Agent(id)) => Ok(NamedAgent(id)),
            _ => Err(RestError::invalid(format!("'{text}' is not the id of an agent")).into()),
        }
    }
}

/// A body of JSON as it was sent; its reader tells what is wrong with it.
#[derive(Debug)]
pub struct Json(pub Bytes);

impl FromRequest<App> for Json {
    type Rejection = ClutchError;

    async fn from_request(request: Request, app: &App) -> Result<Json, ClutchError> {
        Ok(Json(call::json_bytes(request, app).await?))
    }
}
