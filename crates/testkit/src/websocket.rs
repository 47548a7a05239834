//! A client of the Clutch WebSocket stream, which sees every frame and the close code.

use anyhow::{Context, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::stream::{self, ReceiveBuffer};
use crate::wait::within;

/// A message with its position in the log.
#[derive(Clone, PartialEq, Debug)]
pub struct LoggedMessage {
    pub seq: u64,
    pub message: Value,
}

impl LoggedMessage {
    pub fn read(frame: &Value) -> anyhow::Result<LoggedMessage> {
        let seq = frame["seq"].as_u64().with_context(|| format!("{frame} has no seq"))?;
        ensure!(frame["message"].is_object(), "{frame} has no message");
        Ok(LoggedMessage { seq, message: frame["message"].clone() })
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

/// The HTTP answer that rejected a handshake.
#[derive(Clone, PartialEq, Debug)]
pub struct HandshakeRejection {
    pub status: u16,
    pub body: Value,
}

impl Socket {
    /// Opens `/clutch/v0/stream` with this query.
    pub async fn open(url: &str, query: &str) -> anyhow::Result<Socket> {
        match Socket::connect(url, query, &[], ReceiveBuffer::Default).await? {
            Ok(socket) => Ok(socket),
            Err(rejection) => bail!("the daemon rejected the stream: {rejection:?}"),
        }
    }

    /// Opens the stream with additional headers; returns the HTTP answer if the handshake is rejected.
    pub async fn connect(
        url: &str,
        query: &str,
        headers: &[(&'static str, &str)],
        receiving: ReceiveBuffer,
    ) -> anyhow::Result<Result<Socket, HandshakeRejection>> {
        let address = url.replacen("http://", "ws://", 1);
        let mut request = format!("{address}/clutch/v0/stream{query}").into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        let connection = stream::connect(url, receiving).await?;
        match within("the handshake", client_async(request, connection)).await? {
            Ok((inner, _)) => Ok(Ok(Socket { inner })),
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                let body = serde_json::from_slice(body).unwrap_or_default();
                Ok(Err(HandshakeRejection { status: response.status().as_u16(), body }))
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

    /// Reads the next frame of any kind; `None` at the end.
    pub async fn raw(&mut self) -> anyhow::Result<Option<Message>> {
        match within("a frame", self.inner.next()).await? {
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(Error::ConnectionClosed | Error::Protocol(_) | Error::Io(_))) | None => Ok(None),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Reads the next text frame, as JSON.
    pub async fn frame(&mut self) -> anyhow::Result<Value> {
        loop {
            match self.raw().await?.context("the stream ended")? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Ping(_) | Message::Pong(_) => {}
                other => bail!("unexpected frame {other:?}"),
            }
        }
    }

    /// Reads the next message.
    pub async fn next(&mut self) -> anyhow::Result<LoggedMessage> {
        LoggedMessage::read(&self.frame().await?)
    }

    /// Reads this many messages.
    pub async fn take(&mut self, count: usize) -> anyhow::Result<Vec<LoggedMessage>> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(self.next().await?);
        }
        Ok(taken)
    }

    /// Reads until the connection ends, and returns the close code if the server sent one.
    pub async fn close_code(&mut self) -> anyhow::Result<Option<u16>> {
        Ok(self.close_frame().await?.map(|(code, _)| code))
    }

    /// Reads until the connection ends, and returns the close code with its reason.
    pub async fn close_frame(&mut self) -> anyhow::Result<Option<(u16, String)>> {
        let mut close = None;
        while let Some(message) = self.raw().await? {
            if let Message::Close(Some(frame)) = message {
                close = Some((frame.code.into(), frame.reason.to_string()));
            }
        }
        Ok(close)
    }
}
