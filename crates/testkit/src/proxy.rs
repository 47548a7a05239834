//! A proxy in front of PostgreSQL that loses connections on demand: now, or exactly at the next COMMIT.
//!
//! It runs on a thread of its own, so that it goes on while a test waits for the daemon to start. What it must know of
//! PostgreSQL's protocol is in `proxy/wire.rs`.

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

use wire::{Exchange, Fate, Said};

/// How long [`Proxy::cut`] waits for the connections to be closed.
const CUT_LIMIT: Duration = Duration::from_secs(10);
/// How long a server may take to end a connection whose client is gone.
const FAREWELL: Duration = Duration::from_secs(60);
const CHUNK: usize = 64 * 1024;

/// What of a COMMIT still happens when the connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The server never gets it: it rolls back.
    Before,
    /// The server has committed, and its answer is lost.
    After,
    /// The client is cut off at once, and the server gets the COMMIT only after this time.
    Meanwhile(Duration),
}

/// The proxy and its controls, for any thread. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    url: Url,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// In front of the server with this URL, on a free port of 127.0.0.1.
    pub fn start(server: &str) -> Result<Proxy> {
        let mut url = Url::parse(server).context("the server's URL is none")?;
        let host = url.host_str().context("the server's URL names no host")?.to_owned();
        let target = (host, url.port().unwrap_or(5432));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        url.set_host(Some("127.0.0.1"))?;
        url.set_port(Some(listener.local_addr()?.port())).map_err(|()| anyhow!("the server's URL takes no port"))?;
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

    /// Cuts all open connections; they are closed when this returns. A COMMIT that is under way by
    /// [`When::Meanwhile`] arrives all the same.
    pub fn cut(&self) {
        self.shared.controls.send_modify(|controls| controls.cuts += 1);
        self.shared.open.wait_for_those_of_now();
    }

    /// Whether new connections are closed as soon as they are made. Open ones go on.
    pub fn refuse(&self, refuse: bool) {
        self.shared.controls.send_modify(|controls| controls.refuse = refuse);
    }

    /// Whether nothing is forwarded and nothing closed, as by a network that swallows packets. What was held back is
    /// forwarded afterwards.
    pub fn freeze(&self, freeze: bool) {
        self.shared.controls.send_modify(|controls| controls.frozen = freeze);
    }

    /// The next COMMIT of any client loses its connection. One only: to strike again, say so again. The end of a
    /// transaction that was begun `READ ONLY` does not count.
    pub fn cut_at_commit(&self, when: When) {
        self.cut_at_commit_of("", when);
    }

    /// The same, only for clients whose `application_name` contains this.
    pub fn cut_at_commit_of(&self, application: &str, when: When) {
        *lock(&self.shared.armed) = Some(Order { application: application.to_owned(), when });
    }

    /// Takes back [`Proxy::cut_at_commit`], if no COMMIT has come since.
    pub fn spare_commits(&self) {
        *lock(&self.shared.armed) = None;
    }

    /// How often a COMMIT has lost its connection.
    pub fn strikes(&self) -> u64 {
        self.shared.strikes.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        lock(&self.shared.open.set).ids.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends in any case; what it has to say, the test has seen.
            let _ended = thread.join();
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    controls: watch::Sender<Controls>,
    armed: Mutex<Option<Order>>,
    strikes: AtomicU64,
    open: Open,
}

/// Whose COMMIT is to be struck, and when.
#[derive(Debug)]
struct Order {
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
    /// Held back here as long as the network is frozen.
    async fn thawed(&self) {
        self.until(|controls| !controls.frozen).await;
    }

    async fn cut_after(&self, cuts: u64) {
        self.until(|controls| controls.cuts > cuts).await;
    }

    async fn until(&self, wanted: impl Fn(&Controls) -> bool) {
        let mut controls = self.controls.subscribe();
        // This fails only without a sender, and the sender is ours.
        drop(controls.wait_for(|controls| wanted(controls)).await);
    }

    fn struck(&self) {
        self.strikes.fetch_add(1, Ordering::SeqCst);
    }
}

/// The open connections, by the order in which they came.
#[derive(Debug, Default)]
struct Open {
    set: Mutex<Ids>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Ids {
    next: u64,
    ids: BTreeSet<u64>,
}

impl Open {
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

    fn wait_for_those_of_now(&self) {
        let set = lock(&self.set);
        let newest = set.next;
        let some_are_open = |set: &mut Ids| set.ids.first().is_some_and(|oldest| *oldest <= newest);
        let _closed = self.closed.wait_timeout_while(set, CUT_LIMIT, some_are_open);
    }
}

/// Counts a connection as open until its sockets are closed.
struct Entry {
    shared: Arc<Shared>,
    id: u64,
}

impl Entry {
    fn new(shared: &Arc<Shared>) -> Entry {
        Entry { shared: shared.clone(), id: shared.open.enter() }
    }
}

impl Drop for Entry {
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
            // Reset, which is as near to a refusal as an open port comes.
            client.set_zero_linger()?;
            continue;
        }
        let entry = Entry::new(&shared);
        tokio::spawn(serve(client, target.clone(), entry, controls.cuts));
    }
}

/// How a connection ended, if not by a cut or by one of its sides.
enum ConnectionEnd {
    Closed,
    /// The client goes at once; the server gets these last words after the delay.
    Struck {
        last_words: Vec<u8>,
        delay: Duration,
    },
}

async fn serve(client: TcpStream, target: (String, u16), entry: Entry, cuts: u64) {
    let shared = entry.shared.clone();
    let Ok(server) = TcpStream::connect((target.0.as_str(), target.1)).await else { return };
    // Small messages go at once, or every round trip would take forty milliseconds.
    let _quick = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let exchange = Mutex::new(Exchange::default());
    let end = tokio::select! {
        () = shared.cut_after(cuts) => ConnectionEnd::Closed,
        end = forward(&mut from_client, &mut to_server, &exchange, &shared) => end.unwrap_or(ConnectionEnd::Closed),
        _ = give_back(&mut from_server, &mut to_client, &exchange, &shared) => ConnectionEnd::Closed,
    };
    let ConnectionEnd::Struck { last_words, delay } = end else {
        drop((from_client, to_client, from_server, to_server));
        return drop(entry);
    };
    shared.struck();
    drop((from_client, to_client));
    drop(entry);
    tokio::time::sleep(delay).await;
    let _told = tokio::time::timeout(FAREWELL, part(from_server, to_server, &last_words)).await;
}

/// From the client to the server, until one of them has gone or a COMMIT is struck.
async fn forward(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    exchange: &Mutex<Exchange>,
    shared: &Shared,
) -> io::Result<ConnectionEnd> {
    let mut client = wire::Client::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            return Ok(ConnectionEnd::Closed);
        }
        shared.thawed().await;
        client.push(&chunk[..length]);
        let mut bytes = vec![];
        while let Some((said, message)) = client.next() {
            match strike(said, client.application(), shared) {
                Some(When::Before) => {
                    to.write_all(&bytes).await?;
                    return Ok(ConnectionEnd::Struck { last_words: vec![], delay: Duration::ZERO });
                }
                Some(When::Meanwhile(delay)) => {
                    to.write_all(&bytes).await?;
                    return Ok(ConnectionEnd::Struck { last_words: [&message, said.completion()].concat(), delay });
                }
                Some(When::After) => lock(exchange).withhold_next(),
                None => {}
            }
            lock(exchange).ask(said);
            bytes.extend(message);
        }
        to.write_all(&bytes).await?;
    }
}

/// How this message is struck, if it is; the order is then done.
fn strike(said: Said, application: &str, shared: &Shared) -> Option<When> {
    let mut armed = lock(&shared.armed);
    let order = armed.take_if(|order| said.is_commit() && application.contains(&order.application))?;
    Some(order.when)
}

/// From the server to the client, until one of them has gone or the answer of a struck COMMIT was there.
async fn give_back(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    exchange: &Mutex<Exchange>,
    shared: &Shared,
) -> io::Result<()> {
    let mut server = wire::Server::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        if length == 0 {
            return Ok(());
        }
        shared.thawed().await;
        server.push(&chunk[..length]);
        let (bytes, end) = heard(&mut server, &mut lock(exchange));
        to.write_all(&bytes).await?;
        match end {
            None => {}
            Some(Fate::WithholdAndCut) => {
                shared.struck();
                return Ok(());
            }
            Some(_) => return Err(io::Error::other("the proxy cannot read an encrypted connection")),
        }
    }
}

/// What of the server's words goes to the client, and whether it ends with them.
fn heard(server: &mut wire::Server, exchange: &mut Exchange) -> (Vec<u8>, Option<Fate>) {
    let mut bytes = vec![];
    while let Some(message) = server.next(exchange) {
        match exchange.hear(&message) {
            Fate::Pass => bytes.extend(message),
            Fate::Withhold => {}
            end @ (Fate::WithholdAndCut | Fate::Encrypted) => return (bytes, Some(end)),
        }
    }
    (bytes, None)
}

/// Says the last words to a server whose client has gone, and waits until it closes. Closing first could make it lose
/// what it has not yet read.
async fn part(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, last_words: &[u8]) -> io::Result<()> {
    to.write_all(last_words).await?;
    to.shutdown().await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(())
}

/// A thread that panicked holding one of our locks has failed its test already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
