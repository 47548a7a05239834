//! Calls tools of the daemon as an agent, through its MCP surface with stateless requests. An action that has a tool needs no
//! other client code.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, INSTANCE, KEY, unknown};
use crate::error::ClientError;
use crate::mcp_message::McpMessage;
use crate::retry::RetrySafety;
use crate::sse::Parser;

const VERSION: &str = "2026-07-28";
/// Longer than the daemon's own limit for a tool that does not wait.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a tool call.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolCallAnswer {
    /// The text for a model.
    pub text: String,
    /// Further texts for a model, such as reminders.
    pub notes: Vec<String>,
    pub value: Value,
}

/// A tool as the daemon describes it to models.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDescription {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub input_schema: Value,
}

/// Calls the daemon's tools as one agent, or as the person who owns the project.
#[derive(Clone, Debug)]
pub struct Tools {
    client: Client,
    agent: Option<String>,
    /// The instance of a caller without an agent id.
    instance: Option<String>,
}

impl Tools {
    /// Uses a client that may act for the agent.
    pub fn new(client: Client, agent: Option<String>) -> Tools {
        Tools { client, agent, instance: None }
    }

    /// Acts as the agent, authenticated with the project's key file.
    pub fn as_agent(client: &Client, agent: &str) -> Result<Tools, ClientError> {
        Ok(Tools::new(client.as_agent(agent)?, Some(agent.to_owned())))
    }

    #[must_use]
    pub fn in_instance(self, instance: Option<String>) -> Tools {
        Tools { instance, ..self }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolCallAnswer, ClientError> {
        self.call_within(CALL_TIMEOUT, tool, arguments).await
    }

    /// As [`Tools::call`], for a tool that waits.
    pub async fn call_within(
        &self,
        most: Duration,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolCallAnswer, ClientError> {
        self.call_with_key(self.client.key().as_deref(), most, tool, arguments).await
    }

    /// As [`Tools::call`], with the caller's idempotency key: repeating the call with it, also from another process, returns
    /// the first answer.
    pub async fn call_once(&self, key: &str, tool: &str, arguments: Value) -> Result<ToolCallAnswer, ClientError> {
        self.call_with_key(Some(key), CALL_TIMEOUT, tool, arguments).await
    }

    /// Lists the daemon's tools: those of a toolset, or all.
    pub async fn list(&self, toolset: Option<&str>) -> Result<Vec<ToolDescription>, ClientError> {
        let path: Vec<&str> = ["mcp"].into_iter().chain(toolset).collect();
        let message = stateless_request("tools/list", json!({}));
        self.send_with_retry(RetrySafety::Always, parse_list, || {
            self.request(&path, &message, None).timeout(CALL_TIMEOUT)
        })
        .await
    }

    async fn call_with_key(
        &self,
        key: Option<&str>,
        most: Duration,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolCallAnswer, ClientError> {
        let message = call(tool, &arguments);
        let safety = if key.is_some() { RetrySafety::Always } else { RetrySafety::IfNotSent };
        self.send_with_retry(safety, parse_answer, || self.request(&["mcp"], &message, key).timeout(most)).await
    }

    /// Sends a request, with retries until the client's retry timeout.
    async fn send_with_retry<T>(
        &self,
        safety: RetrySafety,
        parse: fn(&Value) -> Result<T, ClientError>,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<T, ClientError> {
        let mut budget = self.client.retry_budget();
        loop {
            let answer = async { parse(&read_message(self.client.send(request()).await?).await?) };
            let error = match answer.await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            budget.wait_or_give_up(error, safety).await?;
            self.client.refresh_address();
        }
    }

    fn request(&self, path: &[&str], message: &McpMessage, key: Option<&str>) -> RequestBuilder {
        let mut request = self.client.request(Method::POST, path, &[]);
        request = message.headers().into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let named = [("x-agent-id", self.agent.as_deref()), (INSTANCE, self.instance.as_deref()), (KEY, key)];
        for (name, value) in named {
            request = value.into_iter().fold(request, |request, value| request.header(name, value));
        }
        request.json(message.value())
    }
}

/// Creates a stateless tool call.
pub fn call(tool: &str, arguments: &Value) -> McpMessage {
    stateless_request("tools/call", json!({"name": tool, "arguments": arguments}))
}

/// Creates a request outside of any session.
fn stateless_request(method: &str, mut params: Value) -> McpMessage {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "rookery", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    McpMessage::new(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

/// Reads the answer, which is either a single message or the last one of a stream.
async fn read_message(mut response: Response) -> Result<Value, ClientError> {
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        let bytes = response.bytes().await.map_err(unknown)?;
        return serde_json::from_slice(&bytes).map_err(ClientError::Garbled);
    }
    let mut parser = Parser::default();
    while let Some(bytes) = response.chunk().await.map_err(unknown)? {
        for event in parser.feed(&bytes).unwrap_or_default() {
            match serde_json::from_str::<Value>(&event.data).map_err(ClientError::Garbled)? {
                message if message.get("method").is_none() => return Ok(message),
                _ => {}
            }
        }
    }
    Err(ClientError::Cut)
}

/// Returns the result of an answer, unless it is a protocol error.
fn result(answer: &Value) -> Result<&Value, ClientError> {
    let Some(error) = answer.get("error") else { return Ok(&answer["result"]) };
    let message = error["message"].as_str().unwrap_or("the daemon does not know this call").to_owned();
    Err(ClientError::Refused { status: 400, error: message, code: None, hint: None, detail: None })
}

fn parse_list(answer: &Value) -> Result<Vec<ToolDescription>, ClientError> {
    Vec::deserialize(&result(answer)?["tools"]).map_err(ClientError::Garbled)
}

fn parse_answer(answer: &Value) -> Result<ToolCallAnswer, ClientError> {
    let result = result(answer)?;
    let texts = result["content"].as_array().into_iter().flatten();
    let mut texts = texts.map(|block| block["text"].as_str().unwrap_or_default().to_owned());
    let text = texts.next().unwrap_or_default();
    if result["isError"] == true {
        return Err(rejection(&text));
    }
    Ok(ToolCallAnswer { text, notes: texts.collect(), value: result["structuredContent"].clone() })
}

/// Parses the rejection of a tool call, which is written for a model.
fn rejection(text: &str) -> ClientError {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| body[name].as_str().map(str::to_owned);
    let error = field("message").unwrap_or_else(|| text.to_owned());
    let detail = body.get("detail").cloned();
    ClientError::Refused { status: 400, error, code: field("code"), hint: field("suggestion"), detail }
}

#[cfg(test)]
mod tests {
    use rookery_testkit::stub_server::StubServer;

    use super::*;
    use crate::client::tests::client_of;

    async fn called(answer: &str) -> (Result<ToolCallAnswer, ClientError>, String) {
        let daemon = StubServer::start(answer).await.unwrap();
        let tools = Tools::new(client_of(&daemon), Some("ada@pr-1".to_owned()));
        let answer = tools.call("channel_send", json!({"message": "hi"})).await;
        (answer, daemon.requests().join(""))
    }

    #[tokio::test]
    async fn stateless_call_names_its_agent() {
        let (answer, request) = called(
            "200 OK\r\nContent-Type: application/json\r\n\r\n\
             {\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"sent\"},{\"text\":\"look\"}],\"structuredContent\":{\"id\":\"m\"}}}",
        )
        .await;
        let (text, notes) = ("sent".to_owned(), vec!["look".to_owned()]);
        assert_eq!(answer.unwrap(), ToolCallAnswer { text, notes, value: json!({"id": "m"}) });
        for header in ["x-agent-id: ada@pr-1", "mcp-method: tools/call", "mcp-name: channel_send"] {
            assert!(request.contains(header), "{header} in {request}");
        }
    }

    #[tokio::test]
    async fn tools_are_listed_with_their_input_schemas() {
        let daemon = StubServer::start(
            "200 OK\r\nContent-Type: application/json\r\n\r\n\
             {\"id\":1,\"result\":{\"tools\":[{\"name\":\"a\",\"description\":\"b\",\"inputSchema\":{\"type\":\"object\"}}]}}",
        )
        .await
        .unwrap();
        let tools = Tools::new(client_of(&daemon), None).list(Some("context")).await.unwrap();
        assert_eq!((tools[0].name.as_str(), &tools[0].input_schema), ("a", &json!({"type": "object"})));
        let request = daemon.requests().join("");
        assert!(request.contains("POST /mcp/context ") && request.contains("mcp-method: tools/list"), "{request}");
    }

    #[tokio::test]
    async fn streamed_answer_is_read() {
        let (answer, _) = called(
            "200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\ndata: {\"method\":\"notifications/x\"}\n\n\
             data: {\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"sent\"}]}}\n\n",
        )
        .await;
        assert_eq!(answer.unwrap().text, "sent");
        let (cut, _) = called("200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n").await;
        assert!(matches!(cut, Err(ClientError::Cut)));
    }

    #[tokio::test]
    async fn rejected_tool_call_keeps_code_and_hint() {
        let body = r#"{\"code\":\"TASK_NOT_FOUND\",\"message\":\"no such task\",\"suggestion\":\"look\"}"#;
        let (answer, _) = called(&format!(
            "200 OK\r\nContent-Type: application/json\r\n\r\n\
             {{\"id\":1,\"result\":{{\"isError\":true,\"content\":[{{\"type\":\"text\",\"text\":\"{body}\"}}]}}}}"
        ))
        .await;
        let error = answer.unwrap_err();
        assert_eq!((error.code(), error.hint().as_str()), (Some("TASK_NOT_FOUND"), "look"));
        assert_eq!(error.to_string(), "no such task");
    }
}
