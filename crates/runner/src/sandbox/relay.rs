//! What `rookery relay` does: it is the first program inside of a sandbox, has no network but its own loopback, and leads
//! from there to what the runner serves. It starts the agent's program, waits for it, and ends with its code.

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
use super::rule::Target;
use super::socket;
use crate::process::{ProcessLimits, exec_shim};

/// A port of the sandbox that leads out of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    port: u16,
    to: To,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum To {
    /// A socket.
    Socket(PathBuf),
    /// A server on the machine by this name, at the same port, through the proxy.
    Machine(String),
}

impl Listen {
    /// A port that leads to a server on the machine.
    pub(super) fn to_machine(target: Target) -> Listen {
        Listen { port: target.port, to: To::Machine(target.host) }
    }

    pub(super) fn to_socket(port: u16, path: &Path) -> Listen {
        Listen { port, to: To::Socket(path.to_path_buf()) }
    }

    /// As an argument: `PORT=/SOCKET`, or `PORT=HOST`.
    pub(super) fn argument(&self) -> OsString {
        let mut text = OsString::from(format!("{}=", self.port));
        match &self.to {
            To::Socket(path) => text.push(path),
            To::Machine(host) => text.push(host),
        }
        text
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let (port, to) = text.split_once('=').ok_or("it must be PORT=/SOCKET or PORT=HOST")?;
        let port = port.parse().map_err(|_| format!("'{port}' is no port"))?;
        let to = if to.starts_with('/') { To::Socket(to.into()) } else { To::Machine(to.to_owned()) };
        Ok(Listen { port, to })
    }
}

/// Serves the sandbox and runs the program in it. Its exit code.
pub async fn relay(
    egress: PathBuf,
    listening: Vec<Listen>,
    limits: Option<ProcessLimits>,
    argv: Vec<OsString>,
) -> io::Result<i32> {
    // They are for the program, which gets them too; when it ends, so does this.
    let _ignored = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = proxy.local_addr()?.port();
    tokio::spawn(serve(proxy, egress.clone(), Listen { port, to: To::Socket(egress.clone()) }));
    for listen in listening {
        // A port that is taken leads somewhere else already: two hosts can have the same.
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, listen.port)).await {
            tokio::spawn(serve(listener, egress.clone(), listen));
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
    child.wait().await.map(code)
}

/// How programs are told of a proxy: each reads another one of these.
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

async fn serve(listener: TcpListener, egress: PathBuf, listen: Listen) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (egress, listen) = (egress.clone(), listen.clone());
        tokio::spawn(async move { drop(lead(client, &egress, &listen).await) });
    }
}

async fn lead(mut client: TcpStream, egress: &Path, listen: &Listen) -> io::Result<()> {
    let mut server = match &listen.to {
        To::Socket(path) => socket::connect(path).await?,
        To::Machine(host) => {
            let target = Target { host: host.clone(), port: listen.port };
            tunnel(egress, &target, &mut client).await?
        }
    };
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

/// A way through the proxy to a server on the machine.
async fn tunnel(egress: &Path, target: &Target, client: &mut TcpStream) -> io::Result<UnixStream> {
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
    fn what_it_is_told_is_what_it_reads() {
        let machine = Listen::to_machine(Target::parse("localhost:4321", None).unwrap());
        for listen in [machine, Listen::to_socket(4700, Path::new("/run/rookery/a=b.sock"))] {
            assert_eq!(listen.argument().to_str().unwrap().parse::<Listen>().unwrap(), listen);
        }
        assert!("x=/a".parse::<Listen>().is_err() && "1".parse::<Listen>().is_err());
    }
}
