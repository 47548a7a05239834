//! A lean WebSocket client that only counts: a load generator must not cost more than what it loads.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::http::Connection;

const PATIENCE: Duration = Duration::from_secs(20);
const TEXT: u8 = 1;

pub(crate) struct Reader {
    socket: TcpStream,
    buffer: Vec<u8>,
    last: Option<u64>,
    count: u64,
    broken: bool,
}

impl Reader {
    pub(crate) async fn open(address: SocketAddr, path: &str) -> anyhow::Result<Reader> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        let (socket, buffer) = Connection::open(address).await?.follow(request.as_bytes(), 101).await?;
        Ok(Reader { socket, buffer, last: None, count: 0, broken: false })
    }

    /// Reads until the target is reached or nothing comes for too long; how many messages came in order.
    pub(crate) async fn read(mut self, mut target: watch::Receiver<Option<u64>>) -> u64 {
        loop {
            self.scan();
            let wanted = *target.borrow_and_update();
            if self.broken || wanted.is_some_and(|wanted| self.last.is_some_and(|last| last >= wanted)) {
                return self.count;
            }
            let more = async {
                tokio::select! {
                    read = self.socket.read_buf(&mut self.buffer) => matches!(read, Ok(1..)),
                    changed = target.changed() => changed.is_ok(),
                }
            };
            if !tokio::time::timeout(PATIENCE, more).await.unwrap_or(false) {
                return self.count;
            }
        }
    }

    /// Counts the messages of the whole frames that have come.
    fn scan(&mut self) {
        let mut done = 0;
        while let Some((kind, head, length)) = frame(&self.buffer[done..]) {
            let begin = done + head;
            let Some(payload) = self.buffer.get(begin..begin + length) else { break };
            if kind == TEXT {
                // An array has a message on each line.
                for line in payload.split(|byte| *byte == b'\n') {
                    let seq = seq(line);
                    self.count += 1;
                    self.broken |= seq.is_none() || self.last.is_some_and(|last| seq != Some(last + 1));
                    self.last = seq;
                }
            }
            done = begin + length;
        }
        self.buffer.drain(..done);
    }
}

/// Kind, length of the head and length of the payload of a frame from a server.
fn frame(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (kind, short) = (bytes.first()? & 0x0f, bytes.get(1)? & 0x7f);
    Some(match short {
        126 => (kind, 4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (kind, 10, usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?),
        length => (kind, 2, usize::from(length)),
    })
}

/// The place that a message tells first.
fn seq(line: &[u8]) -> Option<u64> {
    let line = line.strip_prefix(b"[").unwrap_or(line).strip_prefix(br#"{"seq":"#)?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&line[..digits]).ok()?.parse().ok()
}
