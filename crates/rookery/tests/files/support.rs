//! A daemon, its folder, and short calls for tests.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use reqwest::Method;
use reqwest::header::HeaderMap;
use rookery_testkit::daemon::{self, Daemon, HttpReply, Setup};
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};
use tokio::process::Command;

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "warn").arg("--no-watch")
}

pub fn start() -> Daemon {
    setup().start().unwrap()
}

pub fn instance_folder(daemon: &Daemon) -> PathBuf {
    daemon.root().join(".workflow/pr-1")
}

pub fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Configures an instance as a person.
pub async fn configure(daemon: &Daemon, instance: &str, settings: Value) -> HttpReply {
    let request = daemon.request(Method::PUT, &format!("/contexts/{instance}")).json(&settings);
    daemon::read(request.bearer_auth(daemon.person_key().unwrap())).await.unwrap()
}

/// Configures `pr-1` to be kept in files and waits for its folder.
pub async fn configure_folder(daemon: &Daemon) {
    assert_eq!(configure(daemon, "pr-1", json!({})).await.status, 200);
    eventually("the folder exists", || async { Ok(instance_folder(daemon).join("mcp.json").exists().then_some(())) })
        .await
        .unwrap();
}

/// The versions of a document, oldest first: author and text.
pub async fn versions(daemon: &Daemon, path: &str) -> Vec<(String, String)> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event["seq"].as_u64().unwrap());
        let page = daemon.get(&format!("/events?after={after}&limit=1000")).await.unwrap().body;
        let page = page.as_array().unwrap();
        if page.is_empty() {
            break;
        }
        events.extend(page.iter().cloned());
    }
    let written = events.iter().filter(|event| event["action"] == "x.document.written");
    let version_of = |event: &Value| {
        let metadata = &event["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        (metadata["path"] == path).then(|| (text("author"), text("text")))
    };
    written.filter_map(version_of).collect()
}

/// Waits until the newest version of a document has this text.
pub async fn wait_for_version(daemon: &Daemon, path: &str, text: &str) {
    let goal = format!("{path} is '{text}'");
    eventually(&goal, || async { Ok(versions(daemon, path).await.last().filter(|(_, last)| last == text).map(drop)) })
        .await
        .unwrap();
}

/// Runs a program to its end.
#[expect(clippy::disallowed_methods, reason = "runs an editor as a person would")]
pub async fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().await.unwrap()
}

pub async fn rookery(daemon: &Daemon, args: &[&str]) -> Output {
    let root = daemon.root().to_str().unwrap();
    let all: Vec<&str> = args.iter().copied().chain(["--dir", root]).collect();
    run(env!("CARGO_BIN_EXE_rookery"), &all).await
}

/// Calls a method of MCP on the socket, without a session.
pub async fn call(socket: &Path, path: &str, agent: Option<&str>, method: &str, params: Value) -> Value {
    call_with(socket, path, HeaderMap::new(), agent, method, params).await
}

/// The same with additional headers.
pub async fn call_with(
    socket: &Path,
    path: &str,
    headers: HeaderMap,
    agent: Option<&str>,
    method: &str,
    params: Value,
) -> Value {
    let client = reqwest::Client::builder().no_proxy().unix_socket(socket).default_headers(headers).build().unwrap();
    post(&client, &format!("http://localhost{path}"), agent, method, params).await
}

async fn post(client: &reqwest::Client, url: &str, agent: Option<&str>, method: &str, params: Value) -> Value {
    let mut params = params;
    let version = "2026-07-28";
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut request = client
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", method)
        .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
    if let Some(agent) = agent {
        request = request.header("x-agent-id", agent);
    }
    if let Some(name) = params["name"].as_str() {
        request = request.header("mcp-name", name);
    }
    request.send().await.unwrap().json().await.unwrap()
}

pub async fn wait_for_socket(daemon: &Daemon) -> PathBuf {
    let socket = instance_folder(daemon).join("context.sock");
    eventually("the socket", || async { Ok(socket.exists().then_some(())) }).await.unwrap();
    socket
}

/// Calls a tool on an instance's socket; returns its text and whether it is an error.
pub async fn call_tool(socket: &Path, agent: &str, name: &str, arguments: Value) -> (String, bool) {
    let params = json!({ "name": name, "arguments": arguments });
    text_of_result(&call(socket, "/mcp", Some(agent), "tools/call", params).await)
}

/// Calls a tool at the daemon's address; returns its text and whether it is an error.
pub async fn call_tool_by_http(url: &str, agent: &str, name: &str, arguments: Value) -> (String, bool) {
    let params = json!({ "name": name, "arguments": arguments });
    let client = daemon::client().unwrap();
    text_of_result(&post(&client, &format!("{url}/mcp/context"), Some(agent), "tools/call", params).await)
}

fn text_of_result(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (text.to_owned(), result["isError"] == true)
}
