//! Reading frames of a WebSocket.

use std::net::SocketAddr;

use crate::follower::{Follower, Tally};

const TEXT: u8 = 1;

pub(crate) async fn open(address: SocketAddr, path: &str) -> anyhow::Result<Follower> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    Follower::open(address, request.as_bytes(), 101, scan).await
}

fn scan(bytes: &[u8], tally: &mut Tally) -> usize {
    let mut done = 0;
    while let Some((kind, head, length)) = frame(&bytes[done..]) {
        let begin = done + head;
        let Some(payload) = bytes.get(begin..begin + length) else { break };
        if kind == TEXT {
            // An array has one message on each line.
            payload.split(|byte| *byte == b'\n').for_each(|line| tally.saw(seq(line)));
        }
        done = begin + length;
    }
    done
}

/// The kind, head length and payload length of a server's frame.
fn frame(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (kind, short) = (bytes.first()? & 0x0f, bytes.get(1)? & 0x7f);
    Some(match short {
        126 => (kind, 4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (kind, 10, usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?),
        length => (kind, 2, usize::from(length)),
    })
}

/// The position at the start of a message.
fn seq(line: &[u8]) -> Option<u64> {
    let line = line.strip_prefix(b"[").unwrap_or(line).strip_prefix(br#"{"seq":"#)?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&line[..digits]).ok()?.parse().ok()
}
