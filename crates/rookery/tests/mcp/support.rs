//! A daemon, clients of it by every way in, and short words for what tests ask of them.

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

use crate::schema::conforms;

/// Long enough for a loaded machine; nothing waits for it unless something is wrong.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error").arg("--no-watch")
}

/// How a client reaches the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Streamable HTTP with a session.
    Session,
    /// Streamable HTTP of the version without sessions.
    Alone,
    /// The Unix socket.
    Socket,
    /// `rookery mcp`.
    Bridge,
    /// `rookery mcp`, for a client of the version without sessions.
    BridgeAlone,
}

pub const WAYS: [Way; 5] = [Way::Session, Way::Alone, Way::Socket, Way::Bridge, Way::BridgeAlone];

/// Hears what the daemon says by itself.
#[derive(Clone, Debug)]
pub struct Ears {
    changes: mpsc::UnboundedSender<String>,
    mentions: mpsc::UnboundedSender<Value>,
}

impl ClientHandler for Ears {
    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        drop(self.changes.send(params.uri));
    }

    async fn on_custom_notification(&self, notification: CustomNotification, _: NotificationContext<RoleClient>) {
        if notification.method == "notifications/mention" {
            drop(self.mentions.send(notification.params.unwrap_or_default()));
        }
    }
}

/// A client that speaks as one agent, or as nobody.
pub struct Client {
    pub service: RunningService<RoleClient, Ears>,
    pub heard: mpsc::UnboundedReceiver<String>,
    /// What results are announced to look like, by tool.
    announced: OnceCell<HashMap<String, Value>>,
    pub mentions: mpsc::UnboundedReceiver<Value>,
    _bridge: Option<Child>,
}

pub async fn connect(daemon: &Daemon, way: Way, agent: Option<&str>) -> Client {
    connect_to(daemon, way, "", agent).await
}

/// Connects to a toolset; an empty one is all of them.
pub async fn connect_to(daemon: &Daemon, way: Way, set: &str, agent: Option<&str>) -> Client {
    let name = HeaderName::from_static("x-agent-id");
    let headers = agent.map(|agent| (name, HeaderValue::from_str(agent).unwrap())).into_iter().collect();
    connect_with(daemon, way, set, agent, headers).await
}

/// Connects with headers of one's own; the bridge knows none but the agent.
pub async fn connect_with(
    daemon: &Daemon,
    way: Way,
    set: &str,
    agent: Option<&str>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> Client {
    let path = if set.is_empty() { "/mcp".to_owned() } else { format!("/mcp/{set}") };
    let config = |url: String| StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers.clone());
    let ((changes, heard), (told, mentions)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let ears = Ears { changes, mentions: told };
    let mut bridge = None;
    let service = match way {
        Way::Session | Way::Alone => {
            let config = config(format!("{}{path}", daemon.url()));
            let transport = StreamableHttpClientTransport::with_client(client().unwrap(), config);
            ears.serve_with_lifecycle(transport, lifecycle(way)).await
        }
        Way::Socket => {
            let socket = daemon.root().join(".rookery/rookery.sock");
            let config = config(format!("http://any-name{path}"));
            let socket = socket.to_str().unwrap();
            ears.serve(StreamableHttpClientTransport::from_unix_socket_with_config(socket, config)).await
        }
        Way::Bridge | Way::BridgeAlone => {
            let mut child = start_bridge(daemon.root(), set, agent);
            let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
            bridge = Some(child);
            ears.serve_with_lifecycle(pipes, lifecycle(way)).await
        }
    };
    let service = service.unwrap_or_else(|error| panic!("{way:?}: {error}"));
    Client { service, heard, mentions, announced: OnceCell::new(), _bridge: bridge }
}

fn lifecycle(way: Way) -> ClientLifecycleMode {
    match way {
        Way::Alone | Way::BridgeAlone => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
        }
        Way::Session | Way::Socket | Way::Bridge => ClientLifecycleMode::Initialize,
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
    pub async fn raw(&self, tool: &str, arguments: Value) -> CallToolResult {
        let Value::Object(arguments) = arguments else { panic!("{arguments} are no arguments") };
        let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let answered = tokio::time::timeout(DEADLINE, self.service.call_tool(call)).await;
        answered.unwrap_or_else(|_| panic!("{tool} is not answered")).unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    /// What a call that succeeds answers.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.raw(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{tool}: {:?}", result.content);
        let value = result.structured_content.unwrap();
        if let Some(schema) = self.announced.get_or_init(|| self.schemas()).await.get(tool) {
            conforms(schema, &value, tool);
        }
        value
    }

    /// Small sets announce none.
    async fn schemas(&self) -> HashMap<String, Value> {
        let tools = self.service.list_all_tools().await.unwrap().into_iter();
        let schema = |schema: Arc<Map<String, Value>>| Value::Object((*schema).clone());
        tools.filter_map(|tool| Some((tool.name.to_string(), schema(tool.output_schema?)))).collect()
    }

    /// What a call that fails says.
    pub async fn refused(&self, tool: &str, arguments: Value) -> Value {
        let result = self.raw(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{tool}: {:?}", result.structured_content);
        serde_json::from_str(&said(&result)).unwrap()
    }

    pub async fn register(&self, name: &str) -> String {
        let registered = self.call("agent_register", json!({"name": name, "runtime": "custom"})).await;
        text(&registered["id"])
    }

    /// What a call that succeeds says first, as a model reads it.
    pub async fn says(&self, tool: &str, arguments: Value) -> String {
        let result = self.raw(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{tool}: {:?}", result.content);
        said(&result)
    }

    /// The texts of what waits in the inbox, which is shown by this.
    pub async fn inbox(&self) -> Vec<String> {
        let messages = self.call("inbox_check", json!({})).await["messages"].clone();
        messages.as_array().unwrap().iter().map(|message| text(&message["entry"]["message"])).collect()
    }

    /// The next mention that is pushed.
    pub async fn is_told(&mut self) -> Value {
        tokio::time::timeout(DEADLINE, self.mentions.recv()).await.expect("nothing is told").unwrap()
    }

    /// The next resource that is said to have changed.
    pub async fn hears(&mut self) -> String {
        tokio::time::timeout(DEADLINE, self.heard.recv()).await.expect("nothing is heard").unwrap()
    }
}

/// The first text of a result.
pub fn said(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().text.clone()
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

pub fn inbox(agent: &str) -> String {
    format!("rookery://agents/{agent}/inbox")
}

/// A new task, kept for somebody if named.
pub async fn task(daemon: &Daemon, assigned_to: Option<&str>) -> String {
    let body = json!({"title": "work", "assigned_by": "somebody", "assigned_to": assigned_to});
    let reply = daemon.post("/tasks", body).await.unwrap();
    assert_eq!(reply.status, 201, "{}", reply.body);
    text(&reply.body["id"])
}

/// A workflow with these tasks, by a caller that is known; and the ids of its tasks by their names.
pub async fn plan(client: &Client, tasks: Value) -> (String, BTreeMap<String, String>) {
    let created = json!({"name": "a workflow", "source_type": "prompt", "source_content": "do it"});
    let workflow = text(&client.call("workflow_create", created).await["id"]);
    let plan = json!({"id": workflow, "plan": {"summary": "the plan", "tasks": tasks}});
    client.call("workflow_set_plan", plan).await;
    let planned = client.call("workflow_get", json!({"id": workflow, "include_tasks": true})).await;
    let tasks = planned["tasks"].as_array().unwrap().iter().map(|task| (text(&task["name"]), text(&task["id"])));
    (workflow, tasks.collect())
}

/// Rows of the log with this kind.
pub fn facts(daemon: &Daemon, kind: &str) -> Vec<Value> {
    exported(daemon).into_iter().filter(|row| row["kind"] == kind).collect()
}

/// The log.
pub fn exported(daemon: &Daemon) -> Vec<Value> {
    daemon.export().unwrap()
}
