//! What is asked of a model and what it answers, whatever the protocol.

use anyhow::Context;
use serde_json::Value;

use super::script::CallId;

/// One request of a program to its model.
#[derive(Clone, PartialEq, Debug)]
pub struct Asked {
    /// The instructions that precede the conversation.
    pub system: String,
    pub model: String,
    pub tools: Vec<Offered>,
    /// What the calls of earlier turns brought, oldest first.
    pub results: Vec<ToolResult>,
    /// What the model has said in words so far.
    pub said: Vec<String>,
    /// All of it, as received.
    pub body: Value,
}

/// A tool that the model may call, by the names that the program gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    pub namespace: Option<String>,
    pub name: String,
}

impl Offered {
    /// Whether this is the tool that its server calls so: programs put their name for the server in front.
    pub fn is(&self, tool: &str) -> bool {
        self.name == tool || self.name.strip_suffix(tool).is_some_and(|server| server.ends_with("__"))
    }
}

/// What a call of the script brought.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolResult {
    pub(super) call: CallId,
    /// The texts of the result, as the model reads them.
    pub texts: Vec<String>,
}

impl ToolResult {
    /// What the protocol says of a result: the id of its call, and either one text or a list of pieces with texts.
    pub(super) fn read(call: &Value, content: &Value) -> anyhow::Result<ToolResult> {
        let call = call.as_str().context("a result without the id of its call")?.parse()?;
        let texts = match content {
            Value::String(text) => vec![text.clone()],
            Value::Array(pieces) => {
                pieces.iter().filter_map(|piece| piece["text"].as_str()).map(str::to_owned).collect()
            }
            _ => vec![],
        };
        Ok(ToolResult { call, texts })
    }

    /// The first JSON in it, or all texts as one.
    pub fn value(&self) -> Value {
        let json = self.texts.iter().find_map(|text| json_in(text));
        json.unwrap_or_else(|| Value::String(self.texts.join("\n")))
    }
}

/// The JSON in a text. Programs put words of their own before and after what a tool answered.
fn json_in(text: &str) -> Option<Value> {
    let begin = text.find(['{', '['])?;
    serde_json::Deserializer::from_str(&text[begin..]).into_iter().next()?.ok()
}

/// What the model says next.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Answer {
    Text(String),
    Call { id: CallId, tool: Offered, arguments: Value },
}

/// One event of a streamed answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Frame {
    pub event: &'static str,
    pub data: Value,
}

impl Frame {
    /// An event whose data repeats its name, as both protocols have it.
    pub(super) fn new(event: &'static str, mut data: Value) -> Frame {
        data["type"] = event.into();
        Frame { event, data }
    }

    pub(super) fn written(&self) -> String {
        format!("event: {}\ndata: {}\n\n", self.event, self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tool_is_known_by_its_own_name_whatever_stands_before_it() {
        let offered = |name: &str| Offered { namespace: None, name: name.to_owned() };
        assert!(offered("task_claim").is("task_claim") && offered("mcp__rookery__task_claim").is("task_claim"));
        assert!(!offered("subtask_claim").is("task_claim") && !offered("mcp__rookery__task_claim").is("claim"));
    }

    #[test]
    fn results_are_read_from_either_form() {
        let one = ToolResult::read(&json!("call_2_0"), &json!("sent")).unwrap();
        assert_eq!(one.value(), json!("sent"));
        let pieces = json!([{"type": "text", "text": "{\"id\":\"x\"}"}, {"type": "text", "text": "You have 1 unread"}]);
        assert_eq!(ToolResult::read(&json!("call_2_0"), &pieces).unwrap().value(), json!({"id": "x"}));
        let dressed =
            json!("Wall time: 0.05 seconds\nOutput:\n{\"id\":\"x\"}\n\n<system-reminder>\n…</system-reminder>");
        assert_eq!(ToolResult::read(&json!("call_2_0"), &dressed).unwrap().value(), json!({"id": "x"}));
        assert!(ToolResult::read(&json!("toolu_of_somebody"), &pieces).is_err());
    }
}
