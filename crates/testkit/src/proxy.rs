//! A proxy in front of PostgreSQL that cuts connections on demand: at once, or exactly at the next COMMIT.
//!
//! It runs on its own thread, and so keeps running while a test waits for the daemon to start. `proxy/wire.rs` parses as much
//! of PostgreSQL's protocol as this needs.

mod wire;

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{oneshot, watch};

use wire::{Exchange, Fate, MessageKind};

/// How long [`Proxy::cut`] waits for the connections to be closed.
const CUT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to close a connection whose client is gone.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);
const CHUNK_SIZE: usize = 64 * 1024;

/// The moment at which a COMMIT loses its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the server receives the COMMIT, so that it rolls back.
    Before,
    /// After the server has committed, so that its answer is lost.
    After,
    /// The client is cut off at once, and the server receives the COMMIT after this delay.
    Meanwhile(Duration),
}

/// The proxy and its controls, for any thread. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    url: Url,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy for the server with this URL, on a free port of 127.0.0.1.
    pub fn start(server: &str) -> Result<Proxy> {
        let mut url = Url::parse(server).context("cannot parse the server's URL")?;
        let host = url.host_str().context("the server's URL has no host")?.to_owned();
        let target = (host, url.port().unwrap_or(5432));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        url.set_host(Some("127.0.0.1"))?;
        url.set_port(Some(listener.local_addr()?.port()))
            .map_err(|()| anyhow!("cannot set the port of the server's URL"))?;
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let accepting = accept(listener, target, shared.clone());
        let thread = std::thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! { _ = stopped => {}, _ = accepting => {} }
            });
        })?;
        Ok(Proxy { url, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The server's URL with the proxy's port.
    pub fn url(&self) -> String {
        self.url.to_string()
    }

    /// Cuts all open connections and waits until they are closed. A COMMIT that is delayed by [`When::Meanwhile`] still
    /// arrives.
    pub fn cut(&self) {
        self.shared.controls.send_modify(|controls| controls.cuts += 1);
        self.shared.open.wait_until_closed();
    }

    /// Sets whether new connections are closed at once. Open connections continue.
    pub fn refuse(&self, refuse: bool) {
        self.shared.controls.send_modify(|controls| controls.refuse = refuse);
    }

    /// Sets whether the proxy forwards and closes nothing, like a network that drops packets. After thawing, it forwards
    /// the bytes that it held back.
    pub fn freeze(&self, freeze: bool) {
        self.shared.controls.send_modify(|controls| controls.frozen = freeze);
    }

    /// Cuts the connection of the next COMMIT of any client, once for each call. The end of a `READ ONLY` transaction does
    /// not count.
    pub fn cut_at_commit(&self, when: When) {
        self.cut_at_commit_of("", when);
    }

    /// Like [`Proxy::cut_at_commit`], for clients whose `application_name` contains this text.
    pub fn cut_at_commit_of(&self, application: &str, when: When) {
        *lock(&self.shared.armed) = Some(CommitCut { application: application.to_owned(), when });
    }

    /// Cancels [`Proxy::cut_at_commit`], unless a COMMIT was cut already.
    pub fn cancel_cut_at_commit(&self) {
        *lock(&self.shared.armed) = None;
    }

    /// The number of COMMITs that lost their connection.
    pub fn commits_cut(&self) -> u64 {
        self.shared.commits_cut.load(Ordering::SeqCst)
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        lock(&self.shared.open.set).ids.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has shown in the test already.
            thread.join().ok();
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    controls: watch::Sender<Controls>,
    armed: Mutex<Option<CommitCut>>,
    commits_cut: AtomicU64,
    open: OpenConnections,
}

/// The COMMIT to cut: of which clients, and at which moment.
#[derive(Debug)]
struct CommitCut {
    application: String,
    when: When,
}

#[derive(Clone, Copy, Debug, Default)]
struct Controls {
    refuse: bool,
    frozen: bool,
    cuts: u64,
}

impl Shared {
    /// Waits until the proxy is not frozen.
    async fn wait_until_thawed(&self) {
        self.wait_until(|controls| !controls.frozen).await;
    }

    /// Waits for the next cut after this number of cuts.
    async fn wait_for_cut(&self, cuts: u64) {
        self.wait_until(|controls| controls.cuts > cuts).await;
    }

    async fn wait_until(&self, wanted: impl Fn(&Controls) -> bool) {
        let mut controls = self.controls.subscribe();
        // Fails only without a sender, and `self` owns the sender.
        drop(controls.wait_for(|controls| wanted(controls)).await);
    }

    fn count_commit_cut(&self) {
        self.commits_cut.fetch_add(1, Ordering::SeqCst);
    }
}

/// The open connections, in the order of their arrival.
#[derive(Debug, Default)]
struct OpenConnections {
    set: Mutex<ConnectionIds>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct ConnectionIds {
    next: u64,
    ids: BTreeSet<u64>,
}

impl OpenConnections {
    fn enter(&self) -> u64 {
        let mut set = lock(&self.set);
        set.next += 1;
        let id = set.next;
        set.ids.insert(id);
        id
    }

    fn leave(&self, id: u64) {
        lock(&self.set).ids.remove(&id);
        self.closed.notify_all();
    }

    fn wait_until_closed(&self) {
        let set = lock(&self.set);
        let newest = set.next;
        let some_are_open = |set: &mut ConnectionIds| set.ids.first().is_some_and(|oldest| *oldest <= newest);
        drop(self.closed.wait_timeout_while(set, CUT_TIMEOUT, some_are_open));
    }
}

/// Counts a connection as open until its sockets are closed.
struct OpenConnection {
    shared: Arc<Shared>,
    id: u64,
}

impl OpenConnection {
    fn new(shared: &Arc<Shared>) -> OpenConnection {
        OpenConnection { shared: shared.clone(), id: shared.open.enter() }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.shared.open.leave(self.id);
    }
}

async fn accept(listener: TcpListener, target: (String, u16), shared: Arc<Shared>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        let controls = *shared.controls.borrow();
        if controls.refuse {
            // A reset is the closest that an open port gets to a refused connection.
            client.set_zero_linger()?;
            continue;
        }
        let connection = OpenConnection::new(&shared);
        tokio::spawn(serve(client, target.clone(), connection, controls.cuts));
    }
}

/// How forwarding ended.
enum ConnectionEnd {
    Closed,
    /// The client is cut off at once, and the server receives these last bytes after the delay.
    CommitCut {
        last_bytes: Vec<u8>,
        delay: Duration,
    },
}

async fn serve(client: TcpStream, target: (String, u16), connection: OpenConnection, cuts: u64) {
    let shared = connection.shared.clone();
    let Ok(server) = TcpStream::connect((target.0.as_str(), target.1)).await else { return };
    // Without `TCP_NODELAY`, every round trip would take forty milliseconds.
    client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).ok();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let exchange = Mutex::new(Exchange::default());
    let end = tokio::select! {
        () = shared.wait_for_cut(cuts) => ConnectionEnd::Closed,
        end = forward(&mut from_client, &mut to_server, &exchange, &shared) => end.unwrap_or(ConnectionEnd::Closed),
        _ = forward_answers(&mut from_server, &mut to_client, &exchange, &shared) => ConnectionEnd::Closed,
    };
    let ConnectionEnd::CommitCut { last_bytes, delay } = end else {
        drop((from_client, to_client, from_server, to_server));
        return drop(connection);
    };
    shared.count_commit_cut();
    drop((from_client, to_client));
    drop(connection);
    tokio::time::sleep(delay).await;
    drop(tokio::time::timeout(CLOSE_TIMEOUT, finish_server(from_server, to_server, &last_bytes)).await);
}

/// Forwards from the client to the server, until one of them closes or a COMMIT is cut.
async fn forward(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    exchange: &Mutex<Exchange>,
    shared: &Shared,
) -> io::Result<ConnectionEnd> {
    let mut client = wire::Client::default();
    let mut chunk = vec![0; CHUNK_SIZE];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            return Ok(ConnectionEnd::Closed);
        }
        shared.wait_until_thawed().await;
        client.push(&chunk[..length]);
        let mut bytes = vec![];
        while let Some((kind, message)) = client.next() {
            match take_commit_cut(kind, client.application(), shared) {
                Some(When::Before) => {
                    to.write_all(&bytes).await?;
                    return Ok(ConnectionEnd::CommitCut { last_bytes: vec![], delay: Duration::ZERO });
                }
                Some(When::Meanwhile(delay)) => {
                    to.write_all(&bytes).await?;
                    return Ok(ConnectionEnd::CommitCut { last_bytes: [&message, kind.completion()].concat(), delay });
                }
                Some(When::After) => lock(exchange).withhold_next(),
                None => {}
            }
            lock(exchange).ask(kind);
            bytes.extend(message);
        }
        to.write_all(&bytes).await?;
    }
}

/// Takes the armed cut, if it applies to this message.
fn take_commit_cut(kind: MessageKind, application: &str, shared: &Shared) -> Option<When> {
    let mut armed = lock(&shared.armed);
    let cut = armed.take_if(|cut| kind.is_commit() && application.contains(&cut.application))?;
    Some(cut.when)
}

/// Forwards from the server to the client, until one of them closes or the answer to a cut COMMIT has arrived.
async fn forward_answers(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    exchange: &Mutex<Exchange>,
    shared: &Shared,
) -> io::Result<()> {
    let mut server = wire::Server::default();
    let mut chunk = vec![0; CHUNK_SIZE];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            return Ok(());
        }
        shared.wait_until_thawed().await;
        server.push(&chunk[..length]);
        let (bytes, end) = filter_answers(&mut server, &mut lock(exchange));
        to.write_all(&bytes).await?;
        match end {
            None => {}
            Some(Fate::WithholdAndCut) => {
                shared.count_commit_cut();
                return Ok(());
            }
            Some(_) => return Err(io::Error::other("the proxy cannot read an encrypted connection")),
        }
    }
}

/// Returns the server's bytes for the client, and the fate that ends the connection, if any.
fn filter_answers(server: &mut wire::Server, exchange: &mut Exchange) -> (Vec<u8>, Option<Fate>) {
    let mut bytes = vec![];
    while let Some(message) = server.next(exchange) {
        match exchange.judge(&message) {
            Fate::Pass => bytes.extend(message),
            Fate::Withhold => {}
            end @ (Fate::WithholdAndCut | Fate::Encrypted) => return (bytes, Some(end)),
        }
    }
    (bytes, None)
}

/// Sends the last bytes to a server whose client is gone, and waits until it closes. Closing first could make the server
/// lose bytes that it has not read.
async fn finish_server(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, last_bytes: &[u8]) -> io::Result<()> {
    to.write_all(last_bytes).await?;
    to.shutdown().await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Ignores poisoning: a thread that panicked with a lock has failed its test already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
