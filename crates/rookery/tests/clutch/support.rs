//! A daemon for one test, and short calls of its gateway.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use serde_json::Value;

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

pub fn start() -> Daemon {
    setup().start().expect("the daemon starts")
}

/// Sends a request to the gateway.
pub async fn ask(daemon: &Daemon, method: Method, path: &str, body: Option<Value>) -> HttpReply {
    let mut request = daemon.request(method, &format!("/clutch/v0{path}"));
    if let Some(body) = body {
        request = request.json(&body);
    }
    read(request).await.unwrap()
}

/// Sends a request that must succeed, and returns the body.
pub async fn ask_ok(daemon: &Daemon, method: Method, path: &str, body: Option<Value>) -> Value {
    let reply = ask(daemon, method.clone(), path, body).await;
    assert!(reply.status.is_success(), "{method} {path}: {} {}", reply.status, reply.body);
    reply.body
}

/// Returns the body of a REST GET that must succeed.
pub async fn rest(daemon: &Daemon, path: &str) -> Value {
    let reply = daemon.get(path).await.unwrap();
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    reply.body
}
