//! The same durable write over REST.

use std::net::SocketAddr;

use anyhow::bail;
use serde_json::json;

use crate::http::{self, Connection};
use crate::sample::Client;
use crate::work;

/// A client that claims and releases a file in a loop.
#[derive(Debug)]
pub(super) struct RestClaims {
    connection: Connection,
    next: Vec<u8>,
    after: Vec<u8>,
}

impl RestClaims {
    pub(super) async fn open(address: SocketAddr, at: usize, path: String) -> anyhow::Result<RestClaims> {
        let body = json!({"path": path, "agent_id": work::agent(at)}).to_string();
        let request = |verb: &str| http::request("POST", &format!("/resources/{verb}"), Some(&body));
        Ok(RestClaims {
            connection: Connection::open(address).await?,
            next: request("claim"),
            after: request("release"),
        })
    }
}

impl Client for RestClaims {
    async fn act(&mut self) -> anyhow::Result<()> {
        let reply = self.connection.ask(&self.next).await?;
        if reply.status != 200 || !reply.body.ends_with(b"ed\":true}") {
            bail!("answered with {}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        }
        std::mem::swap(&mut self.next, &mut self.after);
        Ok(())
    }
}
