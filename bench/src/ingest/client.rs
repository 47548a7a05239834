//! Clients that send envelopes, each of which waits for the answer before the next one.

use std::net::SocketAddr;

use anyhow::bail;
use rookery_core::clutch::Shape;
use rookery_core::{Actor, Caller};
use rookery_engine::Engine;

use super::envelope::{Template, mint};
use crate::http::{self, Connection};
use crate::sample::Client;

const PATH: &str = "/clutch/v0/messages";

/// The caller for the sender of an envelope.
pub(crate) fn caller(from: &Actor) -> Caller {
    match from {
        Actor::Agent(agent) => Caller::asserted(agent.clone()),
        _ => Caller::anonymous(),
    }
}

/// The content of one call.
#[derive(Debug)]
struct Mail {
    template: Template,
    at_once: usize,
}

impl Mail {
    fn of(at: usize, at_once: usize) -> Mail {
        Mail { template: Template::of(at), at_once }
    }

    fn written(&self) -> String {
        match self.at_once {
            1 => self.template.with(&mint()),
            count => self.template.lines(count),
        }
    }

    fn shape(&self) -> Shape {
        if self.at_once == 1 { Shape::Json } else { Shape::Lines }
    }
}

/// Sends envelopes to the engine in this process.
#[derive(Debug)]
pub(super) struct OwnSender {
    engine: Engine,
    mail: Mail,
}

impl OwnSender {
    pub(super) fn crowd(engine: &Engine, count: usize, at_once: usize) -> Vec<OwnSender> {
        (0..count).map(|at| OwnSender { engine: engine.clone(), mail: Mail::of(at, at_once) }).collect()
    }
}

impl Client for OwnSender {
    async fn act(&mut self) -> anyhow::Result<()> {
        let bytes = self.mail.written();
        self.engine.intake().ingest(bytes.as_bytes(), self.mail.shape(), |from| Ok(caller(from))).await?;
        Ok(())
    }
}

/// Sends envelopes to the daemon.
#[derive(Debug)]
pub(super) struct HttpSender {
    connection: Connection,
    mail: Mail,
}

impl HttpSender {
    pub(super) async fn crowd(address: SocketAddr, count: usize, at_once: usize) -> anyhow::Result<Vec<HttpSender>> {
        let mut crowd = Vec::new();
        for at in 0..count {
            crowd.push(HttpSender { connection: Connection::open(address).await?, mail: Mail::of(at, at_once) });
        }
        Ok(crowd)
    }
}

impl Client for HttpSender {
    async fn act(&mut self) -> anyhow::Result<()> {
        let kind = if self.mail.at_once == 1 { "application/json" } else { "application/x-ndjson" };
        let reply = self.connection.ask(&http::request_with("POST", PATH, kind, &self.mail.written())).await?;
        if reply.status != 202 {
            bail!("answered with {}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        }
        Ok(())
    }
}
