//! A message of MCP, as far as the way needs to know it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// From this version on there are no sessions, and a request says by itself what it needs.
const WITHOUT_SESSIONS: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A message to the daemon's MCP face.
#[derive(Clone, PartialEq, Debug)]
pub struct Message(Value);

impl Message {
    pub fn new(value: Value) -> Message {
        Message(value)
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

    /// The tool that is called.
    pub fn tool(&self) -> Option<&str> {
        if self.method() == Some("tools/call") { self.params()["name"].as_str() } else { None }
    }

    /// The version that the request itself asks for.
    pub fn version(&self) -> Option<&str> {
        self.params()["_meta"][VERSION].as_str()
    }

    /// Whether it stands for itself, outside of any session.
    pub fn is_alone(&self) -> bool {
        self.version().is_some_and(|version| version >= WITHOUT_SESSIONS)
    }

    /// The headers of a request that stands for itself.
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

    /// What the standard headers call the thing that the request is about.
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

/// Text as a header can carry it.
fn header_text(text: &str) -> String {
    let plain = text.chars().all(|c| (' '..='~').contains(&c)) && text.trim() == text && !text.starts_with("=?");
    if plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_of_the_newer_protocol_stands_for_itself() {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "task_get"}});
        let mut newer = call.clone();
        newer["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let (call, newer) = (Message::new(call), Message::new(newer));
        assert!(!call.is_alone() && newer.is_alone());
        assert_eq!((newer.tool(), newer.name().as_deref()), (Some("task_get"), Some("task_get")));
    }

    #[test]
    fn names_survive_as_headers() {
        assert_eq!(header_text("rookery://agents/a/inbox"), "rookery://agents/a/inbox");
        assert_eq!(header_text("ü"), "=?base64?w7w=?=");
    }
}
