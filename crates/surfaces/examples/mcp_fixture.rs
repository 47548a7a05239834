//! A server for the official conformance suite: it offers what the suite asks for, behind the transport, the sessions and
//! the guard that the daemon has. `cargo xtask test --only conformance` runs the suite against it.
//!
//! Prints its address and serves until it is ended.

#![expect(deprecated, reason = "the suite tests what newer versions of the protocol leave out, too")]

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, ElicitRequest,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, ServerRequest, SetLevelRequestParams,
    SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use rookery_core::{LogId, NodeId, SiteId};
use rookery_engine::access::Trust;
use rookery_engine::rendering::Rendered;
use rookery_engine::watching::Sight;
use rookery_engine::{Access, Engine, Parts, RandomIds, Settings, SystemClock};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::node::Site;
use rookery_store::{Clock, Node, PresenceBoard};
use rookery_surfaces::app::About;
use rookery_surfaces::sockets::Sockets;
use rookery_surfaces::{App, Limits, Listening, Server, guard, mcp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The smallest picture and the smallest sound.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const STEP: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = app(address.port());
    let routes = guard::around(mcp::route(&app, "/mcp", || Fixture), &app).with_state(app.clone());
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{address}")?;
    stdout.flush()?;
    tokio::spawn(Server::of(app, routes).run(Listening { tcp: listener, tls: None, unix: None }))
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
        settings: Settings::new("fixture", "."),
    });
    let (_, sight) = watch::channel(Sight::Off);
    let (_, rendered) = watch::channel(Rendered::default());
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
    App::new(engine, about, Limits::default())
}

/// What the suite expects to find.
struct Fixture;

/// A part of the protocol, written as it goes over the wire.
fn wire<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// A result; newer versions of the protocol want to hear that it is complete.
fn result<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = "complete".into();
    wire(value)
}

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn embedded(uri: &str, kind: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}})
}

fn tools() -> Value {
    let plain = |name: &str| json!({"name": name, "description": name, "inputSchema": {"type": "object"}});
    let asking = |name: &str, field: &str| {
        let schema = json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
        json!({"name": name, "description": name, "inputSchema": schema})
    };
    let names = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_error_handling",
        "test_tool_with_progress",
        "test_reconnection",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
    ];
    let mut tools: Vec<Value> = names.into_iter().map(plain).collect();
    tools.push(asking("test_sampling", "prompt"));
    tools.push(asking("test_elicitation", "message"));
    tools.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "Tool with JSON Schema 2020-12 features",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"}, "email": {"type": "string"}},
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        },
    }));
    json!({"tools": tools})
}

/// What the tools answer that always answer the same.
fn fixed(tool: &str) -> Option<Value> {
    let content = match tool {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image()]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => {
            json!([embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")])
        }
        "test_multiple_content_types" => {
            let data = embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#);
            json!([text("Multiple content types test:"), image(), data])
        }
        "json_schema_2020_12_tool" | "test_reconnection" => json!([text("done")]),
        "test_error_handling" => {
            let said = text("This tool intentionally returns an error for testing");
            return Some(json!({"content": [said], "isError": true}));
        }
        _ => return None,
    };
    Some(json!({"content": content}))
}

/// The form that a tool asks the user to fill in.
fn form(tool: &str, arguments: &Value) -> Option<Value> {
    let three = json!(["option1", "option2", "option3"]);
    let titled = json!([{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"},
        {"const": "value3", "title": "Third"}]);
    let (message, schema) = match tool {
        "test_elicitation" => (
            arguments["message"].clone(),
            json!({"type": "object", "required": ["username", "email"], "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"}}}),
        ),
        "test_elicitation_sep1034_defaults" => (
            json!("Defaults"),
            json!({"type": "object", "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "default": true}}}),
        ),
        "test_elicitation_sep1330_enums" => (
            json!("Choices"),
            json!({"type": "object", "properties": {
                "untitledSingle": {"type": "string", "enum": three},
                "titledSingle": {"type": "string", "oneOf": titled},
                "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"]},
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": three}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled}}}}),
        ),
        _ => return None,
    };
    Some(json!({"mode": "form", "message": message, "requestedSchema": schema}))
}

impl Fixture {
    async fn run(&self, tool: &str, arguments: Value, context: RequestContext<RoleServer>) -> Result<Value, ErrorData> {
        if let Some(answer) = fixed(tool) {
            return Ok(answer);
        }
        if let Some(form) = form(tool, &arguments) {
            let asked = ServerRequest::ElicitRequest(ElicitRequest::new(wire(form)?));
            let answer = context.peer.send_request(asked).await.map_err(failed)?;
            let said = serde_json::to_string(&answer).unwrap_or_default();
            return Ok(json!({"content": [text(format!("Elicitation completed: {said}"))]}));
        }
        match tool {
            "test_sampling" => {
                let message = json!({"role": "user", "content": text(arguments["prompt"].as_str().unwrap_or(""))});
                let asked = wire(json!({"messages": [message], "maxTokens": 100}))?;
                let answer = context.peer.create_message(asked).await.map_err(failed)?;
                let said = serde_json::to_string(&answer).unwrap_or_default();
                Ok(json!({"content": [text(format!("LLM response: {said}"))]}))
            }
            "test_tool_with_logging" => {
                for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    let notice = wire(json!({"level": "info", "data": said}))?;
                    context.peer.notify_logging_message(notice).await.map_err(failed)?;
                    tokio::time::sleep(STEP).await;
                }
                Ok(json!({"content": [text("logged")]}))
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    if let Some(token) = context.meta.get_progress_token() {
                        let notice = ProgressNotificationParam::new(token, done).with_total(100.0);
                        context.peer.notify_progress(notice).await.map_err(failed)?;
                    }
                    tokio::time::sleep(STEP).await;
                }
                Ok(json!({"content": [text("done")]}))
            }
            other => Err(ErrorData::invalid_params(format!("there is no tool '{other}'"), None)),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": name, "required": true});
    json!({"prompts": [
        {"name": "test_simple_prompt", "description": "simple"},
        {"name": "test_prompt_with_arguments", "description": "arguments",
            "arguments": [argument("arg1"), argument("arg2")]},
        {"name": "test_prompt_with_embedded_resource", "description": "resource", "arguments": [argument("resourceUri")]},
        {"name": "test_prompt_with_image", "description": "image"},
    ]})
}

fn prompt(name: &str, arguments: &Value) -> Option<Value> {
    let said = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            vec![text(format!("Prompt with arguments: arg1='{}', arg2='{}'", said("arg1"), said("arg2")))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = embedded(&said("resourceUri"), "text/plain", "Embedded resource content for testing.");
            vec![resource, text("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        _ => return None,
    };
    let messages = contents.into_iter().map(|content| json!({"role": "user", "content": content}));
    Some(json!({"messages": messages.collect::<Vec<_>>()}))
}

fn resource(uri: &str) -> Option<Value> {
    let contents = match uri {
        "test://static-text" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        "test://watched-resource" => json!({"uri": uri, "mimeType": "text/plain", "text": "watched"}),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    };
    Some(json!({"contents": [contents]}))
}

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(&self, _: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        result(tools())
    }

    async fn call_tool(&self, asked: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(asked.arguments.unwrap_or_default());
        Ok(result::<CallToolResult>(self.run(&asked.name, arguments, context).await?)?.into())
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        result(prompts())
    }

    async fn get_prompt(&self, asked: GetPromptRequestParams, _: Context) -> Result<GetPromptResponse, ErrorData> {
        let arguments = serde_json::to_value(&asked.arguments).unwrap_or_default();
        let found = prompt(&asked.name, &arguments);
        let found = found.ok_or_else(|| ErrorData::invalid_params(format!("there is no '{}'", asked.name), None))?;
        Ok(result::<GetPromptResult>(found)?.into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Result<ListResourcesResult, ErrorData> {
        let named = |uri: &str, kind: &str| json!({"uri": uri, "name": uri, "description": uri, "mimeType": kind});
        result(json!({"resources": [
            named("test://static-text", "text/plain"),
            named("test://static-binary", "image/png"),
            named("test://watched-resource", "text/plain"),
        ]}))
    }

    async fn list_resource_templates(&self, _: Page, _: Context) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = json!({"uriTemplate": "test://template/{id}/data", "name": "template", "description": "by id",
            "mimeType": "application/json"});
        result(json!({"resourceTemplates": [template]}))
    }

    async fn read_resource(
        &self,
        asked: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = resource(&asked.uri);
        let found = found.ok_or_else(|| {
            ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": asked.uri})))
        })?;
        Ok(result::<ReadResourceResult>(found)?.into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }
}
