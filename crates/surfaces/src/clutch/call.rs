//! A request as every handler needs it: who calls, with this face's errors.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use rookery_core::{Caller, Code, Power, Refusal};
use serde::de::DeserializeOwned;

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

    /// The same of whoever leaves something here that no fact tells of.
    pub async fn writer(&self) -> Result<Caller, ClutchError> {
        let caller = self.0.reader().await?;
        if caller.power == Power::Observer {
            return Err(Refusal::new(Code::Forbidden, "an observer may only read").into());
        }
        Ok(caller)
    }
}

/// Query parameters, with an error that names the one that is wrong.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Query<T>, ClutchError> {
        Ok(Query(rest::Query::from_request_parts(parts, app).await?.0))
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
