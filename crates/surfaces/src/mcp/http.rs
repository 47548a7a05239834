//! Between the router and the SDK: who may speak at all, how large a message is, how many streams are open.

use std::future::ready;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt, stream};
use http_body_util::BodyExt;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rookery_core::Code;

use super::Clients;
use super::bad_body;
use super::calls::Catalogue;
use super::protocol::Protocol;
use super::toolset::Toolset;
use crate::http::App;
use crate::http::HttpError;
use crate::http::guard::Via;
use crate::http::identity::Sender;
use crate::http::limits::{Account, Full, RequestPermit};

/// How much is sent in one piece.
const PIECE_BYTES: usize = 64 * 1024;

pub fn routes(app: &App, clients: &Clients) -> Router<App> {
    let catalogue = Catalogue::new(super::tools::all());
    Toolset::EVERY.into_iter().fold(Router::new(), |routes, set| {
        let (catalogue, state) = (catalogue.clone(), (app.clone(), clients.clone()));
        let protocol = move |set| Protocol::new(state.0.clone(), state.1.clone(), catalogue.clone(), set);
        routes.merge(route(app, clients, set.path(), move || protocol(set)))
    })
}

/// As [`routes`], for those who share an instance: what they get without asking for more is its context.
pub fn context_routes(app: &App, clients: &Clients) -> Router<App> {
    let catalogue = Catalogue::new(super::tools::all());
    Toolset::EVERY.into_iter().fold(Router::new(), |routes, set| {
        let (catalogue, state) = (catalogue.clone(), (app.clone(), clients.clone()));
        let protocol = move |set| Protocol::new(state.0.clone(), state.1.clone(), catalogue.clone(), set);
        let offered = if set == Toolset::All { Toolset::Context } else { set };
        routes.merge(route(app, clients, set.path(), move || protocol(offered)))
    })
}

/// A server at one address of ours: whatever it offers, its sockets, sessions and limits are the daemon's.
pub fn route<S>(app: &App, clients: &Clients, path: &str, server: impl Fn() -> S + Send + Sync + 'static) -> Router<App>
where
    S: ServerHandler + Send + 'static,
{
    let service = StreamableHttpService::new(move || Ok(server()), clients.sessions.clone(), config(app));
    Router::new()
        .route_service(path, service)
        .layer(middleware::from_fn_with_state((app.clone(), clients.clone()), prepared))
}

fn config(app: &App) -> StreamableHttpServerConfig {
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    StreamableHttpServerConfig::default()
        // The guard has looked at Host and Origin already; this is the second lock on the same door.
        .with_allowed_hosts(own.into_iter().chain(app.about().allowed_hosts.iter().cloned()))
        .with_sse_keep_alive(Some(app.limits().keep_alive))
        .with_json_response(true)
        .with_max_request_body_bytes(app.limits().body_bytes)
        .with_cancellation_token(app.stopping().child_token())
}

/// What every message passes before the SDK sees it.
async fn prepared(State((app, clients)): State<(App, Clients)>, request: Request, next: Next) -> Response {
    let ends_session = request.method() == Method::DELETE;
    match prepare(&app, request).await {
        Ok(PreparedRequest::Message(request, body)) => {
            let mut response = in_one_piece(finished(&clients, &body, next.run(request).await)).await;
            if ends_session && response.status() == StatusCode::ACCEPTED {
                // The session is gone by now, and clients take 202 for a failure.
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            response
        }
        Ok(PreparedRequest::Stream(request, place)) => next.run(request).await.map(|body| {
            // The stream's place is free when the stream ends.
            Body::new(body.map_frame(move |frame| {
                let _place = &place;
                frame
            }))
        }),
        Err(error) => error.into_response(),
    }
}

enum PreparedRequest {
    Message(Request, Bytes),
    Stream(Request, RequestPermit),
}

async fn prepare(app: &App, mut request: Request) -> Result<PreparedRequest, HttpError> {
    // Whoever needs a token needs it for every call, also for those that only look around.
    let sender = Sender::of_message(request.headers(), request.extensions())?;
    let account = Account::of(&sender.caller(app, None)?);
    request.extensions_mut().insert(sender);
    if request.extensions().get::<Via>() == Some(&Via::Socket) {
        // On the socket its permissions are the check, and any name will do.
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    }
    if request.method() == Method::GET {
        let place = app.streams().take(account).map_err(Full::of_streams)?;
        return Ok(PreparedRequest::Stream(request, place));
    }
    // While the message is read; the tool that it calls has a place of its own.
    let _place = app.requests().take(account).map_err(Full::of_requests)?;
    let (parts, body) = request.into_parts();
    let limit = app.limits().body_bytes;
    let read = crate::http::extract::read(body, limit);
    let Ok(bytes) = tokio::time::timeout(app.limits().request_time, read).await else {
        return Err(HttpError::new(Code::Timeout, "the message took too long to arrive"));
    };
    let bytes = bytes?;
    Ok(PreparedRequest::Message(Request::from_parts(parts, Body::from(bytes.clone())), bytes))
}

/// The SDK has one answer to everything that fails inside it; the one that we know about gets a code. And what is no
/// message is told so in the words of the protocol.
fn finished(clients: &Clients, body: &[u8], response: Response) -> Response {
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return bad_body::answer(body).unwrap_or(response);
    }
    if response.status() == StatusCode::INTERNAL_SERVER_ERROR && clients.sessions.is_full() {
        return HttpError::new(Code::TooManySessions, "no more sessions can be opened")
            .hint("close those that are not needed, or raise max_sessions")
            .retry_after(5)
            .into_response();
    }
    response
}

/// Sends an answer that comes soon in one piece. The SDK streams what it answers in a session and begins with an event that
/// says nothing yet; sent by itself, that costs a write here and wakes the client for nothing. So it is held back until
/// something follows: the answer, another message, or the sign of life that every stream gives from time to time.
async fn in_one_piece(response: Response) -> Response {
    let streamed = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !streamed {
        return response;
    }
    let (parts, mut body) = response.into_parts();
    let mut piece = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let begun = piece.len();
        piece.extend(frame.into_data());
        if !says_nothing(&piece[begun..]) {
            break;
        }
    }
    // What is there already goes along; nothing is waited for any more.
    while let Some(next) = body.frame().now_or_never() {
        match next {
            Some(Ok(frame)) if piece.len() < PIECE_BYTES => piece.extend(frame.into_data()),
            Some(Ok(frame)) => {
                piece.extend(frame.into_data());
                break;
            }
            Some(Err(_)) | None => return Response::from_parts(parts, Body::from(piece.freeze())),
        }
    }
    let first = stream::once(ready(Ok(piece.freeze())));
    Response::from_parts(parts, Body::from_stream(first.chain(body.into_data_stream())))
}

/// Whether this is the event that only tells its number, by which a client that is cut off could come back.
fn says_nothing(event: &[u8]) -> bool {
    event.starts_with(b"data: \n")
}

#[cfg(test)]
mod tests {
    use futures_util::Stream;

    use super::*;

    const EMPTY: &str = "data: \nid: 0/0\nretry: 3000\n\n";
    const ANSWER: &str = "data: {\"jsonrpc\":\"2.0\"}\nid: 1/0\n\n";

    fn streamed(events: impl Stream<Item = &'static str> + Send + 'static) -> Response {
        let body = Body::from_stream(events.map(|event| Ok::<_, axum::Error>(Bytes::from(event))));
        Response::builder().header(header::CONTENT_TYPE, "text/event-stream").body(body).unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_is_there_goes_out_whole() {
        let mut body = in_one_piece(streamed(stream::iter([EMPTY, ANSWER]))).await.into_body();
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, format!("{EMPTY}{ANSWER}"));
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn what_has_something_to_say_waits_for_nothing() {
        let (sender, events) = tokio::sync::mpsc::channel(4);
        let events = stream::unfold(events, |mut events| async { Some((events.recv().await?, events)) });
        sender.send(EMPTY).await.unwrap();
        let mut answering = Box::pin(in_one_piece(streamed(events)));
        assert!((&mut answering).now_or_never().is_none(), "it went out with nothing to say");
        sender.send(":\n\n").await.unwrap();
        let mut body = answering.await.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), format!("{EMPTY}:\n\n"));
        sender.send(ANSWER).await.unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), ANSWER);
        drop(sender);
        assert!(body.frame().await.is_none());
    }
}
