//! A request as every handler needs it: who calls, with this face's errors.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use rookery_core::{Actor, Caller, Refusal};

use super::ClutchError;
use crate::app::App;
use crate::rest;

/// A request, and what it says about its sender.
#[derive(Debug)]
pub struct Call(rest::Call);

impl FromRequestParts<App> for Call {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Call, ClutchError> {
        Ok(Call(rest::Call::from_request_parts(parts, app).await?))
    }
}

impl Call {
    /// Whoever reads must be allowed to, and shows a sign of life by it.
    pub async fn reader(&self) -> Result<Caller, ClutchError> {
        Ok(self.0.reader().await?)
    }

    /// The caller of a message that says who sends it.
    pub fn sending_as(&self, from: &Actor) -> Result<Caller, Refusal> {
        self.0.sending_as(from)
    }
}

/// A part of the path.
#[derive(Debug)]
pub struct Segment(pub String);

impl FromRequestParts<App> for Segment {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Segment, ClutchError> {
        Ok(Segment(rest::Segment::from_request_parts(parts, app).await?.0))
    }
}
