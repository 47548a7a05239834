//! The files of the web UI. Every address below `/ui/` that a person opens is the one page, which finds its view by itself;
//! a file that is not there is not there.

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rookery_core::Code;
use rookery_ui_embed::{Asset, INDEX, LICENSES, find};

use super::pages;
use crate::http::App;
use crate::http::HttpError;

/// Scripts and styles of our own and no others, none in the page; nothing from elsewhere; no frame around us.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
    connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub fn routes() -> Router<App> {
    Router::new()
        .route("/ui", get(index))
        .route("/ui/", get(index))
        .route("/ui/{*path}", get(file))
        .route("/licenses", get(licenses))
}

pub async fn index(headers: HeaderMap) -> Response {
    match find(INDEX) {
        Some(asset) => serve(asset, &headers),
        None => pages::without_ui(),
    }
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    match find(&path) {
        Some(asset) => serve(asset, &headers),
        None if is_navigation(&headers) => index(headers).await,
        None => HttpError::new(Code::NotFound, "there is nothing at this path").into_response(),
    }
}

async fn licenses(headers: HeaderMap) -> Response {
    match find(LICENSES) {
        Some(asset) => serve(asset, &headers),
        None => pages::without_ui(),
    }
}

/// Whether a person opens an address, and not a page one of its files.
fn is_navigation(headers: &HeaderMap) -> bool {
    match text(headers, &HeaderName::from_static("sec-fetch-mode")) {
        Some(mode) => mode == "navigate",
        None => text(headers, &header::ACCEPT).is_some_and(|accept| accept.contains("text/html")),
    }
}

fn serve(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let mut response = if text(headers, &header::IF_NONE_MATCH).is_some_and(|tags| tags.contains(asset.etag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        content(asset, headers)
    };
    let lasting = if asset.is_immutable() { "public, max-age=31536000, immutable" } else { "no-cache" };
    for (name, value) in [
        (header::ETAG, asset.etag),
        (header::CACHE_CONTROL, lasting),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The smallest form that the browser takes.
fn content(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let accepted = text(headers, &header::ACCEPT_ENCODING).unwrap_or_default();
    let takes = |name: &str| accepted.split(',').any(|entry| entry.split(';').next().is_some_and(|e| e.trim() == name));
    let (bytes, encoding) = match (asset.brotli, asset.gzip) {
        (Some(brotli), _) if takes("br") => (brotli, Some("br")),
        (_, Some(gzip)) if takes("gzip") => (gzip, Some("gzip")),
        _ => (asset.bytes, None),
    };
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.mime));
    if let Some(encoding) = encoding {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
