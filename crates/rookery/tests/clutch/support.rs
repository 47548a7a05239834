//! A daemon for one test, and short words for what tests ask of its gateway.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use serde_json::Value;

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

pub fn start() -> Daemon {
    setup().start().expect("the daemon starts")
}

/// A request to the gateway, whatever it answers.
pub async fn ask(daemon: &Daemon, method: Method, path: &str, body: Option<Value>) -> HttpReply {
    let mut request = daemon.request(method, &format!("/clutch/v0{path}"));
    if let Some(body) = body {
        request = request.json(&body);
    }
    read(request).await.unwrap()
}

/// What a request answers that must succeed.
pub async fn asked(daemon: &Daemon, method: Method, path: &str, body: Option<Value>) -> Value {
    let reply = ask(daemon, method.clone(), path, body).await;
    assert!(reply.status.is_success(), "{method} {path}: {} {}", reply.status, reply.body);
    reply.body
}

/// What REST answers to a GET.
pub async fn rest(daemon: &Daemon, path: &str) -> Value {
    let reply = daemon.get(path).await.unwrap();
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    reply.body
}
