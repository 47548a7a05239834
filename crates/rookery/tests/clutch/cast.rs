//! The participants of the protocol's example, each in a separate process: this program again, told its part by a
//! variable. A
//! participant exits when its test does, however that ends.

use std::io::Read;
use std::process::{ExitStatus, Stdio};

use reqwest::{Client, Method};
use rookery_testkit::daemon::{Daemon, client, read};
use rookery_testkit::wait;
use rookery_testkit::websocket::Socket;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::endpoint::{Endpoint, Reaction};
use crate::inbox::{ids, to};
use crate::sending::envelope;

/// The variables with the part of a process and the daemon's URL.
const PART: &str = "ROOKERY_TEST_PART";
const DAEMON: &str = "ROOKERY_TEST_DAEMON";

/// A process that plays a part.
pub struct Actor(Child);

impl Actor {
    /// Starts a part in the test of this name, which plays it if it has an [`assigned_part`].
    #[expect(clippy::disallowed_methods, reason = "this module starts the participants")]
    pub fn start(part: &str, test: &str, daemon: &Daemon) -> Actor {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(PART, part).env(DAEMON, daemon.url());
        Actor(command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap())
    }

    /// Waits until the process exits successfully, and returns the JSON lines that it printed.
    pub async fn finish_with_json(mut self) -> Vec<Value> {
        let open_stdin = self.0.stdin.take();
        let output = wait::within("it to end", self.0.wait_with_output()).await.unwrap().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        drop(open_stdin);
        assert!(output.status.success(), "{printed}");
        // The test harness prints its own lines too.
        printed.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Ends the process and returns its exit status.
    pub async fn stop(mut self) -> ExitStatus {
        drop(self.0.stdin.take());
        wait::within("it to leave", self.0.wait()).await.unwrap().unwrap()
    }
}

/// The part that this process was started for, if any.
pub fn assigned_part() -> Option<String> {
    std::env::var(PART).ok()
}

pub async fn play_part(part: &str) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let gateway = Gateway { url: std::env::var(DAEMON).unwrap(), http: client().unwrap() };
    match part {
        "ui" => ui(&gateway).await,
        "ken" => ken(&gateway).await,
        "browser" => browser(&gateway).await,
        other => panic!("unknown part {other}"),
    }
}

/// A message of the example, with its run, thread and task.
fn message(id: &str, kind: &str, from: &str, more: Value) -> Value {
    let mut message = envelope(id, kind, from, more);
    for (field, value) in [("run_id", "run_xyz"), ("thread_id", "thr_market"), ("task_id", "task_abc")] {
        message[field] = json!(value);
    }
    message
}

/// The daemon's Clutch API for a participant.
struct Gateway {
    url: String,
    http: Client,
}

impl Gateway {
    async fn call_gateway(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let mut request = self.http.request(method, format!("{}/clutch/v0{path}", self.url));
        if let Some(body) = &body {
            request = request.json(body);
        }
        let reply = read(request).await.unwrap();
        assert!(reply.status.is_success(), "{path}: {}", reply.body);
        reply.body
    }

    async fn register(&self, card: Value) {
        let path = format!("/agents/{}", card["agent_id"].as_str().unwrap());
        self.call_gateway(Method::PUT, &path, Some(card)).await;
    }

    async fn send_message(&self, message: Value) {
        self.call_gateway(Method::POST, "/messages", Some(message)).await;
    }
}

/// Publishes the request on the WebSocket, and prints all messages of the thread up to the result.
#[expect(clippy::print_stdout, reason = "the test that started this process reads its output")]
async fn ui(gateway: &Gateway) {
    let mut stream = Socket::open(&gateway.url, "?thread_id=thr_market").await.unwrap();
    let asked = json!({"domain": "research", "payload_type": "research.query.v1", "payload": {"query": "Who sells it?"},
        "requires": ["skill:research"]});
    let request = message("msg_1", "task.request", "agent:ui", asked);
    stream.send(&json!({"op": "publish", "message": request})).await.unwrap();
    loop {
        let frame = stream.frame().await.unwrap();
        assert_ne!(frame["type"], "error", "{frame}");
        if frame["op"] == "published" {
            continue;
        }
        println!("{frame}");
        if frame["message"]["type"] == "task.result" {
            return;
        }
    }
}

/// Receives messages at its own endpoint, uses a tool for the request, and answers.
async fn ken(gateway: &Gateway) {
    let endpoint = Endpoint::start(Reaction::Answer(202)).await;
    gateway
        .register(json!({
            "v": "clutch/0.1", "agent_id": "agent:ken", "endpoints": {"clutch": {"url": endpoint.url()}},
            "capabilities": [{"id": "skill:research", "version": "1.0", "tools": ["mcp:browser"]}],
        }))
        .await;
    let request = endpoint.wait_for(1).await.remove(0).body;
    assert_eq!((&request["type"], &request["payload"]["query"]), (&json!("task.request"), &json!("Who sells it?")));
    gateway.send_message(message("msg_4", "task.accept", "agent:ken", json!({}))).await;
    let call = json!({"to": to(&["agent:browser"]), "payload": {"tool": "mcp:browser", "args": {"url": "https://x"}}});
    gateway.send_message(message("msg_5", "tool.call", "agent:ken", call)).await;
    let page = endpoint.wait_for(2).await.remove(1).body;
    assert_eq!((&page["type"], &page["id"]), (&json!("tool.result"), &json!("msg_6")));
    let summary = json!({"findings": [page["payload"]["result"]], "citations": ["https://x"]});
    let result = json!({"domain": "research", "payload_type": "research.summary.v1", "payload": summary});
    gateway.send_message(message("msg_7", "task.result", "agent:ken", result)).await;
    std::future::pending().await
}

/// Serves a tool: pulls the call from its inbox, answers, and acknowledges it.
async fn browser(gateway: &Gateway) {
    gateway.register(json!({"v": "clutch/0.1", "agent_id": "agent:browser"})).await;
    let pulled = gateway.call_gateway(Method::GET, "/agents/browser/inbox?wait=60s", None).await;
    assert_eq!(ids(&pulled), ["msg_5"]);
    let page = json!({"to": to(&["agent:ken"]), "payload": {"tool": "mcp:browser", "result": "two shops"}});
    gateway.send_message(message("msg_6", "tool.result", "agent:browser", page)).await;
    gateway.call_gateway(Method::POST, "/agents/browser/inbox/ack", Some(json!({"ids": ["msg_5"]}))).await;
    std::future::pending().await
}
