//! The ceiling: a bare server that sends every received message to every connection, and stores none.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::say;

/// The most messages on their way to connections.
const KEPT: usize = 65_536;

#[derive(Clone)]
struct Hub {
    count: Arc<Mutex<u64>>,
    sender: broadcast::Sender<Utf8Bytes>,
}

/// Serves until the process ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        say::data(format_args!("listening on http://{}", listener.local_addr()?));
        let hub = Hub { count: Arc::default(), sender: broadcast::channel(KEPT).0 };
        let routes = axum::Router::new()
            .route("/tasks", post(publish))
            .route("/status", get(status))
            .route("/clutch/v0/stream", get(follow))
            .with_state(hub);
        axum::serve(listener, routes).await?;
        Ok(())
    })
}

async fn publish(State(hub): State<Hub>, Json(task): Json<Value>) -> (StatusCode, Json<Value>) {
    let mut count = hub.count.lock().unwrap_or_else(PoisonError::into_inner);
    *count += 1;
    let message = json!({
        "v": "clutch/0.1", "id": "msg_0000000000000", "ts": "2026-11-16T08:00:00.000Z", "thread_id": "thr_default",
        "run_id": "run_default", "task_id": "task_00000000000000000000000", "parent_task_id": null,
        "from": { "agent_id": "agent:bench" }, "to": [], "type": "task.request", "payload": task,
        "meta": { "seq": *count, "kind": "task.created", "version": 1, "auth": "asserted", "via": null, "cause": null },
    });
    // Fails without a listener, which is fine.
    drop(hub.sender.send(format!(r#"{{"seq":{count},"message":{message}}}"#).into()));
    (StatusCode::CREATED, Json(task))
}

async fn status(State(hub): State<Hub>) -> Json<Value> {
    Json(json!({ "event_count": *hub.count.lock().unwrap_or_else(PoisonError::into_inner) }))
}

async fn follow(State(hub): State<Hub>, upgrade: WebSocketUpgrade) -> Response {
    let receiver = hub.sender.subscribe();
    upgrade.on_upgrade(|socket| send(socket, receiver))
}

async fn send(mut socket: WebSocket, mut receiver: broadcast::Receiver<Utf8Bytes>) {
    while let Ok(frame) = receiver.recv().await {
        if socket.send(Message::Text(frame)).await.is_err() {
            return;
        }
    }
}
