//! A client of the event stream over a bare socket, which sees every byte and the end of the connection.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

use crate::wait::within;

/// The size of a client socket's receive buffer.
#[derive(Clone, Copy, Debug)]
pub enum ReceiveBuffer {
    Default,
    /// As small as the system allows.
    Small,
}

pub async fn connect(url: &str, receiving: ReceiveBuffer) -> anyhow::Result<TcpStream> {
    let address = url.strip_prefix("http://").context("the URL must start with http://")?.parse()?;
    let socket = TcpSocket::new_v4()?;
    if let ReceiveBuffer::Small = receiving {
        socket.set_recv_buffer_size(2_048)?;
    }
    Ok(socket.connect(address).await?)
}

/// One event of the stream.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamEvent {
    /// The value for `Last-Event-ID`.
    pub id: String,
    pub seq: u64,
    pub data: String,
}

impl StreamEvent {
    pub fn event(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.data)?)
    }
}

/// An open event stream. It speaks HTTP/1.0, so that the body has no framing.
#[derive(Debug)]
pub struct Follower {
    reader: BufReader<TcpStream>,
}

impl Follower {
    /// Opens a stream and reads up to the first comment. The client misses no event after that.
    pub async fn open(url: &str, query: &str, after: Option<&str>) -> anyhow::Result<Follower> {
        let mut follower = Follower::request(url, query, after, ReceiveBuffer::Default).await?;
        let head = within("the head of the stream", follower.read_head()).await??;
        ensure!(head.contains("200 OK"), "the daemon rejected the stream: {head}");
        Ok(follower)
    }

    /// Requests a stream and reads nothing from it.
    pub async fn request(
        url: &str,
        query: &str,
        after: Option<&str>,
        receiving: ReceiveBuffer,
    ) -> anyhow::Result<Follower> {
        let mut stream = connect(url, receiving).await?;
        let resume = after.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let request = format!("GET /events/stream{query} HTTP/1.0\r\nHost: 127.0.0.1\r\n{resume}\r\n");
        stream.write_all(request.as_bytes()).await?;
        Ok(Follower { reader: BufReader::new(stream) })
    }

    /// Reads the status line, the headers, and the comment that opens the stream.
    async fn read_head(&mut self) -> anyhow::Result<String> {
        let mut head = String::new();
        while self.reader.read_line(&mut head).await? > 0 {
            if head.ends_with(": connected\n") || (!head.starts_with("HTTP/1.0 200") && head.ends_with("\r\n\r\n")) {
                return Ok(head);
            }
        }
        bail!("the stream ended in its head: {head:?}")
    }

    /// Reads the next line; `None` at the end of the stream.
    pub async fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line).await {
            Ok(0) | Err(_) => Ok(None),
            // The connection ended within this line, so it does not count as sent.
            Ok(_) if !line.ends_with('\n') => Ok(None),
            Ok(_) => Ok(Some(line)),
        }
    }

    /// Reads the next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> anyhow::Result<Option<StreamEvent>> {
        let mut id = None;
        while let Some(line) = self.line().await? {
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.trim_end().to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                // Only the empty line completes the event.
                if self.line().await?.as_deref() != Some("\n") {
                    return Ok(None);
                }
                let id = id.context("an event has no id")?;
                let seq = id.rsplit(':').next().context("the id of an event has no position")?.parse()?;
                return Ok(Some(StreamEvent { id, seq, data: data.trim_end().to_owned() }));
            }
        }
        Ok(None)
    }

    /// Reads up to the end of the stream.
    pub async fn rest(mut self) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        drop(within("the end of the stream", self.reader.read_to_end(&mut bytes)).await?);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
