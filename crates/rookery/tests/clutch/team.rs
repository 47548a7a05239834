//! A team for one test, and short calls for tests.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};
use std::path::Path;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams, ResourceContents};
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rookery_testkit::daemon::{Daemon, Setup, client};
use rookery_testkit::websocket::{LoggedMessage, Socket};
use serde_json::{Value, json};

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

pub struct Team(pub Daemon);

impl Deref for Team {
    type Target = Daemon;
    fn deref(&self) -> &Daemon {
        &self.0
    }
}

impl DerefMut for Team {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.0
    }
}

/// A daemon with these agents.
pub async fn team(agents: &[&str]) -> Team {
    team_of(setup(), agents).await
}

pub async fn team_of(setup: Setup, agents: &[&str]) -> Team {
    let team = Team(setup.start().unwrap());
    for agent in agents {
        announce(&team, agent).await;
    }
    team
}

pub async fn announce(daemon: &Daemon, agent: &str) {
    let reply = daemon.post("/agents/announce", json!({"id": agent, "tool": "test", "role": "worker"})).await.unwrap();
    assert!(reply.status.is_success(), "{}", reply.body);
}

/// Appends a note with a number.
pub async fn note(daemon: &Daemon, agent: &str, number: usize) {
    let body = json!({"agent_id": agent, "action": "x.n", "metadata": {"n": number}});
    assert_eq!(daemon.post("/events", body).await.unwrap().status, 201);
}

pub async fn create_task(daemon: &Daemon, title: &str) -> String {
    let reply = daemon.post("/tasks", json!({"title": title, "assigned_by": "somebody"})).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    text(&reply.body["id"])
}

pub async fn patch_task(daemon: &Daemon, task: &str, change: Value) {
    let reply = daemon.patch(&format!("/tasks/{task}"), change).await.unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// Returns the body of a gateway GET that must succeed.
pub async fn ok(daemon: &Daemon, path: &str) -> Value {
    let reply = daemon.get(&format!("/clutch/v0{path}")).await.unwrap();
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    reply.body
}

/// Status, code and details of a gateway GET that must be rejected.
pub async fn get_rejected(daemon: &Daemon, path: &str) -> (u16, String, Value) {
    let reply = daemon.get(&format!("/clutch/v0{path}")).await.unwrap();
    assert_eq!(reply.body["retryable"], json!(reply.status == 503), "{}", reply.body);
    assert!(reply.body["message"].is_string(), "{}", reply.body);
    (reply.status.as_u16(), text(&reply.body["code"]), reply.body["details"].clone())
}

/// All pages of a listing as one list, and the number of pages.
pub async fn pages(daemon: &Daemon, path: &str) -> (Vec<LoggedMessage>, usize) {
    let (mut all, mut count, mut after) = (Vec::new(), 0, None::<u64>);
    loop {
        let more = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let page = ok(daemon, &format!("{path}{more}")).await;
        let messages = page["messages"].as_array().unwrap();
        all.extend(messages.iter().map(|message| LoggedMessage::read(message).unwrap()));
        count += 1;
        match page["next"].as_u64() {
            Some(next) => after = Some(next),
            None => return (all, count),
        }
    }
}

/// An envelope from ken to the router, for which no agent fits.
pub fn envelope(id: &str, message_type: &str, task: &str, payload: Value) -> Value {
    json!({
        "v": "clutch/0.1", "id": id, "ts": "2026-02-01T13:20:11.123Z", "thread_id": "thr_1", "run_id": "run_1",
        "task_id": task, "from": {"agent_id": "agent:ken", "role": "worker"}, "to": [{"agent_id": "agent:orchestrator"}],
        "type": message_type, "payload": payload, "requires": ["skill:flying"],
    })
}

pub async fn follow(daemon: &Daemon, query: &str) -> Socket {
    Socket::open(daemon.url(), query).await.unwrap()
}

/// Runs `rookery` in a project's folder; returns exit code, stdout and stderr.
pub fn rookery(root: &Path, store: Option<&str>, args: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
        command.env_remove(name);
    }
    command.envs(store.map(|store| ("ROOKERY_STORE", store)));
    let output = command.current_dir(root).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// An agent that speaks MCP.
pub struct Tools(RunningService<RoleClient, ()>);

impl Tools {
    pub async fn connect(daemon: &Daemon, agent: &str) -> Tools {
        let name = HeaderName::from_static("x-agent-id");
        let headers = HashMap::from([(name, HeaderValue::from_str(agent).unwrap())]);
        let config = StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", daemon.url()));
        let transport = StreamableHttpClientTransport::with_client(client().unwrap(), config.custom_headers(headers));
        Tools(().serve(transport).await.unwrap())
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.attempt(tool, arguments).await.unwrap_or_else(|rejected| panic!("{tool}: {rejected}"))
    }

    /// Returns the result of a call, or its error text.
    pub async fn attempt(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        let Value::Object(arguments) = arguments else { panic!("{arguments} are no arguments") };
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let result = self.0.call_tool(call).await.unwrap();
        match result.is_error {
            Some(true) => Err(format!("{:?}", result.content)),
            _ => Ok(result.structured_content.unwrap_or_default()),
        }
    }

    /// The text of a resource.
    pub async fn read(&self, address: &str) -> Result<String, String> {
        let read = self.0.read_resource(ReadResourceRequestParams::new(address)).await;
        match read.map_err(|rejected| rejected.to_string())?.contents.remove(0) {
            ResourceContents::TextResourceContents { text, .. } => Ok(text),
            other => panic!("{other:?} is no text"),
        }
    }

    /// Creates a run with these tasks; returns its id and the ids of the tasks by name.
    pub async fn plan(&self, tasks: Value) -> (String, BTreeMap<String, String>) {
        let created = json!({"name": "a run", "source_type": "prompt", "source_content": "do it"});
        let run = text(&self.call("workflow_create", created).await["id"]);
        self.call("workflow_set_plan", json!({"id": run, "plan": {"summary": "s", "tasks": tasks}})).await;
        let planned = self.call("workflow_get", json!({"id": run, "include_tasks": true})).await;
        let tasks = planned["tasks"].as_array().unwrap().iter().map(|task| (text(&task["name"]), text(&task["id"])));
        (run, tasks.collect())
    }
}
