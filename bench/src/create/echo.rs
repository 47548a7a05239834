//! The ceiling of HTTP: a bare server in its own process that parses the same JSON and sends it back.

use axum::Json;
use axum::http::StatusCode;
use axum::routing::post;
use serde::{Deserialize, Serialize};

use crate::daemon::Daemon;
use crate::rest::HttpClient;
use crate::say;

#[derive(Debug, Serialize, Deserialize)]
struct NewTask {
    title: String,
    description: String,
    assigned_by: String,
    resources: Vec<String>,
}

/// Serves until the process ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        say::data(format_args!("listening on http://{}", listener.local_addr()?));
        let echo = |Json(task): Json<NewTask>| async { (StatusCode::CREATED, Json(task)) };
        axum::serve(listener, axum::Router::new().route("/tasks", post(echo))).await?;
        Ok(())
    })
}

#[derive(Debug)]
pub(super) struct Echo {
    server: Daemon,
}

impl Echo {
    pub(super) fn start() -> anyhow::Result<Echo> {
        Ok(Echo { server: Daemon::echo()? })
    }

    pub(super) async fn clients(&self, count: usize) -> anyhow::Result<Vec<HttpClient>> {
        let mut clients = Vec::new();
        for at in 0..count {
            clients.push(HttpClient::creating(self.server.address, at).await?);
        }
        Ok(clients)
    }
}
