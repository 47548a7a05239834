//! A server for the official conformance suite: it offers what the suite asks for, behind the transport, the sessions and
//! the guard that the daemon has. `cargo xtask test --only mcp` runs the suite against it.
//!
//! Prints its address and serves until it is ended.

#![expect(deprecated, reason = "the suite tests what newer versions of the protocol leave out, too")]

mod changes;
mod disconnect;
mod fixture;
mod logging;
mod prompts;
mod questions;
mod resources;
mod tools;
mod wire;

use std::io::Write;
use std::sync::Arc;

use anyhow::Context as _;
use axum::middleware;
use axum::response::IntoResponse;
use rookery_core::{LogId, NodeId, SiteId};
use rookery_engine::credentials::Trust;
use rookery_engine::renderer::RendererStatus;
use rookery_engine::settings::Settings;
use rookery_engine::watcher::WatchCoverage;
use rookery_engine::{Access, Config, Engine, Parts, RandomIds, SystemClock};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::node::Site;
use rookery_store::{Clock, Node, PresenceBoard};
use rookery_surfaces::http::guard::{self, GuardPolicy, RequestBounds};
use rookery_surfaces::http::instance_sockets::Sockets;
use rookery_surfaces::http::state::About;
use rookery_surfaces::mcp::{self, Clients};
use rookery_surfaces::{App, Listening, Server};
use tokio::sync::watch;

use fixture::{Fixture, Shared};

/// As the daemon's, for the one surface that is here.
const POLICY: GuardPolicy = GuardPolicy {
    is_page: |_| false,
    bounds: |_| RequestBounds::Own,
    query_parameters: |_, _| None,
    render_error: |_, error| error.into_response(),
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = app(address.port());
    let shared = Arc::new(Shared::new()?);
    let server = move || Fixture::new(shared.clone());
    let clients = Clients::new(&app);
    tokio::spawn(mcp::keep_up(app.clone(), clients.clone()));
    let route = mcp::route(&app, &clients, "/mcp", server).layer(middleware::from_fn(disconnect::with_cut));
    let routes = guard::around(route, &app, POLICY).with_state(app.clone());
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{address}")?;
    stdout.flush()?;
    tokio::spawn(Server::new(app, routes).run(Listening { tcp: listener, tls: None, unix: None }))
        .await
        .context("serving ended badly")
}

/// Ours, on a store that is forgotten.
fn app(port: u16) -> App {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let board = Arc::new(PresenceBoard::default());
    let node = Node {
        id: NodeId::from("node_1"),
        host: "localhost".to_owned(),
        pid: std::process::id(),
        url: None,
        version: "0".to_owned(),
        site: Site { id: SiteId::from("site_1"), root: ".".to_owned() },
        started_at: clock.now(),
    };
    let store = MemoryStore::new(Database::new(LogId::from("log_1")), clock.clone(), board.clone());
    let engine = Engine::new(Parts {
        store: Arc::new(store),
        clock,
        ids: Arc::new(RandomIds),
        board,
        access: Access::new(Trust::Local, None),
        node,
        config: Config::new("fixture", ".", Settings::default()),
    });
    let (_, sight) = watch::channel(WatchCoverage::Off);
    let (_, rendered) = watch::channel(RendererStatus::default());
    let about = About {
        project_id: "fixture".to_owned(),
        version: "0",
        port,
        store: "memory".to_owned(),
        allowed_hosts: vec![],
        sight,
        rendered,
        sockets: Sockets { run_time: std::env::temp_dir() },
        started_at: 0,
    };
    App::new(engine, about)
}
