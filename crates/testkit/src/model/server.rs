//! The HTTP server that plays the scripts.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::exchange::{Answer, Asked, Frame};
use super::script::{Fault, Playing, Script, Step};
use super::{Wire, wire_at};

/// What a request is answered with that has nothing to do with the script, such as one for a title.
pub(super) const ASIDE: &str = "ok";

/// What an answer begins with that never comes to its end.
const BEGINNING: &str = "As far\nas I can see";

/// A model server on a free port of the loopback address; it ends when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
    roles: Arc<Roles>,
    serving: JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ModelServer {
    /// Starts it with a script for each key that programs send.
    pub async fn start(scripts: impl IntoIterator<Item = (&str, Script)>) -> anyhow::Result<ModelServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let roles = scripts.into_iter().map(|(key, script)| (key.to_owned(), Role::new(script))).collect();
        let roles = Arc::new(Roles(Mutex::new(roles)));
        let app = Router::new().fallback(answer).with_state(roles.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(ModelServer { url, roles, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Everything that was asked with a key, oldest first.
    pub fn asked(&self, key: &str) -> Vec<Asked> {
        self.roles.lock().get(key).map(|role| role.asked.clone()).unwrap_or_default()
    }

    /// Fails unless the script of a key was played to its end, and says where it stopped and why.
    pub fn ended(&self, key: &str) -> anyhow::Result<()> {
        let roles = self.roles.lock();
        let role = roles.get(key).with_context(|| format!("there is no script for {key}"))?;
        if let Some(trouble) = &role.trouble {
            bail!("{key}: {trouble}; the last result was {:?}", role.last_texts());
        }
        role.playing.ended().map_err(|stopped| {
            let last = role.last_texts();
            anyhow::anyhow!("{key}: {stopped}; the last result was {last:?}")
        })
    }
}

#[derive(Debug)]
struct Roles(Mutex<HashMap<String, Role>>);

impl Roles {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Role>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Role {
    playing: Playing,
    asked: Vec<Asked>,
    /// Why the script could not go on.
    trouble: Option<String>,
}

impl Role {
    fn new(script: Script) -> Role {
        Role { playing: Playing::new(script), asked: vec![], trouble: None }
    }

    fn last_texts(&self) -> Option<&[String]> {
        Some(&self.asked.last()?.results.last()?.texts)
    }

    /// What becomes of a request; the number tells it apart from the others.
    fn next(&mut self, asked: Asked) -> anyhow::Result<(Step, usize)> {
        let step = match asked.tools.is_empty() {
            true => Ok(Answer::text(ASIDE).into()),
            false => self.playing.next(&asked),
        };
        self.asked.push(asked);
        if let Err(error) = &step {
            self.trouble = Some(format!("{error:#}"));
        }
        Ok((step?, self.asked.len()))
    }
}

async fn answer(
    State(roles): State<Arc<Roles>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match (method, wire_at(&uri)) {
        (Method::POST, Some(wire)) => match play(&roles, wire, &uri, &headers, &body) {
            Ok(Played::Whole(answer)) => axum::Json(answer).into_response(),
            Ok(Played::Streamed { frames, pause, then }) => streamed(wire, frames, pause, then),
            Ok(Played::Failed { status, message, retry_after }) => failed(wire, status, message, retry_after),
            Ok(Played::Nothing) => std::future::pending().await,
            Err(error) => failed(wire, StatusCode::BAD_REQUEST, &format!("{error:#}"), None),
        },
        (Method::GET, _) if uri.path().ends_with("/models") => {
            axum::Json(json!({"object": "list", "data": []})).into_response()
        }
        // Programs look whether somebody is there.
        (Method::HEAD | Method::GET, _) => StatusCode::OK.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

enum Played {
    Whole(Value),
    Streamed { frames: Vec<String>, pause: Duration, then: Then },
    Failed { status: StatusCode, message: &'static str, retry_after: Option<u64> },
    Nothing,
}

/// What comes after the last piece of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    End,
    Silence,
    Cut,
}

fn play(roles: &Roles, wire: Wire, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> anyhow::Result<Played> {
    let body: Value = serde_json::from_slice(body).with_context(|| format!("no JSON for {}", wire.name))?;
    let asked = (wire.read)(uri, &body)?;
    let key = key(uri, headers).unwrap_or(&asked.model);
    let mut roles = roles.lock();
    let role = roles.get_mut(key).with_context(|| format!("there is no script for the key {key}"))?;
    let (step, number) = role.next(asked.clone())?;
    let frames =
        |answer: &Answer| -> Vec<String> { (wire.stream)(&asked, answer, number).iter().map(Frame::written).collect() };
    // What a broken answer begins with: less than all of it, and more than nothing.
    let beginning = |then: Then| {
        let mut frames = frames(&Answer::text(BEGINNING));
        frames.truncate(frames.len() / 2);
        Played::Streamed { frames, pause: Duration::ZERO, then }
    };
    Ok(match step {
        Step::Answer { answer, pause } if (wire.is_streamed)(uri, &body) => {
            Played::Streamed { frames: frames(&answer), pause, then: Then::End }
        }
        Step::Answer { answer, .. } => Played::Whole((wire.whole)(&asked, &answer, number)),
        Step::Fault(Fault::Status { status, message, retry_after }) => {
            Played::Failed { status: StatusCode::from_u16(status)?, message, retry_after }
        }
        Step::Fault(Fault::Hang) => Played::Nothing,
        Step::Fault(Fault::Stall) => beginning(Then::Silence),
        Step::Fault(Fault::Cut) => beginning(Then::Cut),
    })
}

/// The key of a program, in one of the usual places. A model that wants no key is known by its name.
fn key<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || text("authorization")?.strip_prefix("Bearer ");
    let query = || uri.query()?.split('&').find_map(|pair| pair.strip_prefix("key="));
    text("x-api-key").or_else(|| text("x-goog-api-key")).or_else(bearer).or_else(query)
}

fn streamed(wire: Wire, frames: Vec<String>, pause: Duration, then: Then) -> Response {
    let pieces = stream::iter(frames).then(move |frame| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, io::Error>(frame)
    });
    let rest = stream::iter([then]).filter_map(|then| async move {
        match then {
            Then::End => None,
            Then::Silence => std::future::pending().await,
            Then::Cut => Some(Err(io::Error::other("the script ends the connection"))),
        }
    });
    ([(header::CONTENT_TYPE, wire.media)], Body::from_stream(pieces.chain(rest))).into_response()
}

fn failed(wire: Wire, status: StatusCode, message: &str, retry_after: Option<u64>) -> Response {
    let mut response = (status, axum::Json((wire.error)(status.as_u16(), message))).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
