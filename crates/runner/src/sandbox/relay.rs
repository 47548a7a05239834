//! `rookery relay`, the first program inside a sandbox. The sandbox has only a loopback network, which the relay connects to
//! the sockets that the runner serves. It starts the agent's program, waits for it, and exits with its code.

use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::request::read_head;
use super::rule::NetworkTarget;
use super::socket;
use crate::process::{ProcessLimits, exec_shim};

/// A port of the sandbox's loopback that leads out of the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayedPort {
    port: u16,
    to: RelayDestination,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum RelayDestination {
    /// A Unix socket.
    Socket(PathBuf),
    /// A server on the machine by this name, at the same port, through the proxy.
    Machine(String),
}

impl RelayedPort {
    /// A port that leads to a server on the machine.
    pub(super) fn to_machine(target: NetworkTarget) -> RelayedPort {
        RelayedPort { port: target.port, to: RelayDestination::Machine(target.host) }
    }

    pub(super) fn to_socket(port: u16, path: &Path) -> RelayedPort {
        RelayedPort { port, to: RelayDestination::Socket(path.to_path_buf()) }
    }

    /// The command-line form: `PORT=/SOCKET`, or `PORT=HOST`.
    pub(super) fn argument(&self) -> OsString {
        let mut text = OsString::from(format!("{}=", self.port));
        match &self.to {
            RelayDestination::Socket(path) => text.push(path),
            RelayDestination::Machine(host) => text.push(host),
        }
        text
    }
}

impl FromStr for RelayedPort {
    type Err = String;

    fn from_str(text: &str) -> Result<RelayedPort, String> {
        let (port, to) = text.split_once('=').ok_or("expected PORT=/SOCKET or PORT=HOST")?;
        let port = port.parse().map_err(|_| format!("'{port}' is not a port"))?;
        let to = if to.starts_with('/') {
            RelayDestination::Socket(to.into())
        } else {
            RelayDestination::Machine(to.to_owned())
        };
        Ok(RelayedPort { port, to })
    }
}

/// Serves the sandbox and runs the program in it. Returns the program's exit code.
pub async fn relay(
    egress: PathBuf,
    ports: Vec<RelayedPort>,
    limits: Option<ProcessLimits>,
    argv: Vec<OsString>,
) -> io::Result<i32> {
    // These signals are meant for the program, which gets them too; the relay exits when the program does.
    let handlers = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = proxy.local_addr()?.port();
    tokio::spawn(serve(proxy, egress.clone(), RelayedPort { port, to: RelayDestination::Socket(egress.clone()) }));
    for relayed in ports {
        // The port may be taken, since two hosts can have the same one; it leads to the first of them.
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, relayed.port)).await {
            tokio::spawn(serve(listener, egress.clone(), relayed));
        }
    }
    let Some((program, arguments)) = argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no program to start"));
    };
    if let Some(limits) = limits {
        limits.apply()?;
    }
    let mut command = Command::from(exec_shim::command(program));
    let started = command.args(arguments).envs(proxy_environment(port)).spawn();
    let mut child = started.map_err(|error| exec_shim::not_started(program, &error))?;
    let status = child.wait().await;
    drop(handlers);
    status.map(code)
}

/// Variables that name the proxy; each program reads a different one.
fn proxy_environment(port: u16) -> Vec<(&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let mut all: Vec<(&str, String)> =
        ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"].map(|name| (name, proxy.clone())).into();
    all.extend(["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned())));
    all.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    all
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

async fn serve(listener: TcpListener, egress: PathBuf, relayed: RelayedPort) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (egress, relayed) = (egress.clone(), relayed.clone());
        tokio::spawn(async move { drop(connect(client, &egress, &relayed).await) });
    }
}

async fn connect(mut client: TcpStream, egress: &Path, relayed: &RelayedPort) -> io::Result<()> {
    let mut server = match &relayed.to {
        RelayDestination::Socket(path) => socket::connect(path).await?,
        RelayDestination::Machine(host) => {
            let target = NetworkTarget { host: host.clone(), port: relayed.port };
            tunnel(egress, &target, &mut client).await?
        }
    };
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

/// Opens a tunnel through the proxy to a server on the machine.
async fn tunnel(egress: &Path, target: &NetworkTarget, client: &mut TcpStream) -> io::Result<UnixStream> {
    let mut server = socket::connect(egress).await?;
    server.write_all(format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n").as_bytes()).await?;
    match read_head(&mut server).await {
        Some((head, early)) if head.split(|byte| *byte == b' ').nth(1) == Some(b"200") => {
            client.write_all(&early).await?;
            Ok(server)
        }
        _ => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_round_trips_as_text() {
        let machine = RelayedPort::to_machine(NetworkTarget::parse("localhost:4321", None).unwrap());
        for relayed in [machine, RelayedPort::to_socket(4700, Path::new("/run/rookery/a=b.sock"))] {
            assert_eq!(relayed.argument().to_str().unwrap().parse::<RelayedPort>().unwrap(), relayed);
        }
        assert!("x=/a".parse::<RelayedPort>().is_err() && "1".parse::<RelayedPort>().is_err());
    }
}
