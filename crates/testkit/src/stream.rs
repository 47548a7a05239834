//! A client of the event stream, over a bare socket: what it was sent, byte for byte, and when it ended.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use crate::wait::within;

/// How much a client's socket takes in before the client reads.
#[derive(Clone, Copy, Debug)]
pub enum Receiving {
    Usual,
    /// As little as the system allows.
    Little,
}

pub async fn connect(url: &str, receiving: Receiving) -> anyhow::Result<TcpStream> {
    let address = url.strip_prefix("http://").context("not a plain address")?.parse()?;
    let socket = TcpSocket::new_v4()?;
    if let Receiving::Little = receiving {
        socket.set_recv_buffer_size(2_048)?;
    }
    Ok(socket.connect(address).await?)
}

/// One event as the stream sends it.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    /// What goes into `Last-Event-ID`.
    pub id: String,
    pub seq: u64,
    pub data: String,
}

impl Sent {
    pub fn event(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.data)?)
    }
}

/// An open event stream. Speaks HTTP/1.0, whose bodies have no framing of their own.
#[derive(Debug)]
pub struct Follower {
    reader: BufReader<TcpStream>,
}

impl Follower {
    /// Opens a stream and reads up to the first comment: from then on nothing is missed.
    pub async fn open(url: &str, query: &str, after: Option<&str>) -> anyhow::Result<Follower> {
        let mut follower = Follower::request(url, query, after, Receiving::Usual).await?;
        let head = within("the stream's head", follower.head()).await??;
        ensure!(head.contains("200 OK"), "the stream was refused: {head}");
        Ok(follower)
    }

    /// Asks for a stream and reads nothing of it.
    pub async fn request(
        url: &str,
        query: &str,
        after: Option<&str>,
        receiving: Receiving,
    ) -> anyhow::Result<Follower> {
        let mut stream = connect(url, receiving).await?;
        let resume = after.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /events/stream{query} HTTP/1.0\r\nHost: 127.0.0.1\r\n{resume}\r\n");
        stream.write_all(request.as_bytes()).await?;
        Ok(Follower { reader: BufReader::new(stream) })
    }

    /// The status line and headers, and the comment that opens the stream.
    async fn head(&mut self) -> anyhow::Result<String> {
        let mut head = String::new();
        while self.reader.read_line(&mut head).await? > 0 {
            if head.ends_with(": connected\n") || (!head.starts_with("HTTP/1.0 200") && head.ends_with("\r\n\r\n")) {
                return Ok(head);
            }
        }
        bail!("the stream ended in its head: {head:?}")
    }

    /// The next line; `None` at the end of the stream.
    pub async fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line).await {
            Ok(0) | Err(_) => Ok(None),
            // A line that the connection's end cut short was never sent.
            Ok(_) if !line.ends_with('\n') => Ok(None),
            Ok(_) => Ok(Some(line)),
        }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> anyhow::Result<Option<Sent>> {
        let mut id = None;
        while let Some(line) = self.line().await? {
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.trim_end().to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                // The empty line is what makes it an event.
                if self.line().await?.as_deref() != Some("\n") {
                    return Ok(None);
                }
                let id = id.context("data before its id")?;
                let seq = id.rsplit(':').next().context("no position")?.parse()?;
                return Ok(Some(Sent { id, seq, data: data.trim_end().to_owned() }));
            }
        }
        Ok(None)
    }

    pub async fn rest(mut self) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        drop(within("the stream ends", self.reader.read_to_end(&mut bytes)).await?);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
