//! The daemon's socket for a sandbox: a socket of the runner's own that leads to it.
//!
//! The daemon's own socket is made anew with every start of it, and a sandbox would go on seeing the old one. This one stays
//! as long as the sandbox, and asks for the daemon anew with every connection.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::rule::Target;
use super::socket;

const CONNECTIONS: usize = 128;

/// Where the daemon is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Socket(PathBuf),
    /// Where it serves no socket.
    Port(Target),
}

#[derive(Debug)]
pub(super) struct Gate {
    serving: JoinHandle<()>,
}

impl Gate {
    /// Begins to serve a socket in a folder. Must be called within a runtime.
    pub(super) fn open(folder: &Path, name: &str, way: Way) -> io::Result<Gate> {
        let listener = socket::listen(folder, name)?;
        Ok(Gate { serving: tokio::spawn(serve(listener, Arc::new(way))) })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: UnixListener, way: Arc<Way>) {
    socket::serve(listener, CONNECTIONS, |client| {
        let way = way.clone();
        // A daemon that is not there closes the connection, as one that is not there does.
        async move { drop(lead(client, &way).await) }
    })
    .await;
}

async fn lead(mut client: UnixStream, way: &Way) -> io::Result<()> {
    match way {
        Way::Socket(path) => copy_bidirectional(&mut client, &mut socket::connect(path).await?).await?,
        Way::Port(target) => {
            let mut daemon = TcpStream::connect((target.host.as_str(), target.port)).await?;
            copy_bidirectional(&mut client, &mut daemon).await?
        }
    };
    Ok(())
}
