//! An MCP message, as far as its transport needs to know it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// The first protocol version without sessions, in which every request is self-contained.
const STATELESS_SINCE: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A message to the daemon's MCP surface.
#[derive(Clone, PartialEq, Debug)]
pub struct McpMessage(Value);

impl McpMessage {
    pub fn new(value: Value) -> McpMessage {
        McpMessage(value)
    }

    pub fn value(&self) -> &Value {
        &self.0
    }

    pub fn id(&self) -> Option<&Value> {
        self.0.get("id").filter(|id| !id.is_null())
    }

    pub fn method(&self) -> Option<&str> {
        self.0["method"].as_str()
    }

    pub fn params(&self) -> &Value {
        &self.0["params"]
    }

    /// The name of the called tool.
    pub fn tool(&self) -> Option<&str> {
        if self.method() == Some("tools/call") { self.params()["name"].as_str() } else { None }
    }

    /// The protocol version in the request.
    pub fn version(&self) -> Option<&str> {
        self.params()["_meta"][VERSION].as_str()
    }

    /// Whether it is self-contained, outside of any session.
    pub fn is_stateless(&self) -> bool {
        self.version().is_some_and(|version| version >= STATELESS_SINCE)
    }

    /// The headers of a stateless request.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let method = self.method().unwrap_or_default().to_owned();
        let mut headers = vec![
            ("accept", "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version", self.version().unwrap_or_default().to_owned()),
            ("mcp-method", method),
        ];
        headers.extend(self.name().map(|name| ("mcp-name", name)));
        headers
    }

    /// The value of the header `mcp-name`: the subject of the request.
    fn name(&self) -> Option<String> {
        let field = match self.method()? {
            "tools/call" | "prompts/get" => "name",
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return None,
        };
        self.params()[field].as_str().map(header_text)
    }
}

/// Encodes text for a header.
fn header_text(text: &str) -> String {
    let plain = text.chars().all(|c| (' '..='~').contains(&c)) && text.trim() == text && !text.starts_with("=?");
    if plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn request_of_newer_protocol_is_stateless() {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "task_get"}});
        let mut newer = call.clone();
        newer["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let (call, newer) = (McpMessage::new(call), McpMessage::new(newer));
        assert!(!call.is_stateless() && newer.is_stateless());
        assert_eq!((newer.tool(), newer.name().as_deref()), (Some("task_get"), Some("task_get")));
    }

    #[test]
    fn names_are_encoded_for_headers() {
        assert_eq!(header_text("rookery://agents/a/inbox"), "rookery://agents/a/inbox");
        assert_eq!(header_text("ü"), "=?base64?w7w=?=");
    }
}
