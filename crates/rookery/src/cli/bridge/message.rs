//! What the bridge reads of a message, and the messages that it makes itself.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// From this version on there are no sessions, and a request says by itself what it needs.
const WITHOUT_SESSIONS: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A message of the client.
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

    /// The answer to this request.
    pub fn answered(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id(), "result": result})
    }

    /// The answer if it could not be carried. A model reads what a tool says; an error of the protocol only its client.
    pub fn failed(&self, failure: &Failed) -> Value {
        if self.tool().is_none() {
            let error = json!({"code": -32000, "message": format!("{}; {}", failure.message, failure.suggestion)});
            return json!({"jsonrpc": "2.0", "id": self.id(), "error": error});
        }
        let text = json!({
            "code": failure.code,
            "message": failure.message,
            "recoverable": failure.recoverable,
            "suggestion": failure.suggestion,
        });
        let mut result = json!({"content": [{"type": "text", "text": text.to_string()}], "isError": true});
        if self.is_alone() {
            result["resultType"] = "complete".into();
        }
        self.answered(result)
    }
}

/// Why a message was not carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    pub code: &'static str,
    pub message: String,
    pub recoverable: bool,
    pub suggestion: &'static str,
}

impl Failed {
    pub fn unreachable(message: String) -> Failed {
        let suggestion = "nothing was done; try again in a minute, or ask a person to run 'rookery doctor'";
        Failed { code: "DAEMON_UNREACHABLE", message, recoverable: true, suggestion }
    }

    pub fn unknown() -> Failed {
        Failed {
            code: "OUTCOME_UNKNOWN",
            message: "the daemon did not finish its answer".to_owned(),
            recoverable: false,
            suggestion: "look whether it was done before you repeat it",
        }
    }

    pub fn refused(message: String) -> Failed {
        let suggestion = "check how 'rookery mcp' is started: its --agent, and its token if the daemon needs one";
        Failed { code: "REFUSED", message, recoverable: false, suggestion }
    }
}

/// A line that is no message.
pub fn not_json(error: &serde_json::Error) -> Value {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": format!("not JSON: {error}")}})
}

/// A notice that a resource may have changed while nobody could tell.
pub fn updated(uri: &str, meta: Option<&Value>) -> Value {
    let mut params = json!({"uri": uri});
    if let Some(meta) = meta {
        params["_meta"] = meta.clone();
    }
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
}

/// Text as a header can carry it.
fn header_text(text: &str) -> String {
    let plain = text.chars().all(|c| (' '..='~').contains(&c)) && text.trim() == text && !text.starts_with("=?");
    if plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
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
    fn a_tool_that_could_not_be_called_says_so_where_a_model_reads_it() {
        let call = Message::new(json!({"id": "a", "method": "tools/call", "params": {"name": "task_get"}}));
        let answer = call.failed(&Failed::unknown());
        let text: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&answer["id"], &text["code"]), (&json!("a"), &json!("OUTCOME_UNKNOWN")));
        let list = Message::new(json!({"id": 2, "method": "tools/list"}));
        assert_eq!(list.failed(&Failed::unknown())["error"]["code"], -32000);
    }

    #[test]
    fn names_survive_as_headers() {
        assert_eq!(header_text("rookery://agents/a/inbox"), "rookery://agents/a/inbox");
        assert_eq!(header_text("ü"), "=?base64?w7w=?=");
    }
}
