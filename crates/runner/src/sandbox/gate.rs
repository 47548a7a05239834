//! The gate between a sandbox and the daemon: an HTTP proxy in the runner that sets the identity of every request.
//!
//! Every request gets the session key of the sandbox's agent. Other headers that could name the caller (`Authorization`,
//! cookies, another session key) are removed; an `X-Agent-Id` that names another agent stays, and the daemon rejects it. The
//! gate opens a connection for each request, so that it finds a restarted daemon at once.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rookery_client::{GATE, SESSION, SessionIssuer};
use rookery_core::kernel::outbound::SandboxReach;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::rule::NetworkTarget;
use super::socket;

/// Connections from the sandbox; a further one waits.
const MAX_CONNECTIONS: usize = 64;
/// Concurrent requests, streams included; a further one is answered with 503. Each is a connection to the daemon, which counts
/// all agents of a team as one process, so a few hostile ones must not use up the team's share.
const MAX_REQUESTS: usize = 64;
const MAX_STREAMS_PER_CONNECTION: u32 = 64;
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The address of the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DaemonAddress {
    Socket(PathBuf),
    /// For a daemon without a socket.
    Port(NetworkTarget),
}

/// The identity that the gate sets on every request.
#[derive(Clone, Debug)]
pub(super) struct GateIdentity {
    pub session: SessionIssuer,
    pub reach: SandboxReach,
}

/// The gate of one sandbox. Dropping it stops the gate.
#[derive(Debug)]
pub(super) struct Gate {
    serving: JoinHandle<()>,
}

impl Gate {
    /// Starts serving a socket in a folder. Must be called within a runtime.
    pub(super) fn open(
        folder: &Path,
        name: &str,
        daemon_address: DaemonAddress,
        identity: GateIdentity,
    ) -> io::Result<Gate> {
        let listener = socket::listen(folder, name)?;
        let forwarder = Forwarder { daemon_address, identity, permits: Arc::new(Semaphore::new(MAX_REQUESTS)) };
        Ok(Gate { serving: tokio::spawn(serve(listener, Arc::new(forwarder))) })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: UnixListener, forwarder: Arc<Forwarder>) {
    socket::serve(listener, MAX_CONNECTIONS, |client| {
        let forwarder = forwarder.clone();
        async move { forwarder.serve_client(client).await }
    })
    .await;
}

type GateBody = Either<Incoming, Full<Bytes>>;

#[derive(Debug)]
struct Forwarder {
    daemon_address: DaemonAddress,
    identity: GateIdentity,
    permits: Arc<Semaphore>,
}

/// The reason why the daemon did not answer a request.
enum GateFailure {
    /// The request was not sent.
    NotSent { status: StatusCode, code: &'static str, message: String, hint: &'static str },
    /// The request was sent, and the connection broke.
    OutcomeUnknown,
}

impl GateFailure {
    fn invalid(message: impl Into<String>) -> GateFailure {
        GateFailure::NotSent {
            status: StatusCode::BAD_REQUEST,
            code: "INVALID",
            message: message.into(),
            hint: "send each of these headers once",
        }
    }

    fn unreachable() -> GateFailure {
        GateFailure::NotSent {
            status: StatusCode::BAD_GATEWAY,
            code: "DAEMON_UNREACHABLE",
            message: "the daemon does not answer the gate of this sandbox".to_owned(),
            hint: "try again in a moment: it may be restarting",
        }
    }

    fn busy() -> GateFailure {
        GateFailure::NotSent {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "BUSY",
            message: format!("this sandbox has {MAX_REQUESTS} requests under way"),
            hint: "wait for the answers to earlier requests, and close streams that are not read",
        }
    }
}

impl Forwarder {
    async fn serve_client(self: Arc<Self>, client: UnixStream) {
        let service = service_fn(move |request| {
            let forwarder = self.clone();
            async move { Ok::<_, Infallible>(forwarder.answer(request).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS_PER_CONNECTION);
        // The client may be gone; then it needs no answer.
        builder.serve_connection_with_upgrades(TokioIo::new(client), service).await.ok();
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<GateBody> {
        let path = request.uri().path().to_owned();
        self.forward(request).await.unwrap_or_else(|failed| error_response(&path, &failed))
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<GateBody>, GateFailure> {
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| GateFailure::busy())?;
        let permit = Arc::new(permit);
        let upgrade = is_websocket(&request).then(|| hyper::upgrade::on(&mut request));
        let is_repeatable = request.method().is_safe();
        let request = self.with_identity(request)?;
        let mut daemon = self.connect(permit.clone()).await?;
        let sent = daemon.send_request(request).await;
        let mut response = sent.map_err(|error| match error.is_canceled() || is_repeatable {
            true => GateFailure::unreachable(),
            false => GateFailure::OutcomeUnknown,
        })?;
        match (response.status(), upgrade) {
            (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => {
                let server = hyper::upgrade::on(&mut response);
                tokio::spawn(join(client, server, permit));
            }
            (StatusCode::SWITCHING_PROTOCOLS, None) => return Err(GateFailure::OutcomeUnknown),
            _ => remove_hop_by_hop(response.headers_mut()),
        }
        Ok(response.map(Either::Left))
    }

    /// Rewrites a request for the daemon: with the agent's session and no other identity.
    fn with_identity(&self, request: Request<Incoming>) -> Result<Request<Incoming>, GateFailure> {
        let websocket = is_websocket(&request);
        let (mut parts, body) = request.into_parts();
        if parts.method == Method::CONNECT {
            return Err(GateFailure::NotSent {
                status: StatusCode::METHOD_NOT_ALLOWED,
                code: "METHOD_NOT_ALLOWED",
                message: "this is the gate to the daemon, not a proxy".to_owned(),
                hint: "use the proxy in HTTP_PROXY for other hosts",
            });
        }
        for name in SINGLE_HEADERS {
            if parts.headers.get_all(*name).iter().nth(1).is_some() {
                return Err(GateFailure::invalid(format!("header {name} was sent twice")));
            }
        }
        let host = host(&parts.uri, &parts.headers)?;
        remove_hop_by_hop(&mut parts.headers);
        remove_identities(&mut parts.headers);
        if websocket {
            parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        }
        parts.headers.insert(header::HOST, host);
        let key = self.identity.session.sandboxed_key(&self.identity.reach);
        let key =
            HeaderValue::from_str(&key).map_err(|_| GateFailure::invalid("the session key is not a valid header"))?;
        parts.headers.insert(HeaderName::from_static(SESSION), key);
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        parts.uri = Uri::from(path);
        parts.version = Version::HTTP_11;
        parts.extensions.clear();
        Ok(Request::from_parts(parts, body))
    }

    async fn connect(&self, permit: Arc<OwnedSemaphorePermit>) -> Result<SendRequest<Incoming>, GateFailure> {
        let connecting = async {
            match &self.daemon_address {
                DaemonAddress::Socket(path) => handshake(socket::connect(path).await.ok()?, permit).await,
                DaemonAddress::Port(target) => {
                    let stream = TcpStream::connect((target.host.as_str(), target.port)).await.ok()?;
                    handshake(stream, permit).await
                }
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.ok().flatten().ok_or_else(GateFailure::unreachable)
    }
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    permit: Arc<OwnedSemaphorePermit>,
) -> Option<SendRequest<Incoming>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(async move {
        // The error shows in the response.
        connection.with_upgrades().await.ok();
        drop(permit);
    });
    Some(sender)
}

/// Copies the frames of a WebSocket until either side closes it.
async fn join(client: hyper::upgrade::OnUpgrade, server: hyper::upgrade::OnUpgrade, permit: Arc<OwnedSemaphorePermit>) {
    if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
        copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await.ok();
    }
    drop(permit);
}

/// Headers that are ambiguous when sent twice.
const SINGLE_HEADERS: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "x-agent-id",
    "x-fence",
    "x-rookery-instance",
    "x-rookery-project",
    "idempotency-key",
    "mcp-session-id",
];

/// Headers that name the caller, directly or as seen by a proxy.
const IDENTITY_HEADERS: &[&str] = &["authorization", "cookie", SESSION, "x-rookery-browser", "forwarded", "x-real-ip"];

/// Hop-by-hop headers, which are not forwarded.
const HOP_BY_HOP: &[&str] =
    &["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "http2-settings"];

fn remove_identities(headers: &mut HeaderMap) {
    let foreign = |name: &str| name.starts_with("x-forwarded-") || name.starts_with("proxy-");
    let names: Vec<HeaderName> = headers.keys().filter(|name| foreign(name.as_str())).cloned().collect();
    names.iter().for_each(|name| drop(headers.remove(name)));
    IDENTITY_HEADERS.iter().for_each(|name| drop(headers.remove(*name)));
}

/// Removes hop-by-hop headers, including those that `Connection` names.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> = named.flat_map(|value| value.split(',')).map(|name| name.trim().to_owned()).collect();
    named.iter().for_each(|name| drop(headers.remove(name.as_str())));
    HOP_BY_HOP.iter().for_each(|name| drop(headers.remove(*name)));
}

/// The single host that a request is for.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<HeaderValue, GateFailure> {
    let stated = headers.get(header::HOST);
    let Some(authority) = uri.authority() else {
        return Ok(stated.cloned().unwrap_or_else(|| HeaderValue::from_static("localhost")));
    };
    let same = |stated: &HeaderValue| stated.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
    if !stated.is_none_or(same) {
        return Err(GateFailure::invalid("the address and the Host header name different hosts"));
    }
    HeaderValue::from_str(authority.as_str()).map_err(|_| GateFailure::invalid("the Host header is not valid"))
}

fn is_websocket(request: &Request<Incoming>) -> bool {
    let upgrade = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok());
    request.version() == Version::HTTP_11 && upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
}

/// An error in the form of the surface that the path belongs to.
fn error_response(path: &str, failed: &GateFailure) -> Response<GateBody> {
    let (status, code, message, hint) = match failed {
        GateFailure::NotSent { status, code, message, hint } => (*status, *code, message.as_str(), *hint),
        GateFailure::OutcomeUnknown => (
            StatusCode::BAD_GATEWAY,
            "OUTCOME_UNKNOWN",
            "the daemon did not finish its answer; whether it carried out the request is unknown",
            "check whether it was done before you repeat it, or repeat it with the same Idempotency-Key",
        ),
    };
    let body = Full::new(Bytes::from(error_body(path, status, code, message, hint).to_string()));
    let mut response = Response::new(Either::Right(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == "DAEMON_UNREACHABLE" {
        headers.insert(HeaderName::from_static(GATE), HeaderValue::from_static("unreachable"));
    }
    if status.is_server_error() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn error_body(path: &str, status: StatusCode, code: &str, message: &str, hint: &str) -> Value {
    let is_below =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_below("/clutch") {
        let retryable = status.is_server_error();
        return json!({"code": code, "message": message, "retryable": retryable, "details": {"hint": hint}});
    }
    if is_below("/mcp") {
        let error = json!({"code": -32000, "message": message, "data": {"code": code, "hint": hint}});
        return json!({"jsonrpc": "2.0", "id": null, "error": error});
    }
    json!({"error": message, "code": code, "hint": hint})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rookery_core::Timestamp;
    use rookery_core::kernel::session_key::{Session, TeamSession, hash};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    struct Setup {
        folder: tempfile::TempDir,
        _gate: Gate,
    }

    /// A gate before a daemon that answers every connection with `answer` and passes on the requests that it received.
    async fn setup(answer: &'static [u8]) -> (Setup, tokio::sync::mpsc::Receiver<String>) {
        let folder = tempfile::tempdir().unwrap();
        let daemon = socket::listen(folder.path(), "daemon.sock").unwrap();
        let (tell, requests) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = daemon.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut read = vec![0; 64 << 10];
                    let mut end = 0;
                    while !read[..end].windows(4).any(|four| four == b"\r\n\r\n") {
                        match client.read(&mut read[end..]).await {
                            Ok(0) | Err(_) => return,
                            Ok(more) => end += more,
                        }
                    }
                    tell.send(String::from_utf8_lossy(&read[..end]).into_owned()).await.ok();
                    client.write_all(answer).await.ok();
                    // An upgraded connection echoes.
                    while let Ok(more @ 1..) = client.read(&mut read).await {
                        client.write_all(&read[..more]).await.ok();
                    }
                });
            }
        });
        let daemon_address = DaemonAddress::Socket(folder.path().join("daemon.sock"));
        let gate = Gate::open(folder.path(), "gate.sock", daemon_address, identity()).unwrap();
        (Setup { folder, _gate: gate }, requests)
    }

    fn identity() -> GateIdentity {
        let team = TeamSession { team: "@pr-1".into(), generation: 2 };
        let session = SessionIssuer::new("the-key", "coder@pr-1".into(), Some(team));
        GateIdentity { session, reach: SandboxReach { hosts: vec!["ken:8080".parse().unwrap()] } }
    }

    impl Setup {
        async fn connect(&self) -> UnixStream {
            socket::connect(&self.folder.path().join("gate.sock")).await.unwrap()
        }

        async fn ask(&self, text: &str) -> String {
            let mut client = self.connect().await;
            client.write_all(text.as_bytes()).await.unwrap();
            let (mut answer, mut wait) = (Vec::new(), Duration::from_secs(20));
            while let Ok(Ok(1..)) = tokio::time::timeout(wait, client.read_buf(&mut answer)).await {
                wait = Duration::from_millis(300);
            }
            String::from_utf8_lossy(&answer).into_owned()
        }
    }

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: x-secret\r\nx-secret: 1\r\n\r\nhi";

    fn header<'t>(sent: &'t str, name: &str) -> Vec<&'t str> {
        let lines = sent.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }

    #[tokio::test]
    async fn gate_sets_its_agents_session_and_removes_other_identities() {
        let (setup, mut requests) = setup(OK).await;
        let request = "POST /tasks?x=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nCookie: rookery-p=x\r\n\
                       X-Rookery-Session: rks.6d65.00\r\nX-Rookery-Session: rks.6d65.01\r\nX-Forwarded-For: 1.1.1.1\r\n\
                       Forwarded: for=1\r\nProxy-Authorization: Basic x\r\nConnection: x-rookery-session, x-odd\r\n\
                       X-Odd: 1\r\nX-Agent-Id: other\r\nContent-Length: 2\r\n\r\n{}";
        let answer = setup.ask(request).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hi"), "{answer}");
        assert!(!answer.contains("x-secret"), "{answer}");
        let sent = requests.recv().await.unwrap();
        assert!(sent.starts_with("POST /tasks?x=1 HTTP/1.1\r\n"), "{sent}");
        for name in ["authorization", "cookie", "x-forwarded-for", "forwarded", "proxy-authorization", "x-odd"] {
            assert_eq!(header(&sent, name), [""; 0], "{name}: {sent}");
        }
        assert_eq!(header(&sent, "x-agent-id"), ["other"], "the daemon judges the name");
        let keys = header(&sent, SESSION);
        let session = Session::from_key(&hash("the-key"), keys[0], Timestamp(0)).unwrap();
        assert_eq!((keys.len(), session.agent.as_str()), (1, "coder@pr-1"));
        assert_eq!((session.team.unwrap().generation, session.sandbox.unwrap().hosts.len()), (2, 1));
    }

    #[tokio::test]
    async fn every_request_of_a_kept_connection_gets_the_session() {
        let (setup, mut requests) = setup(OK).await;
        let mut client = setup.connect().await;
        for _ in 0..3 {
            client.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let mut answer = [0; 4096];
            assert!(client.read(&mut answer).await.unwrap() > 0);
            assert_eq!(header(&requests.recv().await.unwrap(), SESSION).len(), 1);
        }
    }

    #[tokio::test]
    async fn ambiguous_requests_are_rejected() {
        let (setup, mut requests) = setup(OK).await;
        for head in [
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: b\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Agent-Id: a\r\nX-Agent-Id: b\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded: z\r\n",
        ] {
            let answer = setup.ask(&format!("{head}\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
        }
        let tunnel = setup.ask("CONNECT localhost:4700 HTTP/1.1\r\nHost: localhost:4700\r\n\r\n").await;
        assert!(tunnel.starts_with("HTTP/1.1 405 "), "{tunnel}");
        assert!(requests.try_recv().is_err(), "nothing of it reached the daemon");
    }

    #[tokio::test]
    async fn unreachable_daemon_is_reported_in_the_form_of_the_surface() {
        let (setup, _requests) = setup(OK).await;
        std::fs::remove_file(setup.folder.path().join("daemon.sock")).unwrap();
        for (path, field) in [
            ("/status", r#""code":"DAEMON_UNREACHABLE","error":"#),
            ("/clutch/v0/agents", r#""retryable":true"#),
            ("/mcp/team", r#""jsonrpc":"2.0""#),
        ] {
            let answer = setup.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(field), "{answer}");
            assert!(answer.contains("x-rookery-gate: unreachable") && answer.contains("restarting"), "{answer}");
        }
    }

    #[tokio::test]
    async fn websocket_passes_and_other_upgrades_do_not() {
        let switching = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        let (setup, mut requests) = setup(switching).await;
        let mut client = setup.connect().await;
        let head = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Key: x\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 4096];
        let read = client.read(&mut answer).await.unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer[..read]));
        let sent = requests.recv().await.unwrap();
        assert_eq!((header(&sent, "upgrade"), header(&sent, SESSION).len()), (vec!["websocket"], 1));
        client.write_all(b"frames").await.unwrap();
        let read = client.read(&mut answer).await.unwrap();
        assert_eq!(&answer[..read], b"frames");
        let other = setup.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n").await;
        let sent = requests.recv().await.unwrap();
        assert_eq!((header(&sent, "upgrade"), header(&sent, "http2-settings")), (vec![], vec![]), "{other}");
    }
}
