//! Sessions of clients that need them: as many as allowed, each as long as somebody uses it.
//!
//! The SDK keeps the sessions and knows no limit. Here they are counted; whoever opens one too many takes the place of the
//! session that was silent longest, whose client opens a new one when it speaks again, as the protocol asks of it. A
//! session with an open stream is in use, however quiet it is. A call that waits ends with the connection it came by; one
//! that only looks something up is answered by the session's tools at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use rmcp::model::{
    CallToolResult, CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    ClientRequest, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use rookery_engine::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::calls::SessionTools;
use super::tools::WAITS;
use crate::http::{App, Limits};

/// How often silent sessions are looked for.
const REAP_INTERVAL: Duration = Duration::from_secs(60);
/// A session that spoke within this time is in use: it does not make room for another.
const IN_USE_MILLIS: u64 = 60_000;

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("there are {most} sessions in use, and no more are allowed")]
    TooManySessions { most: usize },
    #[error(transparent)]
    Sdk(#[from] LocalSessionManagerError),
}

pub struct Sessions {
    most: usize,
    idle: Duration,
    inner: Arc<SessionsInner>,
}

struct SessionsInner {
    sdk: LocalSessionManager,
    clock: Arc<dyn Clock>,
    known: KnownSessions,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("most", &self.most).finish_non_exhaustive()
    }
}

/// When each session was used last.
#[derive(Debug, Default)]
struct KnownSessions(Mutex<HashMap<SessionId, SessionUse>>);

#[derive(Debug)]
struct SessionUse {
    last: u64,
    streams: usize,
    /// Of these, the ones by which the client hears what nobody asked for.
    listening: watch::Sender<usize>,
    /// Where its look-ups are answered, once it has begun.
    tools: Option<SessionTools>,
}

impl SessionUse {
    fn new(last: u64) -> SessionUse {
        SessionUse { last, streams: 0, listening: watch::Sender::new(0), tools: None }
    }
}

impl KnownSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, SessionUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session without a stream that was silent longest, if that is at least so long.
    fn quietest(&self, now: u64, silent: u64) -> Option<SessionId> {
        let all = self.lock();
        let quiet = all.iter().filter(|(_, used)| used.streams == 0 && now.saturating_sub(used.last) >= silent);
        quiet.min_by_key(|(_, used)| used.last).map(|(id, _)| id.clone())
    }
}

/// An open stream; its session is in use until it is dropped.
struct OpenStream {
    sessions: Arc<SessionsInner>,
    id: SessionId,
    kind: StreamKind,
}

#[derive(Clone, PartialEq, Debug)]
enum StreamKind {
    /// Carries the answer to one request.
    Answer,
    /// Carries the answer to a request that waits for something, and that nobody waits for once it is gone.
    Waiting(RequestId),
    /// Carries what nobody asked for.
    Listening,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(used) = self.sessions.known.lock().get_mut(&self.id) {
            used.streams = used.streams.saturating_sub(1);
            used.last = self.sessions.clock.monotonic();
            if self.kind == StreamKind::Listening {
                used.listening.send_modify(|open| *open = open.saturating_sub(1));
            }
        }
        if let StreamKind::Waiting(request) = &self.kind {
            self.sessions.clone().cancel(self.id.clone(), request.clone());
        }
    }
}

impl Sessions {
    pub fn new(limits: &Limits, clock: Arc<dyn Clock>) -> Sessions {
        let mut sdk = LocalSessionManager::default();
        // A quiet stream is no reason to end a session, so the SDK's own clock is off; see `reap`.
        sdk.session_config.keep_alive = None;
        let inner = Arc::new(SessionsInner { sdk, clock, known: KnownSessions::default() });
        Sessions { most: limits.sessions, idle: limits.session_idle, inner }
    }

    /// How many streams a session's client has open to hear what nobody asked for; ends with the session.
    pub fn listening(&self, id: &str) -> Option<watch::Receiver<usize>> {
        self.inner.known.lock().get(id).map(|used| used.listening.subscribe())
    }

    /// From now on look-ups of this session are answered by its tools, past the SDK's queues: nothing comes before or
    /// after them that they would have to wait for.
    pub fn began(&self, id: &str, tools: &SessionTools) {
        if let Some(used) = self.inner.known.lock().get_mut(id) {
            used.tools = Some(tools.clone());
        }
    }

    /// The tools that answer this message at once, if it is a look-up.
    fn lookup_tools(&self, id: &SessionId, message: &ClientJsonRpcMessage) -> Option<SessionTools> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let ClientRequest::CallToolRequest(call) = &request.request else { return None };
        let known = self.inner.known.lock();
        known.get(id)?.tools.as_ref().filter(|tools| tools.looks_up(&call.params.name)).cloned()
    }

    /// Whether no session can be opened.
    pub fn is_full(&self) -> bool {
        self.inner.known.lock().len() >= self.most
    }

    fn used(&self, id: &SessionId) {
        if let Some(used) = self.inner.known.lock().get_mut(id) {
            used.last = self.inner.clock.monotonic();
        }
    }

    async fn make_room(&self) -> Result<(), SessionError> {
        while self.is_full() {
            let Some(quiet) = self.inner.known.quietest(self.inner.clock.monotonic(), IN_USE_MILLIS) else {
                return Err(SessionError::TooManySessions { most: self.most });
            };
            tracing::info!(session = %quiet, "a silent session was closed to make room for a new one");
            self.close_session(&quiet).await?;
        }
        Ok(())
    }

    fn open(&self, id: &SessionId, kind: StreamKind) -> OpenStream {
        if let Some(used) = self.inner.known.lock().get_mut(id) {
            used.streams += 1;
            if kind == StreamKind::Listening {
                used.listening.send_modify(|open| *open += 1);
            }
        }
        OpenStream { sessions: self.inner.clone(), id: id.clone(), kind }
    }
}

impl SessionsInner {
    /// Ends a call as if its client had said that it needs the answer no more. One that has ended already is not hurt.
    fn cancel(self: Arc<Self>, id: SessionId, request: RequestId) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(request), None));
            let message = ClientJsonRpcMessage::notification(ClientNotification::CancelledNotification(cancelled));
            if let Err(error) = self.sdk.accept_message(&id, message).await {
                tracing::trace!(%error, "a call that nobody waits for is gone already");
            }
        });
    }
}

/// Whether a request waits for something to happen, and so may outlast its client by far.
fn kind(message: &ClientJsonRpcMessage) -> StreamKind {
    match message {
        ClientJsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::CallToolRequest(call) if call.params.name == WAITS => {
                StreamKind::Waiting(request.id.clone())
            }
            _ => StreamKind::Answer,
        },
        _ => StreamKind::Answer,
    }
}

/// Ends sessions that nobody has used for long.
pub async fn reap(app: &App, sessions: &Sessions) {
    let idle = u64::try_from(sessions.idle.as_millis()).unwrap_or(u64::MAX);
    loop {
        tokio::select! {
            () = app.stopping().cancelled() => return,
            () = tokio::time::sleep(REAP_INTERVAL) => {}
        }
        while let Some(quiet) = sessions.inner.known.quietest(sessions.inner.clock.monotonic(), idle) {
            if let Err(error) = sessions.close_session(&quiet).await {
                tracing::debug!(%error, session = %quiet, "a silent session could not be closed");
            }
        }
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        self.make_room().await?;
        let (id, transport) = self.inner.sdk.create_session().await?;
        self.inner.known.lock().insert(id.clone(), SessionUse::new(self.inner.clock.monotonic()));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        Ok(self.inner.sdk.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.inner.sdk.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        self.inner.known.lock().remove(id);
        Ok(self.inner.sdk.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.used(id);
        if let Some(tools) = self.lookup_tools(id, &message) {
            return Ok(looked_up(&tools, message).await.right_stream());
        }
        let kind = kind(&message);
        let (stream, open) = (self.inner.sdk.create_stream(id, message).await?, self.open(id, kind));
        Ok(stream.map(move |message| held(&open, message)).left_stream())
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), SessionError> {
        self.used(id);
        Ok(self.inner.sdk.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.used(id);
        let (stream, open) = (self.inner.sdk.create_standalone_stream(id).await?, self.open(id, StreamKind::Listening));
        Ok(stream.map(move |message| held(&open, message)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.used(id);
        // Events of a stream that carries one answer name its request.
        let kind = if last_event_id.contains('/') { StreamKind::Answer } else { StreamKind::Listening };
        let (stream, open) = (self.inner.sdk.resume(id, last_event_id).await?, self.open(id, kind));
        Ok(stream.map(move |message| held(&open, message)))
    }
}

/// The answer to a look-up.
async fn looked_up(
    tools: &SessionTools,
    message: ClientJsonRpcMessage,
) -> impl Stream<Item = ServerSseMessage> + use<> {
    let answered = match message {
        ClientJsonRpcMessage::Request(request) => match request.request {
            ClientRequest::CallToolRequest(call) => {
                let answer = tools.answer(call.params, &call.extensions, &CancellationToken::new()).await;
                Some(match answer {
                    Ok(result) => ServerJsonRpcMessage::response(as_in_sessions(result), request.id),
                    Err(error) => ServerJsonRpcMessage::error(error, Some(request.id)),
                })
            }
            _ => None,
        },
        _ => None,
    };
    stream::iter(answered.map(ServerSseMessage::from_message))
}

/// Versions of the protocol that have sessions know one kind of result, and do not name it.
fn as_in_sessions(result: CallToolResult) -> ServerResult {
    let mut result = ServerResult::CallToolResult(result);
    result.strip_result_type_for_legacy_peer();
    result
}

/// Passes a message on; the stream that does so owns what keeps its session in use.
fn held(_open: &OpenStream, message: ServerSseMessage) -> ServerSseMessage {
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_silent_longest_goes_first_and_one_with_a_stream_never() {
        let known = KnownSessions::default();
        for (id, last, streams) in [("a", 5, 0), ("b", 1, 1), ("c", 3, 0)] {
            known.lock().insert(id.into(), SessionUse { streams, ..SessionUse::new(last) });
        }
        assert_eq!(known.quietest(100, 50).as_deref(), Some("c"));
        assert_eq!(known.quietest(100, 96).as_deref(), Some("c"));
        assert_eq!(known.quietest(100, 98), None);
    }
}
