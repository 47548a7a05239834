//! Streams that break in the middle of a call, as networks do, and clients that come back for the rest.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Ends the stream on which a request is answered.
#[derive(Clone, Default)]
struct Cut(CancellationToken);

/// Gives every request what ends its stream.
pub async fn with_cut(mut request: Request, next: Next) -> Response {
    let cut = Cut::default();
    request.extensions_mut().insert(cut.clone());
    next.run(request).await.map(|body| {
        let begun = Arc::new(Notify::new());
        let passed = begun.clone();
        let ended = async move {
            cut.0.cancelled().await;
            // The first event has the place that the client comes back to.
            begun.notified().await;
        };
        Body::from_stream(body.into_data_stream().inspect(move |_| passed.notify_one()).take_until(ended))
    })
}

/// Ends the stream of a call that is under way. Its answer waits in the session.
pub fn disconnect(context: &RequestContext<RoleServer>) {
    let parts = context.extensions.get::<Parts>();
    if let Some(cut) = parts.and_then(|parts| parts.extensions.get::<Cut>()) {
        cut.0.cancel();
    }
}
