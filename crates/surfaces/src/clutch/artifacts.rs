//! Artifacts: content by its hash, of any length up to the limit, streamed in and out.
//!
//! What agents upload is not to be trusted by a browser: it goes out as a download of no type, and can run nothing.
//! An artifact that is damaged is told before anything is sent; if that shows only on the way, the connection ends without
//! the last bytes, so that nobody takes it for whole.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use rookery_core::artifacts::{is_sha256, reference};
use rookery_core::{Code, Rejection};
use rookery_engine::{ArtifactError, ArtifactInfo, Incoming, Outgoing, Stored};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::call::{Call, Query, Segment};
use super::openapi::Content;
use super::{ClutchError, ClutchErrorBody, ROOT};
use crate::http::App;
use crate::http::extract::drain;
use crate::http::limits::{Account, Full, RequestPermit};

mod range;

use range::RequestedRange;

/// How slow an upload may be, beside its pauses.
const SLOWEST_BYTES_PER_MILLI: u64 = 16;
const PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1_000;

/// What was uploaded.
#[derive(Debug, Serialize, ToSchema)]
pub struct UploadedArtifact {
    /// How messages refer to it: `artifact:sha256-…`.
    #[serde(rename = "ref")]
    reference: String,
    sha256: String,
    /// In bytes.
    size: u64,
}

/// An artifact as it is listed.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedArtifact {
    #[serde(rename = "ref")]
    reference: String,
    sha256: String,
    size: u64,
    /// When it was last uploaded, in epoch milliseconds.
    stored_at: i64,
    /// Whether something in the log names it. What nothing names is removed after a while.
    named: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ArtifactList {
    artifacts: Vec<ListedArtifact>,
    /// What to ask for next with `after`, if there may be more.
    next: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
pub struct ArtifactQuery {
    /// Only artifacts after this one, as `next` told it.
    after: Option<String>,
    /// At most 1,000; 100 if it is not given.
    limit: Option<u32>,
}

/// Upload content of any type. The same content has the same reference, and counts as uploaded now.
#[utoipa::path(post, path = "/clutch/v0/artifacts", tag = "artifacts", operation_id = "clutch_upload",
    request_body(content = Content, content_type = "application/octet-stream",
        description = "The content, up to `max_artifact_bytes`, of any type"),
    responses((status = 201, body = UploadedArtifact), (status = 413, body = ClutchErrorBody)))]
pub async fn upload(
    State(app): State<App>,
    call: Call,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ClutchError> {
    call.writer().await?;
    let most = app.limits().artifact_bytes;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most) {
        // Whoever waits to be told to go on has sent nothing, and needs not.
        if !headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(too_large(most));
    }
    let incoming = app.engine().artifacts().receive().await?;
    let Stored { sha256, size } = receive(&app, incoming, body).await?;
    let address = format!("{ROOT}/artifacts/{}", id(&sha256));
    let uploaded = UploadedArtifact { reference: reference(&sha256), sha256, size };
    Ok((StatusCode::CREATED, [(header::LOCATION, address)], Json(uploaded)).into_response())
}

/// Takes everything that comes, as long as it comes and is not too much. Given up, nothing is left of it.
async fn receive(app: &App, mut incoming: Box<dyn Incoming>, mut body: Body) -> Result<Stored, ClutchError> {
    let most = app.limits().artifact_bytes;
    let mut pace = Pace::new(app);
    loop {
        let Some(piece) = pace.next(&mut body).await? else { break };
        if pace.received > most {
            drop(incoming);
            drain(body).await;
            return Err(too_large(most));
        }
        incoming.write(piece).await?;
    }
    Ok(incoming.finish().await?)
}

/// How an upload comes along: neither a long pause nor a trickle keeps a place for ever.
struct Pace<'a> {
    app: &'a App,
    pause: Duration,
    began: u64,
    received: u64,
}

impl Pace<'_> {
    fn new(app: &App) -> Pace<'_> {
        Pace { app, pause: app.limits().request_time, began: app.engine().clock().monotonic(), received: 0 }
    }

    async fn next(&mut self, body: &mut Body) -> Result<Option<Bytes>, ClutchError> {
        let piece = match tokio::time::timeout(self.pause, body.frame()).await {
            Err(_) => return Err(too_slow("nothing more of the upload came")),
            Ok(Some(Err(error))) => {
                return Err(Rejection::new(Code::Invalid, format!("the upload broke off: {error}")).into());
            }
            // What follows the content is not part of it.
            Ok(Some(Ok(frame))) => Some(frame.into_data().unwrap_or_default()),
            Ok(None) => None,
        };
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        let took = self.app.engine().clock().monotonic().saturating_sub(self.began);
        let pause = u64::try_from(self.pause.as_millis()).unwrap_or(u64::MAX);
        if took > pause.saturating_add(self.received / SLOWEST_BYTES_PER_MILLI) {
            return Err(too_slow("the upload comes too slowly"));
        }
        Ok(piece)
    }
}

fn too_slow(message: &str) -> ClutchError {
    ClutchError::new(Code::Timeout, message).hint("nothing was kept; upload it again")
}

fn too_large(most: u64) -> ClutchError {
    let message = format!("an artifact has at most {most} bytes here");
    ClutchError::new(Code::TooLarge, message)
        .status(StatusCode::PAYLOAD_TOO_LARGE)
        .detail("limit", most)
        .hint("upload it in parts, or raise max_artifact_bytes")
}

/// Whether an artifact is here and how large it is (`Content-Length`, `ETag`), without its content.
#[utoipa::path(head, path = "/clutch/v0/artifacts/{id}", tag = "artifacts", operation_id = "clutch_artifact_head",
    params(("id" = String, Path, description = "The reference without `artifact:`, as in `sha256-…`")),
    responses((status = 200), (status = 206), (status = 304), (status = 404), (status = 416), (status = 500)))]
pub async fn head(
    app: State<App>,
    call: Call,
    method: Method,
    headers: HeaderMap,
    named: Segment,
) -> Result<Response, ClutchError> {
    download(app, call, method, headers, named).await
}

/// Download an artifact, or a part of it by `Range`.
#[utoipa::path(get, path = "/clutch/v0/artifacts/{id}", tag = "artifacts", operation_id = "clutch_download",
    params(("id" = String, Path, description = "The reference without `artifact:`, as in `sha256-…`")),
    responses((status = 200, body = Content, content_type = "application/octet-stream"),
        (status = 206, body = Content, content_type = "application/octet-stream"),
        (status = 304), (status = 404, body = ClutchErrorBody), (status = 416, body = ClutchErrorBody),
        (status = 500, body = ClutchErrorBody)))]
pub async fn download(
    State(app): State<App>,
    call: Call,
    method: Method,
    headers: HeaderMap,
    Segment(named): Segment,
) -> Result<Response, ClutchError> {
    let caller = call.reader().await?;
    let sha256 = named_hash(&named)?;
    let artifacts = app.engine().artifacts();
    let size = artifacts.size(sha256).await?;
    let tag = format!("\"{}\"", id(sha256));
    if range::is_known(&headers, &tag) {
        return Ok(safely(StatusCode::NOT_MODIFIED.into_response(), sha256, &tag));
    }
    if method == Method::HEAD {
        return Ok(safely(carrying(Body::empty(), 0..size), sha256, &tag));
    }
    let Ok(wanted) = range::wanted(&headers, &tag, size) else { return Ok(unsatisfiable(size)) };
    let span = match &wanted {
        RequestedRange::Whole => 0..size,
        RequestedRange::Part(span) => span.clone(),
    };
    let place = app.downloads().take(Account::of(&caller)).map_err(Full::of_downloads)?;
    let body = sent(artifacts.read(sha256, span.clone()).await?, place).await?;
    let mut response = carrying(body, span.clone());
    if wanted != RequestedRange::Whole {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let part = format!("bytes {}-{}/{size}", span.start, span.end.saturating_sub(1));
        set(&mut response, header::CONTENT_RANGE, &part);
    }
    Ok(safely(response, sha256, &tag))
}

/// The rest of an artifact as a body, which holds its place until it was sent. Its first bytes are looked at here, while an
/// error can still be told.
async fn sent(mut outgoing: Box<dyn Outgoing>, place: RequestPermit) -> Result<Body, ClutchError> {
    let Some(first) = outgoing.next().await? else { return Ok(Body::empty()) };
    let rest = stream::unfold(Some((outgoing, place)), |sending| async {
        let (mut outgoing, place) = sending?;
        match outgoing.next().await {
            Ok(piece) => piece.map(|piece| (Ok(piece), Some((outgoing, place)))),
            Err(error) => {
                tracing::error!(%error, "an artifact could not be sent to its end");
                Some((Err(error), None))
            }
        }
    });
    let first = stream::once(async { Ok::<Bytes, ArtifactError>(first) });
    Ok(Body::from_stream(first.chain(rest)))
}

fn carrying(body: Body, span: std::ops::Range<u64>) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(span.end - span.start));
    response
}

/// Whatever is in it, a browser keeps it as a file and runs nothing of it.
fn safely(mut response: Response, sha256: &str, tag: &str) -> Response {
    for (name, value) in [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::ACCEPT_RANGES, "bytes"),
        // It never changes, but it may be removed: whoever has it asks whether it is still there.
        (header::CACHE_CONTROL, "private, no-cache"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    set(&mut response, header::CONTENT_DISPOSITION, &format!("attachment; filename=\"{}\"", id(sha256)));
    set(&mut response, header::ETAG, tag);
    response
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn unsatisfiable(size: u64) -> Response {
    let error = ClutchError::new(Code::RangeNotSatisfiable, "it has no such bytes");
    let mut response =
        error.detail("size", size).hint("ask within its size, as in 'Range: bytes=0-99'").into_response();
    set(&mut response, header::CONTENT_RANGE, &format!("bytes */{size}"));
    response
}

/// The artifacts that are here, in the order of their hashes.
#[utoipa::path(get, path = "/clutch/v0/artifacts", tag = "artifacts", operation_id = "clutch_artifacts", params(ArtifactQuery),
    responses((status = 200, body = ArtifactList)))]
pub async fn list(
    State(app): State<App>,
    call: Call,
    Query(query): Query<ArtifactQuery>,
) -> Result<Json<ArtifactList>, ClutchError> {
    call.reader().await?;
    let after = query.after.as_deref().map(named_hash).transpose()?.map(str::to_owned);
    let limit = query.limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
    let found = app.engine().artifacts().list(after, limit).await?;
    let full = found.len() >= limit as usize;
    let next = found.last().filter(|_| full).map(|last| id(&last.sha256));
    Ok(Json(ArtifactList { artifacts: found.into_iter().map(listed).collect(), next }))
}

fn listed(ArtifactInfo { sha256, size, stored_at, named }: ArtifactInfo) -> ListedArtifact {
    ListedArtifact { reference: reference(&sha256), sha256, size, stored_at: stored_at.0, named }
}

/// How an artifact is named in a path.
fn id(sha256: &str) -> String {
    format!("sha256-{sha256}")
}

fn named_hash(id: &str) -> Result<&str, ClutchError> {
    let hash = id.strip_prefix("sha256-").filter(|hash| is_sha256(hash));
    hash.ok_or_else(|| {
        let refusal = Rejection::new(Code::Invalid, "an artifact is named by 'sha256-' and 64 hexadecimal digits");
        refusal.hint("take the reference without 'artifact:'").into()
    })
}
