//! The HTTP server that answers with the scripts.

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

use super::exchange::{Frame, ModelAnswer, ModelRequest};
use super::script::{Fault, Playback, Script, Step};
use super::{Protocol, protocol_at};

/// The answer to requests outside of the script, such as for a title.
pub(super) const UNSCRIPTED_ANSWER: &str = "ok";

/// The text of an answer that is cut off.
const PARTIAL_TEXT: &str = "As far\nas I can see";

/// A model server on a free port of the loopback address. Dropping it ends it.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
    players: Arc<Players>,
    serving: JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ModelServer {
    /// Starts a server with a script for each API key.
    pub async fn start(scripts: impl IntoIterator<Item = (&str, Script)>) -> anyhow::Result<ModelServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let players = scripts.into_iter().map(|(key, script)| (key.to_owned(), Player::new(script))).collect();
        let players = Arc::new(Players(Mutex::new(players)));
        let app = Router::new().fallback(answer).with_state(players.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Ok(ModelServer { url, players, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests with a key, oldest first.
    pub fn requests(&self, key: &str) -> Vec<ModelRequest> {
        self.players.lock().get(key).map(|player| player.requests.clone()).unwrap_or_default()
    }

    /// Fails unless the script of a key reached its end. The error says where the script stopped, and why.
    pub fn check_finished(&self, key: &str) -> anyhow::Result<()> {
        let players = self.players.lock();
        let player = players.get(key).with_context(|| format!("there is no script for {key}"))?;
        if let Some(error) = &player.error {
            bail!("{key}: {error}; the last result was {:?}", player.last_texts());
        }
        player.playback.check_finished().map_err(|reason| {
            let last = player.last_texts();
            anyhow::anyhow!("{key}: {reason}; the last result was {last:?}")
        })
    }
}

#[derive(Debug)]
struct Players(Mutex<HashMap<String, Player>>);

impl Players {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Player>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The script of one key, with the requests that it received.
#[derive(Debug)]
struct Player {
    playback: Playback,
    requests: Vec<ModelRequest>,
    /// Why the script could not continue.
    error: Option<String>,
}

impl Player {
    fn new(script: Script) -> Player {
        Player { playback: Playback::new(script), requests: vec![], error: None }
    }

    fn last_texts(&self) -> Option<&[String]> {
        Some(&self.requests.last()?.results.last()?.texts)
    }

    /// Decides the answer to a request, and returns it with the number of the request.
    fn next(&mut self, request: ModelRequest) -> anyhow::Result<(Step, usize)> {
        let step = match request.tools.is_empty() {
            true => Ok(ModelAnswer::text(UNSCRIPTED_ANSWER).into()),
            false => self.playback.next(&request),
        };
        self.requests.push(request);
        if let Err(error) = &step {
            self.error = Some(format!("{error:#}"));
        }
        Ok((step?, self.requests.len()))
    }
}

async fn answer(
    State(players): State<Arc<Players>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match (method, protocol_at(&uri)) {
        (Method::POST, Some(protocol)) => match reply_to(&players, protocol, &uri, &headers, &body) {
            Ok(Reply::Whole(answer)) => axum::Json(answer).into_response(),
            Ok(Reply::Streamed { frames, pause, then }) => stream_response(protocol, frames, pause, then),
            Ok(Reply::Failed { status, message, retry_after }) => {
                error_response(protocol, status, message, retry_after)
            }
            Ok(Reply::Nothing) => std::future::pending().await,
            Err(error) => error_response(protocol, StatusCode::BAD_REQUEST, &format!("{error:#}"), None),
        },
        (Method::GET, _) if uri.path().ends_with("/models") => {
            axum::Json(json!({"object": "list", "data": []})).into_response()
        }
        // Programs check that the server is up.
        (Method::HEAD | Method::GET, _) => StatusCode::OK.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

enum Reply {
    Whole(Value),
    Streamed { frames: Vec<String>, pause: Duration, then: StreamEnd },
    Failed { status: StatusCode, message: &'static str, retry_after: Option<u64> },
    Nothing,
}

/// The end of a stream after its last frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    Complete,
    Silence,
    Cut,
}

fn reply_to(
    players: &Players,
    protocol: Protocol,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> anyhow::Result<Reply> {
    let body: Value =
        serde_json::from_slice(body).with_context(|| format!("the body is not JSON: {}", protocol.name))?;
    let request = (protocol.read)(uri, &body)?;
    let key = api_key(uri, headers).unwrap_or(&request.model);
    let mut players = players.lock();
    let player = players.get_mut(key).with_context(|| format!("there is no script for the key {key}"))?;
    let (step, number) = player.next(request.clone())?;
    let frames = |answer: &ModelAnswer| -> Vec<String> {
        (protocol.stream)(&request, answer, number).iter().map(Frame::encode).collect()
    };
    // A broken answer sends the first half of its frames.
    let first_half = |then: StreamEnd| {
        let mut frames = frames(&ModelAnswer::text(PARTIAL_TEXT));
        frames.truncate(frames.len() / 2);
        Reply::Streamed { frames, pause: Duration::ZERO, then }
    };
    Ok(match step {
        Step::Answer { answer, pause } if (protocol.wants_stream)(uri, &body) => {
            Reply::Streamed { frames: frames(&answer), pause, then: StreamEnd::Complete }
        }
        Step::Answer { answer, .. } => Reply::Whole((protocol.whole)(&request, &answer, number)),
        Step::Fault(Fault::Status { status, message, retry_after }) => {
            Reply::Failed { status: StatusCode::from_u16(status)?, message, retry_after }
        }
        Step::Fault(Fault::Hang) => Reply::Nothing,
        Step::Fault(Fault::Stall) => first_half(StreamEnd::Silence),
        Step::Fault(Fault::Cut) => first_half(StreamEnd::Cut),
    })
}

/// The API key of a request, from the header or parameter that has it. Without a key, the model's name selects the script.
fn api_key<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || text("authorization")?.strip_prefix("Bearer ");
    let query = || uri.query()?.split('&').find_map(|pair| pair.strip_prefix("key="));
    text("x-api-key").or_else(|| text("x-goog-api-key")).or_else(bearer).or_else(query)
}

fn stream_response(protocol: Protocol, frames: Vec<String>, pause: Duration, then: StreamEnd) -> Response {
    let pieces = stream::iter(frames).then(move |frame| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, io::Error>(frame)
    });
    let rest = stream::iter([then]).filter_map(|then| async move {
        match then {
            StreamEnd::Complete => None,
            StreamEnd::Silence => std::future::pending().await,
            StreamEnd::Cut => Some(Err(io::Error::other("the script cuts the connection"))),
        }
    });
    ([(header::CONTENT_TYPE, protocol.media_type)], Body::from_stream(pieces.chain(rest))).into_response()
}

fn error_response(protocol: Protocol, status: StatusCode, message: &str, retry_after: Option<u64>) -> Response {
    let mut response = (status, axum::Json((protocol.error)(status.as_u16(), message))).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
