//! A client that keeps a session and calls one tool after the other.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::http::{Connection, Reply};
use crate::sample::Client;

const VERSION: &str = "2025-11-25";

/// An open session, with a connection.
#[derive(Debug)]
pub(crate) struct Session {
    address: SocketAddr,
    connection: Connection,
    /// The start of every request, up to its length.
    head: String,
}

impl Session {
    pub(crate) async fn open(address: SocketAddr, path: &str, agent: &str) -> anyhow::Result<Session> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: application/json, \
             text/event-stream\r\nx-agent-id: {agent}\r\n"
        );
        let mut session = Session { address, connection: Connection::open(address).await?, head };
        let hello = json!({"protocolVersion": VERSION, "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"}});
        let reply = session.send(&message(0, "initialize", &hello.to_string())).await?;
        let id = reply.header("mcp-session-id").context("no session was opened")?.to_owned();
        session.head.push_str(&format!("mcp-session-id: {id}\r\nmcp-protocol-version: {VERSION}\r\n"));
        let reply = session.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
        ensure!(reply.status == 202, "the session was not begun: {}", reply.status);
        Ok(session)
    }

    pub(crate) async fn reconnect(&mut self) -> anyhow::Result<()> {
        self.connection = Connection::open(self.address).await?;
        Ok(())
    }

    async fn send(&mut self, body: &str) -> anyhow::Result<Reply> {
        let request = format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.connection.ask(request.as_bytes()).await
    }

    /// Calls a method, and returns the reply, whose body is plain JSON or an event stream.
    pub(crate) async fn ask(&mut self, id: u64, method: &str, params: &str) -> anyhow::Result<Reply> {
        let reply = self.send(&message(id, method, params)).await?;
        ensure!(reply.status == 200, "{method} was answered with {}", reply.status);
        Ok(reply)
    }
}

fn message(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Returns the JSON of an answer in either form.
pub(crate) fn answer(reply: &Reply) -> anyhow::Result<Value> {
    let text = std::str::from_utf8(&reply.body)?;
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).find(|data| !data.is_empty());
    Ok(serde_json::from_str(data.unwrap_or(text))?)
}

/// The call that a client repeats, and the text in an answer that proves its success.
#[derive(Debug)]
pub(crate) struct Calls {
    params: Vec<String>,
    done: &'static str,
}

impl Calls {
    pub(crate) fn echo() -> Calls {
        let call =
            json!({"name": "echo", "arguments": {"text": "a few words that are sent and come back as they are"}});
        Calls { params: vec![call.to_string()], done: "come back as they are" }
    }

    pub(crate) fn reading(agent: &str) -> Calls {
        let call = json!({"name": "agent_get", "arguments": {"id": agent}});
        Calls { params: vec![call.to_string()], done: r#""structuredContent""# }
    }

    /// Claims and releases a file. Both events must be durable before the answer.
    pub(crate) fn claiming(path: &str) -> Calls {
        let call = |name: &str| json!({"name": name, "arguments": {"path": path}}).to_string();
        let params = vec![call("resource_claim"), call("resource_release")];
        Calls { params, done: r#"ed":true}"# }
    }
}

#[derive(Debug)]
pub(crate) struct ToolClient {
    session: Session,
    calls: Calls,
    made: u64,
}

impl ToolClient {
    pub(crate) fn new(session: Session, calls: Calls) -> ToolClient {
        ToolClient { session, calls, made: 0 }
    }

    pub(crate) async fn reconnect(&mut self) -> anyhow::Result<()> {
        self.session.reconnect().await
    }
}

impl Client for ToolClient {
    async fn act(&mut self) -> anyhow::Result<()> {
        let params = &self.calls.params[self.made as usize % self.calls.params.len()];
        self.made += 1;
        let reply = self.session.ask(self.made, "tools/call", params).await?;
        let done = self.calls.done.as_bytes();
        if !reply.body.windows(done.len()).any(|window| window == done) {
            bail!("a call was answered with {}", String::from_utf8_lossy(&reply.body));
        }
        Ok(())
    }
}
