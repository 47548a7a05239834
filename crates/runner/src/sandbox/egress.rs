//! The proxy of a sandbox, in the runner: it connects to the hosts that the agent may reach, and to no others.
//!
//! It is an HTTP proxy (CONNECT, and plain requests) on a Unix socket that is mounted into the sandbox. Each connection
//! resolves its name once, here, and connects to the address that was checked. Rejected connections are reported.

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

use super::request::{self, ProxyRequest, ProxyRequestKind};
use super::rule::{NetworkRules, NetworkTarget};
use super::socket;
use crate::backend::{BackendEvent, Events, WeakEvents};

/// Connections at once; a further one waits.
const MAX_CONNECTIONS: usize = 256;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of hosts that are reported in a turn.
const MAX_REPORTED_HOSTS: usize = 20;

/// The proxy of one agent. Dropping it stops the proxy.
#[derive(Debug)]
pub(super) struct Egress {
    proxy: Arc<EgressProxy>,
    serving: JoinHandle<()>,
}

/// State shared by the connections of a proxy.
#[derive(Debug)]
struct EgressProxy {
    agent: String,
    rules: NetworkRules,
    daemon: DaemonRoute,
    reports: Mutex<RejectionReports>,
}

/// The daemon's address. Connections to it lead through the gate, also when they use the proxy.
#[derive(Clone, Debug)]
pub(super) struct DaemonRoute {
    /// The port of the daemon when the sandbox was opened.
    pub port: u16,
    /// The file that names the current address of the daemon, since it may have restarted on another port.
    pub file: PathBuf,
    /// The socket of the gate.
    pub gate: PathBuf,
}

impl DaemonRoute {
    /// Whether an address is the daemon's: its port at any address of this machine.
    fn leads_to(&self, address: SocketAddr) -> bool {
        let port = address.port();
        (port == self.port || self.port_now() == Some(port)) && is_on_this_machine(address.ip())
    }

    fn port_now(&self) -> Option<u16> {
        let file: serde_json::Value = serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()?;
        NetworkTarget::from_url(file["url"].as_str()?).map(|daemon| daemon.port)
    }
}

/// Detected by binding, which only works for addresses of this machine.
fn is_on_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// The receiver of reports, and the targets that were reported already.
#[derive(Debug, Default)]
struct RejectionReports {
    events: Option<WeakEvents>,
    reported: HashSet<NetworkTarget>,
}

impl Egress {
    /// Starts serving a socket in a folder. Must be called within a runtime.
    pub(super) fn open(
        folder: &Path,
        name: &str,
        agent: &str,
        rules: NetworkRules,
        daemon: DaemonRoute,
    ) -> io::Result<Egress> {
        let listener = socket::listen(folder, name)?;
        let proxy = Arc::new(EgressProxy { agent: agent.to_owned(), rules, daemon, reports: Mutex::default() });
        let serving = tokio::spawn(serve(listener, proxy.clone()));
        Ok(Egress { proxy, serving })
    }

    /// Reports rejected connections to these events from now on, each host once.
    pub(super) fn report_to(&self, events: &Events) {
        let mut reports = self.proxy.reports.lock().unwrap_or_else(PoisonError::into_inner);
        *reports = RejectionReports { events: Some(events.weak()), reported: HashSet::new() };
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: UnixListener, proxy: Arc<EgressProxy>) {
    socket::serve(listener, MAX_CONNECTIONS, |client| {
        let proxy = proxy.clone();
        async move { proxy.serve_client(client).await }
    })
    .await;
}

/// The other end of a connection.
enum EgressConnection {
    Host(TcpStream),
    /// The daemon, through the gate.
    Gate(UnixStream),
}

/// The reason why a target was not connected.
enum EgressError {
    /// No rule permits it.
    Rejected(&'static str),
    /// The connection failed.
    Failed(String),
}

impl EgressProxy {
    async fn serve_client(&self, mut client: UnixStream) {
        let request = tokio::time::timeout(REQUEST_TIMEOUT, request::read(&mut client)).await.ok().flatten();
        let Some(ProxyRequest { target, kind }) = request else {
            return answer(
                &mut client,
                "400 Bad Request",
                "this is a proxy, and the request was not meant for a proxy or is ambiguous",
            )
            .await;
        };
        match self.connect(&target).await {
            Ok(EgressConnection::Host(server)) => drop(join(client, server, kind).await),
            Ok(EgressConnection::Gate(gate)) => drop(join(client, gate, kind).await),
            Err(EgressError::Failed(why)) => {
                answer(&mut client, "502 Bad Gateway", &format!("{target} cannot be reached: {why}")).await;
            }
            Err(EgressError::Rejected(why)) => {
                self.report(&target, why);
                let text = format!("{target} may not be reached from this sandbox: {why}");
                answer(&mut client, "403 Forbidden", &text).await;
            }
        }
    }

    async fn connect(&self, target: &NetworkTarget) -> Result<EgressConnection, EgressError> {
        let area = self.rules.area(target).ok_or(EgressError::Rejected(NO_RULE))?;
        let addresses = resolve(target, area).await?;
        if addresses.iter().any(|address| self.daemon.leads_to(*address)) {
            let gate = socket::connect(&self.daemon.gate).await;
            return gate.map(EgressConnection::Gate).map_err(|error| EgressError::Failed(error.to_string()));
        }
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&addresses[..])).await;
        match connecting {
            Ok(Ok(server)) => Ok(EgressConnection::Host(server)),
            Ok(Err(error)) => Err(EgressError::Failed(error.to_string())),
            Err(_elapsed) => Err(EgressError::Failed("the connection timed out".to_owned())),
        }
    }

    fn report(&self, target: &NetworkTarget, why: &str) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.reported.len() < MAX_REPORTED_HOSTS && reports.reported.insert(target.clone()) {
            let note = format!("{} was kept from reaching {target}: {why}", self.agent);
            reports.events.iter().for_each(|events| events.emit(BackendEvent::Note(note.clone())));
        }
    }
}

const NO_RULE: &str = "add the host to `sandbox: network` in the workflow file if the agent needs it";
const PRIVATE_ADDRESS: &str =
    "its address is on this machine or in a private network; name this exact host under `sandbox: network`";
const NO_HOST_ADDRESS: &str = "its address belongs to no host; name the address itself under `sandbox: network`";

/// Resolves a target to the addresses that it may be connected to.
async fn resolve(target: &NetworkTarget, area: Area) -> Result<Vec<SocketAddr>, EgressError> {
    let found = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::lookup_host((target.host.as_str(), target.port)));
    let found: Vec<SocketAddr> = match found.await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(_)) | Err(_) => return Err(EgressError::Failed("its name cannot be resolved".to_owned())),
    };
    let fitting: Vec<SocketAddr> = found.iter().copied().filter(|address| Area::of(address.ip()) <= area).collect();
    match (fitting.is_empty(), found.first().map(|address| Area::of(address.ip()))) {
        (false, _) => Ok(fitting),
        (true, None) => Err(EgressError::Failed("its name has no address".to_owned())),
        (true, Some(Area::Nearby)) => Err(EgressError::Rejected(PRIVATE_ADDRESS)),
        (true, Some(_)) => Err(EgressError::Rejected(NO_HOST_ADDRESS)),
    }
}

/// Copies bytes in both directions until both sides are done.
async fn join(
    mut client: UnixStream,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
    kind: ProxyRequestKind,
) -> io::Result<()> {
    match kind {
        ProxyRequestKind::Tunnel { early } => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            server.write_all(&early).await?;
        }
        ProxyRequestKind::Plain { begins } => server.write_all(&begins).await?,
    }
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

async fn answer(client: &mut UnixStream, status: &str, text: &str) {
    let length = text.len() + 1;
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n");
    // The client may be gone; then the answer is not needed.
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
        reported: Receiver<BackendEvent>,
    }

    fn setup(rules: Vec<Rule>) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let daemon =
            DaemonRoute { port: 4700, file: folder.path().join("daemon.json"), gate: folder.path().join("gate.sock") };
        let egress = Egress::open(folder.path(), "e.sock", "coder@pr-1", NetworkRules(rules), daemon).unwrap();
        let (events, reported) = Events::with_capacity(8);
        egress.report_to(&events);
        Setup { folder, egress, events, reported }
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

    /// Answers each connection with the first line that it receives.
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
    async fn named_host_is_reached_by_tunnel_and_plain_request() {
        let port = echo().await;
        let setup = setup(vec![Rule::parse(&format!("localhost:{port}"))]);
        let tunnel = setup.ask(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\nhello\n")).await;
        assert_eq!(tunnel, "HTTP/1.1 200 Connection established\r\n\r\ngot hello\n");
        let plain = setup.ask(&format!("GET http://localhost:{port}/a?b HTTP/1.1\r\n\r\n")).await;
        assert_eq!(plain, "got GET /a?b HTTP/1.1\r\n");
    }

    #[tokio::test]
    async fn unnamed_host_is_rejected_and_reported_once() {
        let port = echo().await;
        let mut setup = setup(vec![Rule::parse("api.example.com")]);
        for _ in 0..2 {
            let answer = setup.ask(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("sandbox: network"), "{answer}");
        }
        let BackendEvent::Note(note) = setup.reported.recv().await.unwrap() else { panic!() };
        assert!(note.starts_with(&format!("coder@pr-1 was kept from reaching 127.0.0.1:{port}: ")), "{note}");
        assert!(setup.reported.try_recv().is_err());
        let (events, mut next) = Events::with_capacity(8);
        setup.egress.report_to(&events);
        setup.ask(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n")).await;
        assert!(next.recv().await.is_some(), "in the next turn it is reported again");
        drop((events, setup.events));
        assert!(next.recv().await.is_none(), "and the events of a turn end with it");
    }

    #[tokio::test]
    async fn name_in_a_private_network_is_rejected_unless_a_person_named_it() {
        let port = echo().await;
        let setup = setup(vec![Rule::built_in(&format!("localhost:{port}"))]);
        let answer = setup.ask(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("private network"), "{answer}");
    }

    #[tokio::test]
    async fn rule_for_the_daemons_port_leads_to_the_gate() {
        let port = echo().await;
        let setup = setup(vec![Rule::parse(&format!("localhost:{port}")), Rule::parse(&format!("127.0.0.1:{port}"))]);
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
    async fn unreachable_host_and_malformed_request_are_distinguished() {
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let setup = setup(vec![Rule::parse(&format!("127.0.0.1:{unused}"))]);
        let answer = setup.ask(&format!("CONNECT 127.0.0.1:{unused} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(setup.ask("GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    }
}
