//! A lean HTTP/1.1 client over one persistent connection. A load generator must cost less than its target.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request, ready to be sent any number of times.
pub(crate) fn request(method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
    match body {
        Some(body) => request_with(method, path, "application/json", body),
        None => format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").into_bytes(),
    }
}

/// Builds a request with another content type.
pub(crate) fn request_with(method: &str, path: &str, kind: &str, body: &str) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n");
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(std::str::from_utf8(&self.head).ok()?, name)
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    pub(crate) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Reply> {
        self.stream.write_all(request).await?;
        let (status, head, length) = self.head().await?;
        let head = self.buffer.drain(..head).collect();
        let body = match length {
            Length::Known(length) => self.take(length).await?,
            Length::Chunked => self.chunks().await?,
            Length::Unknown => bail!("the answer does not say how long it is"),
        };
        Ok(Reply { status, head, body })
    }

    async fn take(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.more().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Reads a chunked body.
    async fn chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = loop {
                match self.buffer.windows(2).position(|two| two == b"\r\n") {
                    Some(at) => break at,
                    None => self.more().await?,
                }
            };
            let line: Vec<u8> = self.buffer.drain(..line + 2).collect();
            let length = usize::from_str_radix(std::str::from_utf8(&line)?.trim(), 16)?;
            let chunk = self.take(length + 2).await?;
            if length == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..length]);
        }
    }

    /// Sends a request whose answer does not end, and returns the bytes after the head.
    pub(crate) async fn follow(mut self, request: &[u8], expected: u16) -> anyhow::Result<(TcpStream, Vec<u8>)> {
        self.stream.write_all(request).await?;
        let (status, head, _) = self.head().await?;
        if status != expected {
            bail!("the stream was answered with {status}");
        }
        Ok((self.stream, self.buffer.split_off(head)))
    }

    /// Reads the head. Returns the status, the length of the head, and the framing of the body.
    async fn head(&mut self) -> anyhow::Result<(u16, usize, Length)> {
        let head = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let text = std::str::from_utf8(&self.buffer[..head]).context("the head of the answer is not text")?;
        let status = text.get(9..12).and_then(|code| code.parse().ok()).context("the answer has no status")?;
        let length = match header(text, "content-length").map(str::parse) {
            Some(length) => Length::Known(length.context("the length of the answer is no number")?),
            None if header(text, "transfer-encoding") == Some("chunked") => Length::Chunked,
            None => Length::Unknown,
        };
        Ok((status, head, length))
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the connection was closed");
        }
        Ok(())
    }
}

/// The framing of a body.
#[derive(Clone, Copy, Debug)]
enum Length {
    Known(usize),
    Chunked,
    Unknown,
}

fn header<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then(|| value.trim())
    })
}
