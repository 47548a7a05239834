//! A client of the gateway's stream: what it was sent, frame by frame, and how it ended.

use anyhow::{Context, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::stream::{Receiving, connect};
use crate::wait::within;

/// A message and its place in the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Placed {
    pub seq: u64,
    pub message: Value,
}

impl Placed {
    pub fn read(frame: &Value) -> anyhow::Result<Placed> {
        let seq = frame["seq"].as_u64().with_context(|| format!("{frame} has no place"))?;
        ensure!(frame["message"].is_object(), "{frame} has no message");
        Ok(Placed { seq, message: frame["message"].clone() })
    }

    pub fn message_type(&self) -> &str {
        self.message["type"].as_str().unwrap_or_default()
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Socket {
    inner: WebSocketStream<TcpStream>,
}

/// What a connection was refused with.
#[derive(Clone, PartialEq, Debug)]
pub struct Refused {
    pub status: u16,
    pub body: Value,
}

impl Socket {
    /// Opens `/clutch/v0/stream` with this query.
    pub async fn open(url: &str, query: &str) -> anyhow::Result<Socket> {
        match Socket::ask(url, query, &[], Receiving::Usual).await? {
            Ok(socket) => Ok(socket),
            Err(refused) => bail!("the stream was refused: {refused:?}"),
        }
    }

    /// Asks for a connection, with headers of one's own.
    pub async fn ask(
        url: &str,
        query: &str,
        headers: &[(&'static str, &str)],
        receiving: Receiving,
    ) -> anyhow::Result<Result<Socket, Refused>> {
        let address = url.replacen("http://", "ws://", 1);
        let mut request = format!("{address}/clutch/v0/stream{query}").into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        let connection = connect(url, receiving).await?;
        match within("the handshake", client_async(request, connection)).await? {
            Ok((inner, _)) => Ok(Ok(Socket { inner })),
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                let body = serde_json::from_slice(body).unwrap_or_default();
                Ok(Err(Refused { status: response.status().as_u16(), body }))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub async fn send(&mut self, frame: &Value) -> anyhow::Result<()> {
        self.send_text(&frame.to_string()).await
    }

    pub async fn send_text(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.inner.send(Message::text(text)).await?)
    }

    pub async fn send_raw(&mut self, message: Message) -> anyhow::Result<()> {
        Ok(self.inner.send(message).await?)
    }

    /// The next frame of any kind; `None` at the end.
    pub async fn raw(&mut self) -> anyhow::Result<Option<Message>> {
        match within("a frame", self.inner.next()).await? {
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(Error::ConnectionClosed | Error::Protocol(_) | Error::Io(_))) | None => Ok(None),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// The next frame that says something.
    pub async fn frame(&mut self) -> anyhow::Result<Value> {
        loop {
            match self.raw().await?.context("the stream ended")? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Ping(_) | Message::Pong(_) => {}
                other => bail!("{other:?} is not a frame of the stream"),
            }
        }
    }

    /// The next message.
    pub async fn next(&mut self) -> anyhow::Result<Placed> {
        Placed::read(&self.frame().await?)
    }

    pub async fn take(&mut self, count: usize) -> anyhow::Result<Vec<Placed>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(self.next().await?);
        }
        Ok(taken)
    }

    /// Reads until the end; the code it was closed with, if it was told.
    pub async fn closed(&mut self) -> anyhow::Result<Option<u16>> {
        Ok(self.farewell().await?.map(|(code, _)| code))
    }

    /// The same with the reason.
    pub async fn farewell(&mut self) -> anyhow::Result<Option<(u16, String)>> {
        let mut told = None;
        while let Some(message) = self.raw().await? {
            if let Message::Close(Some(frame)) = message {
                told = Some((frame.code.into(), frame.reason.to_string()));
            }
        }
        Ok(told)
    }
}
