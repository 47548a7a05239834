//! A request as every handler needs it: who calls, with this face's errors.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use rookery_core::model::addressee::Address;
use rookery_core::{Actor, AgentId, Authority, Caller, Code, Command, Rejection};
use rookery_engine::Committed;
use serde::de::DeserializeOwned;

use super::{ClutchError, parameters};
use crate::http::App;
use crate::http::extract;

/// A request, and what it says about its sender.
#[derive(Debug)]
pub struct Call(extract::Call);

impl FromRequestParts<App> for Call {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Call, ClutchError> {
        parameters::check(parts)?;
        Ok(Call(extract::Call::from_request_parts(parts, app).await?))
    }
}

impl Call {
    pub fn app(&self) -> &App {
        self.0.app()
    }

    /// The caller of a request that is about no agent in particular.
    pub fn anybody(&self) -> Result<Caller, ClutchError> {
        Ok(self.0.caller(None)?)
    }

    /// The caller of a request that is about this agent.
    pub fn caller(&self, agent: &AgentId) -> Result<Caller, ClutchError> {
        Ok(self.0.caller(Some(agent.as_str()))?)
    }

    /// The agent that calls, if it says who it is.
    pub fn itself(&self) -> Result<Option<AgentId>, ClutchError> {
        Ok(self.0.caller(None)?.actor.agent().cloned())
    }

    pub async fn submit<C: Command>(
        &self,
        caller: Caller,
        command: C,
        body: &Bytes,
    ) -> Result<Committed<C::Reply>, ClutchError> {
        Ok(self.0.submit(caller, command, body).await?)
    }

    /// Whoever reads must be allowed to, and shows a sign of life by it.
    pub async fn reader(&self) -> Result<Caller, ClutchError> {
        Ok(self.0.reader().await?)
    }

    /// The same of whoever leaves something here that no fact tells of.
    pub async fn writer(&self) -> Result<Caller, ClutchError> {
        let caller = self.0.reader().await?;
        if caller.power == Authority::Observer {
            return Err(Rejection::new(Code::Forbidden, "an observer may only read").into());
        }
        Ok(caller)
    }

    /// Adds the half of a browser session that came in the first frame of a WebSocket.
    pub fn with_browser(self, half: String) -> Call {
        Call(self.0.with_browser(half))
    }

    /// A person with a credential.
    pub fn person(&self) -> Result<Caller, ClutchError> {
        Ok(self.0.person()?)
    }

    /// The caller of a message that says who sends it.
    pub fn sending_as(&self, from: &Actor) -> Result<Caller, Rejection> {
        self.0.sending_as(from)
    }

    /// Whether the token that a long answer began with is still valid.
    pub fn is_still_allowed(&self) -> bool {
        self.0.is_still_allowed()
    }
}

/// Query parameters, with an error that names the one that is wrong.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Query<T>, ClutchError> {
        Ok(Query(extract::Query::from_request_parts(parts, app).await?.0))
    }
}

/// A part of the path.
#[derive(Debug)]
pub struct Segment(pub String);

impl FromRequestParts<App> for Segment {
    type Rejection = ClutchError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Segment, ClutchError> {
        Ok(Segment(extract::Segment::from_request_parts(parts, app).await?.0))
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
            _ => Err(Rejection::new(Code::Invalid, format!("'{text}' is not the id of an agent")).into()),
        }
    }
}

/// A body of JSON that is read into a type, with an error that names the field that is wrong.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ClutchError;

    async fn from_request(request: Request, app: &App) -> Result<Body<T>, ClutchError> {
        Ok(Body(extract::JsonBody::from_request(request, app).await?.value))
    }
}

/// As [`Body`], where none has to be sent.
#[derive(Debug)]
pub struct MaybeBody<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeBody<T> {
    type Rejection = ClutchError;

    async fn from_request(request: Request, app: &App) -> Result<MaybeBody<T>, ClutchError> {
        Ok(MaybeBody(extract::MaybeBody::from_request(request, app).await?.value))
    }
}

/// A body of JSON as it was sent; its reader tells what is wrong with it.
#[derive(Debug)]
pub struct Json(pub Bytes);

impl FromRequest<App> for Json {
    type Rejection = ClutchError;

    async fn from_request(request: Request, app: &App) -> Result<Json, ClutchError> {
        Ok(Json(extract::json_bytes(request, app).await?))
    }
}

/// A body of JSON that is parsed, with an error that names the field that is wrong.
#[derive(Debug)]
pub struct JsonBody<T> {
    pub value: T,
    pub bytes: Bytes,
}

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ClutchError;

    async fn from_request(request: Request, app: &App) -> Result<JsonBody<T>, ClutchError> {
        let extract::JsonBody { value, bytes } = extract::JsonBody::from_request(request, app).await?;
        Ok(JsonBody { value, bytes })
    }
}
