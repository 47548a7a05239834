//! A reader of an endless connection, which counts events and checks their order.
//!
//! It only counts, because a load generator must cost less than its target.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::http::Connection;

const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);

/// Adds every complete event at the start of some bytes to the tally. Returns the number of bytes of these events.
pub(crate) type Scan = fn(&[u8], &mut Tally) -> usize;

pub(crate) struct Follower {
    socket: TcpStream,
    buffer: Vec<u8>,
    scan: Scan,
    tally: Tally,
}

/// The count of received events.
#[derive(Default)]
pub(crate) struct Tally {
    last: Option<u64>,
    count: u64,
    broken: bool,
}

impl Tally {
    /// Counts an event, with its position if it has one.
    pub(crate) fn saw(&mut self, seq: Option<u64>) {
        self.count += 1;
        self.broken |= seq.is_none() || self.last.is_some_and(|last| seq != Some(last + 1));
        self.last = seq;
    }

    fn has_reached(&self, wanted: u64) -> bool {
        self.last.is_some_and(|last| last >= wanted)
    }
}

impl Follower {
    /// Sends a request whose answer has this status and does not end.
    pub(crate) async fn open(address: SocketAddr, request: &[u8], status: u16, scan: Scan) -> anyhow::Result<Follower> {
        let (socket, buffer) = Connection::open(address).await?.follow(request, status).await?;
        Ok(Follower { socket, buffer, scan, tally: Tally::default() })
    }

    /// Reads up to the target or a timeout without events. Returns the number of events in order.
    pub(crate) async fn read(mut self, mut target: watch::Receiver<Option<u64>>) -> u64 {
        loop {
            let done = (self.scan)(&self.buffer, &mut self.tally);
            self.buffer.drain(..done);
            let wanted = *target.borrow_and_update();
            if self.tally.broken || wanted.is_some_and(|wanted| self.tally.has_reached(wanted)) {
                return self.tally.count;
            }
            let more = async {
                tokio::select! {
                    read = self.socket.read_buf(&mut self.buffer) => matches!(read, Ok(1..)),
                    changed = target.changed() => changed.is_ok(),
                }
            };
            if !tokio::time::timeout(SILENCE_TIMEOUT, more).await.unwrap_or(false) {
                return self.tally.count;
            }
        }
    }

    /// The complete lines since the last call; `None` at the end of the stream.
    pub(crate) async fn lines(&mut self) -> Option<Vec<Vec<u8>>> {
        loop {
            if let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let whole = std::mem::replace(&mut self.buffer, rest);
                return Some(whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect());
            }
            if !matches!(self.socket.read_buf(&mut self.buffer).await, Ok(1..)) {
                return None;
            }
        }
    }
}
