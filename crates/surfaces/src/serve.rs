//! The sockets: TCP with or without TLS, and the Unix socket. Bounded, with a limit on how long a client may not read.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tower::Layer;

use crate::app::App;
use crate::guard::Via;

/// How long connections may finish what they are doing when the daemon stops.
const GRACE: Duration = Duration::from_secs(5);
const HEADER_TIME: Duration = Duration::from_secs(10);

/// What to listen on.
#[derive(Debug)]
pub struct Listening {
    pub tcp: TcpListener,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub unix: Option<UnixListener>,
}

/// Serves every face until the app is told to stop.
#[derive(Debug)]
pub struct Server {
    app: App,
    /// Made once; a connection takes a cheap copy.
    routes: Router,
    connections: Arc<Semaphore>,
}

impl Server {
    pub fn new(app: App) -> Server {
        let connections = Arc::new(Semaphore::new(app.limits().connections));
        Server { routes: crate::router(app.clone()), app, connections }
    }

    pub async fn run(self, listening: Listening) {
        let graceful = GracefulShutdown::new();
        let stopping = self.app.stopping().clone();
        let tls = listening.tls.map(TlsAcceptor::from);
        let upkeep = tokio::spawn(crate::ops::keep_up());
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                accepted = listening.tcp.accept() => self.tcp(accepted, tls.as_ref(), &graceful).await,
                accepted = accept_unix(listening.unix.as_ref()) => self.unix(accepted, &graceful).await,
            }
        }
        upkeep.abort();
        drop(listening.tcp);
        drop(listening.unix);
        if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
            tracing::info!("some connections were closed before they were done");
        }
    }

    async fn tcp(
        &self,
        accepted: io::Result<(tokio::net::TcpStream, std::net::SocketAddr)>,
        tls: Option<&TlsAcceptor>,
        graceful: &GracefulShutdown,
    ) {
        let Some(stream) = settled(accepted.map(|(stream, _)| stream)).await else { return };
        // Small answers must not wait for more to come.
        drop(stream.set_nodelay(true));
        match tls.cloned() {
            None => self.spawn(stream, Via::Tcp, graceful),
            Some(acceptor) => match tokio::time::timeout(HEADER_TIME, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.spawn(stream, Via::Tcp, graceful),
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            },
        }
    }

    async fn unix(&self, accepted: io::Result<tokio::net::UnixStream>, graceful: &GracefulShutdown) {
        let Some(stream) = settled(accepted).await else { return };
        let own = rustix::process::getuid().as_raw();
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == own || peer.uid() == 0 => self.spawn(stream, Via::Socket, graceful),
            _ => tracing::warn!("a connection to the socket by another user was refused"),
        }
    }

    fn spawn<S>(&self, stream: S, via: Via, graceful: &GracefulShutdown)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(permit) = self.connections.clone().try_acquire_owned() else {
            tracing::warn!("a connection was refused: there are too many");
            return;
        };
        let stream = TokioIo::new(Impatient::new(stream, self.app.limits().write_time));
        let service = TowerToHyperService::new(Extension(via).layer(self.routes.clone()));
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(64 * 1024);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(256);
        let connection = graceful.watch(builder.serve_connection(stream, service).into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
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

/// A stream whose writes fail when the other side leaves them unread for too long.
struct Impatient<S> {
    inner: S,
    limit: Duration,
    blocked: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    fn new(inner: S, limit: Duration) -> Impatient<S> {
        Impatient { inner, limit, blocked: None }
    }

    /// Starts, goes on with, or ends the wait for the other side.
    fn judge<T>(&mut self, context: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.blocked = None;
            return poll;
        }
        let limit = self.limit;
        let blocked = self.blocked.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match blocked.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
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
