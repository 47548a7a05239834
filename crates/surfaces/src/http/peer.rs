//! Which processes may use the daemon's Unix sockets: those of the same user, outside of sandboxes.
//!
//! Sockets in folders that an agent sees can be connected to from inside its sandbox. Its way to the daemon is the gate, which
//! says who speaks; a connection that comes around it is closed.

use std::fs;

use tokio::net::UnixStream;

/// Why a connection to a socket is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    OtherUser,
    Sandboxed,
}

impl Stranger {
    pub fn as_str(self) -> &'static str {
        match self {
            Stranger::OtherUser => "the process belongs to another user",
            Stranger::Sandboxed => "the process is in a sandbox, and has to use its gate",
        }
    }
}

/// The id of the process at the other end, if it may connect; zero where the system does not tell.
pub fn check(stream: &UnixStream) -> Result<i32, Stranger> {
    let peer = stream.peer_cred().map_err(|_| Stranger::OtherUser)?;
    let own = rustix::process::getuid().as_raw();
    if peer.uid() != own && peer.uid() != 0 {
        return Err(Stranger::OtherUser);
    }
    if peer.pid().is_some_and(is_sandboxed) { Err(Stranger::Sandboxed) } else { Ok(peer.pid().unwrap_or_default()) }
}

/// Whether a process has users and a network of its own. Every agent's sandbox has both, and no program gets out of them;
/// containers usually have one of them.
fn is_sandboxed(pid: i32) -> bool {
    differs(pid, "user") && differs(pid, "net")
}

/// Whether a namespace of a process is not ours. A process that hides it is not trusted.
fn differs(pid: i32, kind: &str) -> bool {
    let Ok(own) = fs::read_link(format!("/proc/self/ns/{kind}")) else { return false };
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).map_or(true, |theirs| theirs != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn process_outside_of_sandboxes_may_connect() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(check(&one), Ok(i32::try_from(std::process::id()).unwrap()));
    }
}
