//! Calling a tool of the daemon, as an agent. Every face does the same, so what has a tool needs no second way in: this
//! speaks to the MCP face as any client does, by requests that stand for themselves.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, INSTANCE, KEY, unknown};
use crate::error::ClientError;
use crate::mcp_message::Message;
use crate::retry::Repeat;
use crate::sse::Parser;

const VERSION: &str = "2026-07-28";
/// Above the daemon's own limit for a tool that does not wait.
const CALL_TIME: Duration = Duration::from_secs(60);

/// What a tool answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The text that a model would read.
    pub text: String,
    /// What it should notice besides.
    pub notes: Vec<String>,
    pub value: Value,
}

/// A tool as the daemon describes it to models.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub input_schema: Value,
}

/// Calls one daemon's tools as one agent, or as the person who owns the project.
#[derive(Clone, Debug)]
pub struct Tools {
    client: Client,
    agent: Option<String>,
    /// Where it speaks, if it is no agent whose id says that.
    instance: Option<String>,
}

impl Tools {
    /// Calls by a client that may speak for the agent.
    pub fn new(client: Client, agent: Option<String>) -> Tools {
        Tools { client, agent, instance: None }
    }

    /// Calls as the agent itself, proven by the project's key file.
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

    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Answer, ClientError> {
        self.call_within(CALL_TIME, tool, arguments).await
    }

    /// As [`Tools::call`], for a tool that waits for something to happen.
    pub async fn call_within(&self, most: Duration, tool: &str, arguments: Value) -> Result<Answer, ClientError> {
        self.carry(self.client.key().as_deref(), most, tool, arguments).await
    }

    /// As [`Tools::call`], under a key of the caller's own: whoever makes the same call again with it, also another
    /// process, gets the first one's answer.
    pub async fn call_once(&self, key: &str, tool: &str, arguments: Value) -> Result<Answer, ClientError> {
        self.carry(Some(key), CALL_TIME, tool, arguments).await
    }

    /// The tools that the daemon has: those of a toolset, or all of them.
    pub async fn list(&self, toolset: Option<&str>) -> Result<Vec<Listed>, ClientError> {
        let path: Vec<&str> = ["mcp"].into_iter().chain(toolset).collect();
        let message = alone("tools/list", json!({}));
        self.ask(Repeat::Freely, listed, || self.request(&path, &message, None).timeout(CALL_TIME)).await
    }

    async fn carry(
        &self,
        key: Option<&str>,
        most: Duration,
        tool: &str,
        arguments: Value,
    ) -> Result<Answer, ClientError> {
        let message = call(tool, &arguments);
        let repeat = if key.is_some() { Repeat::Freely } else { Repeat::IfNotSent };
        self.ask(repeat, read, || self.request(&["mcp"], &message, key).timeout(most)).await
    }

    /// Asks until there is an answer, until the retry timeout of the client has passed.
    async fn ask<T>(
        &self,
        repeat: Repeat,
        read: fn(&Value) -> Result<T, ClientError>,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<T, ClientError> {
        let mut budget = self.client.retry_budget();
        loop {
            let answered = async { read(&answer_in(self.client.send(request()).await?).await?) };
            let error = match answered.await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            budget.wait_or_give_up(error, repeat).await?;
            self.client.look_again();
        }
    }

    fn request(&self, path: &[&str], message: &Message, key: Option<&str>) -> RequestBuilder {
        let mut request = self.client.request(Method::POST, path, &[]);
        request = message.headers().into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let named = [("x-agent-id", self.agent.as_deref()), (INSTANCE, self.instance.as_deref()), (KEY, key)];
        for (name, value) in named {
            request = value.into_iter().fold(request, |request, value| request.header(name, value));
        }
        request.json(message.value())
    }
}

/// A call of a tool that stands for itself.
pub fn call(tool: &str, arguments: &Value) -> Message {
    alone("tools/call", json!({"name": tool, "arguments": arguments}))
}

/// A request that stands for itself.
fn alone(method: &str, mut params: Value) -> Message {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "rookery", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    Message::new(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

/// The answer, be it one message or the last one of a stream.
async fn answer_in(mut response: Response) -> Result<Value, ClientError> {
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

/// What was answered, if it is no error of the protocol.
fn result(answer: &Value) -> Result<&Value, ClientError> {
    let Some(error) = answer.get("error") else { return Ok(&answer["result"]) };
    let message = error["message"].as_str().unwrap_or("the daemon does not know this call").to_owned();
    Err(ClientError::Refused { status: 400, error: message, code: None, hint: None, detail: None })
}

fn listed(answer: &Value) -> Result<Vec<Listed>, ClientError> {
    Vec::deserialize(&result(answer)?["tools"]).map_err(ClientError::Garbled)
}

fn read(answer: &Value) -> Result<Answer, ClientError> {
    let result = result(answer)?;
    let texts = result["content"].as_array().into_iter().flatten();
    let mut texts = texts.map(|block| block["text"].as_str().unwrap_or_default().to_owned());
    let text = texts.next().unwrap_or_default();
    if result["isError"] == true {
        return Err(refusal(&text));
    }
    Ok(Answer { text, notes: texts.collect(), value: result["structuredContent"].clone() })
}

/// What a tool refused, in the words that it has for a model.
fn refusal(text: &str) -> ClientError {
    let told: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| told[name].as_str().map(str::to_owned);
    let error = field("message").unwrap_or_else(|| text.to_owned());
    let detail = told.get("detail").cloned();
    ClientError::Refused { status: 400, error, code: field("code"), hint: field("suggestion"), detail }
}

#[cfg(test)]
mod tests {
    use rookery_testkit::stub_server::StubServer;

    use super::*;
    use crate::client::tests::client_of;

    async fn called(answer: &str) -> (Result<Answer, ClientError>, String) {
        let daemon = StubServer::start(answer).await.unwrap();
        let tools = Tools::new(client_of(&daemon), Some("ada@pr-1".to_owned()));
        let answer = tools.call("channel_send", json!({"message": "hi"})).await;
        (answer, daemon.requests().join(""))
    }

    #[tokio::test]
    async fn a_call_stands_for_itself_and_names_its_agent() {
        let (answer, request) = called(
            "200 OK\r\nContent-Type: application/json\r\n\r\n\
             {\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"sent\"},{\"text\":\"look\"}],\"structuredContent\":{\"id\":\"m\"}}}",
        )
        .await;
        let (text, notes) = ("sent".to_owned(), vec!["look".to_owned()]);
        assert_eq!(answer.unwrap(), Answer { text, notes, value: json!({"id": "m"}) });
        for header in ["x-agent-id: ada@pr-1", "mcp-method: tools/call", "mcp-name: channel_send"] {
            assert!(request.contains(header), "{header} in {request}");
        }
    }

    #[tokio::test]
    async fn tools_are_listed_with_what_they_take() {
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
    async fn the_answer_may_come_as_a_stream() {
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
    async fn what_a_tool_refuses_keeps_its_code_and_what_to_do() {
        let told = r#"{\"code\":\"TASK_NOT_FOUND\",\"message\":\"no such task\",\"suggestion\":\"look\"}"#;
        let (answer, _) = called(&format!(
            "200 OK\r\nContent-Type: application/json\r\n\r\n\
             {{\"id\":1,\"result\":{{\"isError\":true,\"content\":[{{\"type\":\"text\",\"text\":\"{told}\"}}]}}}}"
        ))
        .await;
        let error = answer.unwrap_err();
        assert_eq!((error.code(), error.hint().as_str()), (Some("TASK_NOT_FOUND"), "look"));
        assert_eq!(error.to_string(), "no such task");
    }
}
