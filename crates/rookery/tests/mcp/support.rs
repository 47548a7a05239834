//! A daemon, its clients by every transport, and short calls for tests.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, CustomNotification, ProtocolVersion, ResourceUpdatedNotificationParam,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RoleClient, RunningService, ServiceExt,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rookery_testkit::daemon::{Daemon, Setup, client};
use serde_json::{Map, Value, json};
use tokio::process::{Child, Command};
use tokio::sync::{OnceCell, mpsc};

use crate::schema::assert_conforms;

/// Long enough for a loaded machine; nothing waits for it unless something is wrong.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

/// How a client reaches the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Streamable HTTP with a session.
    Session,
    /// Streamable HTTP in the protocol version without sessions.
    Stateless,
    /// The Unix socket.
    Socket,
    /// `rookery mcp`.
    Bridge,
    /// `rookery mcp`, for a client of the version without sessions.
    StatelessBridge,
}

pub const TRANSPORTS: [Transport; 5] =
    [Transport::Session, Transport::Stateless, Transport::Socket, Transport::Bridge, Transport::StatelessBridge];

/// Forwards notifications of the daemon to channels.
#[derive(Clone, Debug)]
pub struct NotificationHandler {
    changes: mpsc::UnboundedSender<String>,
    mentions: mpsc::UnboundedSender<Value>,
}

impl ClientHandler for NotificationHandler {
    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        drop(self.changes.send(params.uri));
    }

    async fn on_custom_notification(&self, notification: CustomNotification, _: NotificationContext<RoleClient>) {
        if notification.method == "notifications/mention" {
            drop(self.mentions.send(notification.params.unwrap_or_default()));
        }
    }
}

/// A client that identifies as one agent or as none.
pub struct Client {
    pub service: RunningService<RoleClient, NotificationHandler>,
    pub resource_updates: mpsc::UnboundedReceiver<String>,
    /// The declared output schema of each tool.
    declared: OnceCell<HashMap<String, Value>>,
    pub mentions: mpsc::UnboundedReceiver<Value>,
    _bridge: Option<Child>,
}

pub async fn connect(daemon: &Daemon, transport: Transport, agent: Option<&str>) -> Client {
    connect_to(daemon, transport, "", agent).await
}

/// Connects to a toolset; the empty name means all tools.
pub async fn connect_to(daemon: &Daemon, transport: Transport, set: &str, agent: Option<&str>) -> Client {
    let name = HeaderName::from_static("x-agent-id");
    let headers = agent.map(|agent| (name, HeaderValue::from_str(agent).unwrap())).into_iter().collect();
    connect_with(daemon, transport, set, agent, headers).await
}

/// Connects with given headers; the bridge uses only the agent.
pub async fn connect_with(
    daemon: &Daemon,
    transport: Transport,
    set: &str,
    agent: Option<&str>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Client {
    let path = if set.is_empty() { "/mcp".to_owned() } else { format!("/mcp/{set}") };
    let config = |url: String| StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers.clone());
    let ((changes, resource_updates), (mention_sender, mentions)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let handler = NotificationHandler { changes, mentions: mention_sender };
    let mut bridge = None;
    let service = match transport {
        Transport::Session | Transport::Stateless => {
            let config = config(format!("{}{path}", daemon.url()));
            let http = StreamableHttpClientTransport::with_client(client().unwrap(), config);
            handler.serve_with_lifecycle(http, lifecycle(transport)).await
        }
        Transport::Socket => {
            let socket = daemon.root().join(".rookery/rookery.sock");
            let config = config(format!("http://any-name{path}"));
            let socket = socket.to_str().unwrap();
            handler.serve(StreamableHttpClientTransport::from_unix_socket_with_config(socket, config)).await
        }
        Transport::Bridge | Transport::StatelessBridge => {
            let mut child = start_bridge(daemon.root(), set, agent);
            let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
            bridge = Some(child);
            handler.serve_with_lifecycle(pipes, lifecycle(transport)).await
        }
    };
    let service = service.unwrap_or_else(|error| panic!("{transport:?}: {error}"));
    Client { service, resource_updates, mentions, declared: OnceCell::new(), _bridge: bridge }
}

fn lifecycle(transport: Transport) -> ClientLifecycleMode {
    match transport {
        Transport::Stateless | Transport::StatelessBridge => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
        }
        Transport::Session | Transport::Socket | Transport::Bridge => ClientLifecycleMode::Initialize,
    }
}

/// Starts `rookery mcp` in the project's folder.
#[expect(clippy::disallowed_methods, reason = "this is the module that starts the bridge under test")]
pub fn start_bridge(root: &Path, set: &str, agent: Option<&str>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rookery"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
        command.env_remove(name);
    }
    command.arg("mcp").arg("--dir").arg(root);
    if !set.is_empty() {
        command.args(["--tools", set]);
    }
    if let Some(agent) = agent {
        command.args(["--agent", agent]);
    }
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.kill_on_drop(true).spawn().unwrap()
}

impl Client {
    pub async fn call_raw(&self, tool: &str, arguments: Value) -> CallToolResult {
        let Value::Object(arguments) = arguments else { panic!("{arguments} are no arguments") };
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answered = tokio::time::timeout(DEADLINE, self.service.call_tool(call)).await;
        answered.unwrap_or_else(|_| panic!("{tool} timed out")).unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    /// Returns the structured result of a call that must succeed.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call_raw(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{tool}: {:?}", result.content);
        let value = result.structured_content.unwrap();
        if let Some(schema) = self.declared.get_or_init(|| self.schemas()).await.get(tool) {
            assert_conforms(schema, &value, tool);
        }
        value
    }

    /// Output schemas by tool; small toolsets declare none.
    async fn schemas(&self) -> HashMap<String, Value> {
        let tools = self.service.list_all_tools().await.unwrap().into_iter();
        let schema = |schema: Arc<Map<String, Value>>| Value::Object((*schema).clone());
        tools.filter_map(|tool| Some((tool.name.to_string(), schema(tool.output_schema?)))).collect()
    }

    /// Returns the error of a call that must fail.
    pub async fn call_rejected(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call_raw(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{tool}: {:?}", result.structured_content);
        serde_json::from_str(&first_text(&result)).unwrap()
    }

    pub async fn register(&self, name: &str) -> String {
        let registered = self.call("agent_register", json!({"name": name, "runtime": "custom"})).await;
        text(&registered["id"])
    }

    /// Returns the first text of a call that must succeed, as a model reads it.
    pub async fn call_text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call_raw(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{tool}: {:?}", result.content);
        first_text(&result)
    }

    /// Checks the inbox, which shows its messages, and returns their texts.
    pub async fn read_inbox(&self) -> Vec<String> {
        let messages = self.call("inbox_check", json!({})).await["messages"].clone();
        messages.as_array().unwrap().iter().map(|message| text(&message["entry"]["message"])).collect()
    }

    /// The next pushed mention.
    pub async fn next_mention(&mut self) -> Value {
        tokio::time::timeout(DEADLINE, self.mentions.recv()).await.expect("no mention arrives").unwrap()
    }

    /// The URI of the next resource that changed.
    pub async fn next_resource_update(&mut self) -> String {
        tokio::time::timeout(DEADLINE, self.resource_updates.recv()).await.expect("no notification arrives").unwrap()
    }
}

/// The first text of a result.
pub fn first_text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

pub fn inbox_uri(agent: &str) -> String {
    format!("rookery://agents/{agent}/inbox")
}

/// Creates a task, reserved for an agent if one is named.
pub async fn create_task(daemon: &Daemon, assigned_to: Option<&str>) -> String {
    let body = json!({"title": "work", "assigned_by": "somebody", "assigned_to": assigned_to});
    let reply = daemon.post("/tasks", body).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    text(&reply.body["id"])
}

/// Creates a workflow with these tasks; returns its id and the ids of the tasks by name.
pub async fn create_planned_workflow(client: &Client, tasks: Value) -> (String, BTreeMap<String, String>) {
    let created = json!({"name": "a workflow", "source_type": "prompt", "source_content": "do it"});
    let workflow = text(&client.call("workflow_create", created).await["id"]);
    let plan = json!({"id": workflow, "plan": {"summary": "the plan", "tasks": tasks}});
    client.call("workflow_set_plan", plan).await;
    let planned = client.call("workflow_get", json!({"id": workflow, "include_tasks": true})).await;
    let tasks = planned["tasks"].as_array().unwrap().iter().map(|task| (text(&task["name"]), text(&task["id"])));
    (workflow, tasks.collect())
}

/// Rows of the log with this kind.
pub fn rows_of_kind(daemon: &Daemon, kind: &str) -> Vec<Value> {
    export_log(daemon).into_iter().filter(|row| row["kind"] == kind).collect()
}

/// All rows of the log.
pub fn export_log(daemon: &Daemon) -> Vec<Value> {
    daemon.export().unwrap()
}
