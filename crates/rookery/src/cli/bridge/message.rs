//! The messages that the bridge makes itself.

use rookery_client::McpMessage;
use serde_json::{Value, json};

/// The answer to a request that could not be carried. A model reads what a tool says; an error of the protocol only its
/// client.
pub fn failed(message: &McpMessage, failure: &Failed) -> Value {
    if message.tool().is_none() {
        let error = json!({"code": -32000, "message": format!("{}; {}", failure.message, failure.suggestion)});
        return json!({"jsonrpc": "2.0", "id": message.id(), "error": error});
    }
    let text = json!({
        "code": failure.code,
        "message": failure.message,
        "recoverable": failure.recoverable,
        "suggestion": failure.suggestion,
    });
    let mut result = json!({"content": [{"type": "text", "text": text.to_string()}], "isError": true});
    if message.is_stateless() {
        result["resultType"] = "complete".into();
    }
    json!({"jsonrpc": "2.0", "id": message.id(), "result": result})
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_could_not_be_called_says_so_where_a_model_reads_it() {
        let call = McpMessage::new(json!({"id": "a", "method": "tools/call", "params": {"name": "task_get"}}));
        let answer = failed(&call, &Failed::unknown());
        let text: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&answer["id"], &text["code"]), (&json!("a"), &json!("OUTCOME_UNKNOWN")));
        let list = McpMessage::new(json!({"id": 2, "method": "tools/list"}));
        assert_eq!(failed(&list, &Failed::unknown())["error"]["code"], -32000);
    }
}
