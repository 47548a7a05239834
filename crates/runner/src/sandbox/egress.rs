//! The way out of a sandbox: a proxy in the runner that reaches what the agent may reach, and nothing else.
//!
//! It speaks HTTP proxy (CONNECT, and plain requests) on a Unix socket that the sandbox gets. Names are resolved here, once
//! for each connection, and the address that was looked at is the one that is connected to. What is refused is told.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rookery_core::Area;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::request::{self, Kind, ProxyRequest};
use super::rule::{Rules, Target};
use super::socket;
use crate::backend::{BackendEvent, Events, WeakEvents};

/// Connections at once; a further one waits.
const CONNECTIONS: usize = 256;
const ASK_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Hosts that are told of in a turn; a program that tries more is told of enough.
const TOLD: usize = 20;

/// The proxy of one agent, as long as this is kept.
#[derive(Debug)]
pub(super) struct Egress {
    door: Arc<Door>,
    serving: JoinHandle<()>,
}

/// What the proxy goes by.
#[derive(Debug)]
struct Door {
    agent: String,
    rules: Rules,
    daemon: DaemonRoute,
    telling: Mutex<Telling>,
}

/// The way to the daemon, which leads through the gate also by the proxy.
#[derive(Clone, Debug)]
pub(super) struct DaemonRoute {
    /// The port that the daemon had when the sandbox was made.
    pub port: u16,
    /// The file in which a daemon says where it is, for one that was restarted elsewhere.
    pub file: PathBuf,
    /// The socket of the gate.
    pub gate: PathBuf,
}

impl DaemonRoute {
    /// Whether an address is the daemon's: its port, on this machine by any of its addresses.
    fn leads_to(&self, address: SocketAddr) -> bool {
        let port = address.port();
        (port == self.port || self.port_now() == Some(port)) && is_on_this_machine(address.ip())
    }

    fn port_now(&self) -> Option<u16> {
        let file: serde_json::Value = serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()?;
        Target::of_url(file["url"].as_str()?).map(|daemon| daemon.port)
    }
}

/// Only an address of this machine can be bound to.
fn is_on_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// Whom refusals are told, and which were already.
#[derive(Debug, Default)]
struct Telling {
    events: Option<WeakEvents>,
    told: HashSet<Target>,
}

impl Egress {
    /// Begins to serve a socket in a folder. Must be called within a runtime.
    pub(super) fn open(
        folder: &Path,
        name: &str,
        agent: &str,
        rules: Rules,
        daemon: DaemonRoute,
    ) -> io::Result<Egress> {
        let listener = socket::listen(folder, name)?;
        let door = Arc::new(Door { agent: agent.to_owned(), rules, daemon, telling: Mutex::default() });
        let serving = tokio::spawn(serve(listener, door.clone()));
        Ok(Egress { door, serving })
    }

    /// From now on, refusals are told here, each host once.
    pub(super) fn tell(&self, events: &Events) {
        let mut telling = self.door.telling.lock().unwrap_or_else(PoisonError::into_inner);
        *telling = Telling { events: Some(events.weak()), told: HashSet::new() };
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: UnixListener, door: Arc<Door>) {
    socket::serve(listener, CONNECTIONS, |client| {
        let door = door.clone();
        async move { door.take(client).await }
    })
    .await;
}

/// The other end of a connection.
enum Server {
    Host(TcpStream),
    /// The daemon, by the gate.
    Gate(UnixStream),
}

/// Why there is no way to a target.
enum No {
    /// It may not be reached.
    Refused(&'static str),
    /// It could not be.
    Failed(String),
}

impl Door {
    async fn take(&self, mut client: UnixStream) {
        let asked = tokio::time::timeout(ASK_TIMEOUT, request::read(&mut client)).await.ok().flatten();
        let Some(ProxyRequest { target, kind }) = asked else {
            return answer(
                &mut client,
                "400 Bad Request",
                "this is a proxy, and the request was not one for a proxy, or could be read in two ways",
            )
            .await;
        };
        match self.connect(&target).await {
            Ok(Server::Host(server)) => drop(join(client, server, kind).await),
            Ok(Server::Gate(gate)) => drop(join(client, gate, kind).await),
            Err(No::Failed(why)) => {
                answer(&mut client, "502 Bad Gateway", &format!("{target} cannot be reached: {why}")).await;
            }
            Err(No::Refused(why)) => {
                self.note(&target, why);
                let text = format!("{target} may not be reached from this sandbox: {why}");
                answer(&mut client, "403 Forbidden", &text).await;
            }
        }
    }

    async fn connect(&self, target: &Target) -> Result<Server, No> {
        let area = self.rules.area(target).ok_or(No::Refused(NOT_NAMED))?;
        let addresses = resolve(target, area).await?;
        if addresses.iter().any(|address| self.daemon.leads_to(*address)) {
            let gate = socket::connect(&self.daemon.gate).await;
            return gate.map(Server::Gate).map_err(|error| No::Failed(error.to_string()));
        }
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&addresses[..])).await;
        match connecting {
            Ok(Ok(server)) => Ok(Server::Host(server)),
            Ok(Err(error)) => Err(No::Failed(error.to_string())),
            Err(_elapsed) => Err(No::Failed("it does not answer".to_owned())),
        }
    }

    fn note(&self, target: &Target, why: &str) {
        let mut telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        if telling.told.len() < TOLD && telling.told.insert(target.clone()) {
            let note = format!("{} was kept from reaching {target}: {why}", self.agent);
            telling.events.iter().for_each(|events| events.tell(BackendEvent::Note(note.clone())));
        }
    }
}

const NOT_NAMED: &str = "name the host under `sandbox: network` in the workflow file if the agent is to reach it";
const NEARBY: &str =
    "its address is on this machine or in a private network; name this very host under `sandbox: network`";
const NEVER: &str = "its address is where no host is; name the address itself under `sandbox: network`";

/// The addresses of a target that may be connected to.
async fn resolve(target: &Target, area: Area) -> Result<Vec<SocketAddr>, No> {
    let found = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::lookup_host((target.host.as_str(), target.port)));
    let found: Vec<SocketAddr> = match found.await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(_)) | Err(_) => return Err(No::Failed("its name is not known".to_owned())),
    };
    let fitting: Vec<SocketAddr> = found.iter().copied().filter(|address| Area::of(address.ip()) <= area).collect();
    match (fitting.is_empty(), found.first().map(|address| Area::of(address.ip()))) {
        (false, _) => Ok(fitting),
        (true, None) => Err(No::Failed("its name has no address".to_owned())),
        (true, Some(Area::Nearby)) => Err(No::Refused(NEARBY)),
        (true, Some(_)) => Err(No::Refused(NEVER)),
    }
}

/// Carries bytes both ways until both sides are done.
async fn join(mut client: UnixStream, mut server: impl AsyncRead + AsyncWrite + Unpin, kind: Kind) -> io::Result<()> {
    match kind {
        Kind::Tunnel { early } => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            server.write_all(&early).await?;
        }
        Kind::Plain { begins } => server.write_all(&begins).await?,
    }
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

async fn answer(client: &mut UnixStream, status: &str, text: &str) {
    let length = text.len() + 1;
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n");
    // A client that left needs no answer.
    drop(client.write_all(format!("{head}\r\n{text}\n").as_bytes()).await);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::Receiver;

    use super::super::rule::Rule;
    use super::*;

    struct Setup {
        folder: tempfile::TempDir,
        egress: Egress,
        events: Events,
        told: Receiver<BackendEvent>,
    }

    fn setup(rules: Vec<Rule>) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let daemon =
            DaemonRoute { port: 4700, file: folder.path().join("daemon.json"), gate: folder.path().join("gate.sock") };
        let egress = Egress::open(folder.path(), "e.sock", "coder@pr-1", Rules(rules), daemon).unwrap();
        let (events, told) = Events::bounded(8);
        egress.tell(&events);
        Setup { folder, egress, events, told }
    }

    impl Setup {
        async fn ask(&self, text: &str) -> String {
            let mut client = socket::connect(&self.folder.path().join("e.sock")).await.unwrap();
            client.write_all(text.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        }
    }

    /// Answers each connection with the first line that it is sent.
    async fn echo() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut client = BufReader::new(client);
                let mut line = String::new();
                client.read_line(&mut line).await.unwrap();
                client.write_all(format!("got {line}").as_bytes()).await.unwrap();
            }
        });
        port
    }

    #[tokio::test]
    async fn what_is_named_is_reached_by_a_tunnel_and_by_a_plain_request() {
        let port = echo().await;
        let setup = setup(vec![Rule::said(&format!("localhost:{port}"))]);
        let tunnel = setup.ask(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\nhello\n")).await;
        assert_eq!(tunnel, "HTTP/1.1 200 Connection established\r\n\r\ngot hello\n");
        let plain = setup.ask(&format!("GET http://localhost:{port}/a?b HTTP/1.1\r\n\r\n")).await;
        assert_eq!(plain, "got GET /a?b HTTP/1.1\r\n");
    }

    #[tokio::test]
    async fn what_is_not_named_is_refused_and_told_once() {
        let port = echo().await;
        let mut setup = setup(vec![Rule::said("api.example.com")]);
        for _again in 0..2 {
            let answer = setup.ask(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("sandbox: network"), "{answer}");
        }
        let BackendEvent::Note(note) = setup.told.recv().await.unwrap() else { panic!() };
        assert!(note.starts_with(&format!("coder@pr-1 was kept from reaching 127.0.0.1:{port}: ")), "{note}");
        assert!(setup.told.try_recv().is_err());
        let (events, mut next) = Events::bounded(8);
        setup.egress.tell(&events);
        setup.ask(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")).await;
        assert!(next.recv().await.is_some(), "in the next turn it is told again");
        drop((events, setup.events));
        assert!(next.recv().await.is_none(), "and the events of a turn end with it");
    }

    #[tokio::test]
    async fn a_name_leads_into_no_private_network_unless_a_person_named_it() {
        let port = echo().await;
        let setup = setup(vec![Rule::needed(&format!("localhost:{port}"))]);
        let answer = setup.ask(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("private network"), "{answer}");
    }

    #[tokio::test]
    async fn rule_for_the_daemons_port_leads_to_the_gate() {
        let port = echo().await;
        let setup = setup(vec![Rule::said(&format!("localhost:{port}")), Rule::said(&format!("127.0.0.1:{port}"))]);
        std::fs::write(setup.folder.path().join("daemon.json"), format!(r#"{{"url":"http://127.0.0.1:{port}"}}"#))
            .unwrap();
        let gate = socket::listen(setup.folder.path(), "gate.sock").unwrap();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = gate.accept().await {
                client.write_all(b"the gate").await.unwrap();
                client.shutdown().await.unwrap();
                tokio::spawn(async move { tokio::io::copy(&mut client, &mut tokio::io::sink()).await });
            }
        });
        for host in ["localhost", "127.0.0.1", "0x7f.1", "[::ffff:127.0.0.1]"] {
            let tunnel = setup.ask(&format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n")).await;
            assert!(tunnel.ends_with("the gate"), "{host}: {tunnel}");
        }
        let plain = setup.ask(&format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n")).await;
        assert_eq!(plain, "the gate");
    }

    #[tokio::test]
    async fn a_host_that_is_down_and_a_request_that_is_none_are_told_apart() {
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let setup = setup(vec![Rule::said(&format!("127.0.0.1:{unused}"))]);
        let answer = setup.ask(&format!("CONNECT 127.0.0.1:{unused} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(setup.ask("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    }
}
