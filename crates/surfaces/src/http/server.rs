//! The sockets: TCP with or without TLS, and the Unix socket. Bounded, with a limit on how long a client may not speak
//! and on how long it may not read.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rookery_core::{Code, Instance};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tower::Layer;

use super::error::HttpError;
use super::guard::Via;
use super::limits::{Account, RequestPermit};
use super::peer;
use super::response_body::Hangup;
use super::state::App;

/// How long connections may finish what they are doing when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);
/// How often an HTTP/2 client is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How many clients can be told at the same time that there are too many connections, and how long each has to hear it.
const REFUSALS: usize = 64;
const REFUSAL_TIME: Duration = Duration::from_secs(2);
/// What opens HTTP/2 has this length. Until so much has come, nobody but us can tell that a client is silent.
const OPENING_BYTES: usize = 24;

/// What to listen on.
#[derive(Debug)]
pub struct Listening {
    pub tcp: TcpListener,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub unix: Option<UnixListener>,
}

/// The routes of an instance's socket.
pub type InstanceRoutes = Arc<dyn Fn(Instance) -> Router + Send + Sync>;

/// Serves the routes of the surfaces until the app is told to stop.
pub struct Server {
    served: Served,
    instance_routes: Option<InstanceRoutes>,
    refusals: Arc<Semaphore>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("served", &self.served).finish_non_exhaustive()
    }
}

/// The state of every connection. The routes are made once; a connection takes a cheap copy.
#[derive(Clone, Debug)]
struct Served {
    app: App,
    routes: Router,
}

impl Server {
    pub fn new(app: App, routes: Router) -> Server {
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        Server { served: Served { routes, app }, instance_routes: None, refusals }
    }

    /// Also opens the sockets of instances, with these routes.
    #[must_use]
    pub fn with_instance_routes(self, routes: InstanceRoutes) -> Server {
        Server { instance_routes: Some(routes), ..self }
    }

    pub(crate) fn app(&self) -> &App {
        &self.served.app
    }

    pub async fn run(self, listening: Listening) {
        let this = Arc::new(self);
        let instances = this
            .instance_routes
            .clone()
            .map(|routes| tokio::spawn(super::instance_sockets::keep(this.clone(), routes)));
        this.serve(listening).await;
        if let Some(instances) = instances {
            // It ends by itself when the daemon stops, and leaves no socket behind.
            drop(instances.await);
        }
    }

    /// Serves the socket of an instance until it is dropped.
    pub(crate) async fn accept_instance(self: Arc<Server>, listener: UnixListener, routes: Router) {
        let graceful = GracefulShutdown::new();
        let served = Served { app: self.served.app.clone(), routes };
        loop {
            self.unix(accept_unix(Some(&listener)).await, &served, &graceful).await;
        }
    }

    async fn serve(&self, listening: Listening) {
        let graceful = GracefulShutdown::new();
        let stopping = self.served.app.stopping().clone();
        let tls = listening.tls.map(TlsAcceptor::from);
        let upkeep = tokio::spawn(super::ops::keep_up());
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                accepted = listening.tcp.accept() => self.tcp(accepted, tls.as_ref(), &graceful).await,
                accepted = accept_unix(listening.unix.as_ref()) => self.unix(accepted, &self.served, &graceful).await,
            }
        }
        upkeep.abort();
        drop(listening.tcp);
        drop(listening.unix);
        if tokio::time::timeout(GRACE, self.ended(graceful)).await.is_err() {
            tracing::info!("some connections were closed before they were done");
        }
    }

    /// Waits for connections, and for streams that have outgrown theirs: a WebSocket is none of the server's any more.
    async fn ended(&self, graceful: GracefulShutdown) {
        tokio::join!(graceful.shutdown(), self.served.app.streams().emptied());
    }

    async fn tcp(
        &self,
        accepted: io::Result<(tokio::net::TcpStream, std::net::SocketAddr)>,
        tls: Option<&TlsAcceptor>,
        graceful: &GracefulShutdown,
    ) {
        let Some((stream, address)) = settled(accepted).await else { return };
        // Small answers must not wait for more to come.
        drop(stream.set_nodelay(true));
        let (served, watcher) = (self.served.clone(), graceful.watcher());
        let account = match address.ip().to_canonical() {
            ip if ip.is_loopback() => Account::Loopback,
            ip => Account::Address(ip),
        };
        match (self.app().connections().take(account), tls.cloned()) {
            (Ok(place), None) => drop(tokio::spawn(serve(served, stream, Via::Tcp, watcher, place))),
            (Ok(place), Some(acceptor)) => {
                // In a task of its own: whoever is slow to greet us keeps nobody else waiting.
                tokio::spawn(async move {
                    match tokio::time::timeout(served.app.limits().header_time, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => serve(served, stream, Via::Tcp, watcher, place).await,
                        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!("a TLS handshake took too long"),
                    }
                });
            }
            (Err(_), None) => self.refuse(stream),
            (Err(_), Some(_)) => tracing::warn!("a connection was refused: there are too many"),
        }
    }

    async fn unix(&self, accepted: io::Result<tokio::net::UnixStream>, served: &Served, graceful: &GracefulShutdown) {
        let Some(stream) = settled(accepted).await else { return };
        let process = match peer::check(&stream) {
            Ok(process) => process,
            Err(stranger) => {
                tracing::warn!("a connection to the socket was closed: {}", stranger.as_str());
                return;
            }
        };
        // The proxy of a sandbox is one process, however many connections its agent opens.
        match self.app().connections().take(Account::Process(process)) {
            Ok(place) => {
                drop(tokio::spawn(serve(served.clone(), stream, Via::Socket, graceful.watcher(), place)));
            }
            Err(_) => self.refuse(stream),
        }
    }

    /// Says that there are too many connections, as long as there are not too many of those who must be told.
    fn refuse<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        tracing::warn!("a connection was refused: there are too many");
        let Ok(place) = self.refusals.clone().try_acquire_owned() else { return };
        tokio::spawn(async move {
            let answer = service_fn(|_| async { Ok::<_, Infallible>(too_many_connections()) });
            let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer);
            drop(tokio::time::timeout(REFUSAL_TIME, connection).await);
            drop(place);
        });
    }
}

fn too_many_connections() -> Response {
    HttpError::new(Code::TooManyConnections, "no more connections can be opened here")
        .hint("close those that are not needed, or raise max_connections")
        .retry_after(1)
        .into_response()
}

/// Serves one connection until it ends. Its place is free afterwards.
async fn serve<S>(served: Served, stream: S, via: Via, watcher: Watcher, place: RequestPermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = served.app.limits();
    let stream = TokioIo::new(Impatient::new(stream, limits.header_time, limits.write_time));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_time).max_buf_size(64 * 1024);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).max_concurrent_streams(256);
    let hangup = Hangup::default();
    let service = TowerToHyperService::new((Extension(via), Extension(hangup.clone())).layer(served.routes));
    let connection = watcher.watch(builder.serve_connection_with_upgrades(stream, service).into_owned());
    tokio::select! {
        // Dropping the connection ends all that it carries.
        () = hangup.0.cancelled() => {}
        served = connection => if let Err(error) = served {
            tracing::debug!(%error, "a connection ended early");
        },
    }
    drop(place);
}

/// Accepting may fail for a moment, as when files run out: that must not turn into a busy loop.
async fn settled<S>(accepted: io::Result<S>) -> Option<S> {
    match accepted {
        Ok(stream) => Some(stream),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn accept_unix(listener: Option<&UnixListener>) -> io::Result<tokio::net::UnixStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Opens the Unix socket, readable and writable by this user alone.
pub fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// A stream that fails when the other side does not begin to speak, or leaves what we write unread for too long.
struct Impatient<S> {
    inner: S,
    /// Runs until the client has said enough to tell which protocol it speaks.
    opening: Option<Opening>,
    limit: Duration,
    blocked: Option<Pin<Box<Sleep>>>,
}

struct Opening {
    deadline: Pin<Box<Sleep>>,
    missing: usize,
}

impl<S> Impatient<S> {
    fn new(inner: S, opening: Duration, limit: Duration) -> Impatient<S> {
        let opening = Opening { deadline: Box::pin(tokio::time::sleep(opening)), missing: OPENING_BYTES };
        Impatient { inner, opening: Some(opening), limit, blocked: None }
    }

    /// Starts, goes on with, or ends the wait for the other side.
    fn judge<T>(&mut self, context: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        // We answer, so the client has spoken.
        self.opening = None;
        if poll.is_ready() {
            self.blocked = None;
            return poll;
        }
        let limit = self.limit;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match blocked.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(timed_out("the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn timed_out(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, message)
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(context, buffer);
        let Some(opening) = &mut self.opening else { return poll };
        if poll.is_ready() {
            opening.missing = opening.missing.saturating_sub(buffer.filled().len() - before);
            if opening.missing == 0 {
                self.opening = None;
            }
            return poll;
        }
        opening.deadline.as_mut().poll(context).map(|()| Err(timed_out("the client says nothing")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(context, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(context, buffers);
        self.judge(context, poll)
    }
}
