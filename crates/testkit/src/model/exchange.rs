//! Requests to a model and its answers, independent of the protocol.

use anyhow::Context;
use serde_json::Value;

use super::script::CallId;

/// A program's request to its model.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelRequest {
    /// The instructions that precede the conversation.
    pub system: String,
    pub model: String,
    pub tools: Vec<OfferedTool>,
    /// The results of earlier calls, oldest first.
    pub results: Vec<ToolResult>,
    /// The model's earlier texts in this conversation.
    pub said: Vec<String>,
    /// The whole body, as received.
    pub body: Value,
}

/// Server names that programs put before the name of a tool, with a single separator.
const SERVER_PREFIXES: [&str; 3] = ["rookery_", "workflow-context_", "workflow_context_"];

/// A tool that the program offers to the model, under the program's name for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferedTool {
    pub namespace: Option<String>,
    pub name: String,
}

impl OfferedTool {
    pub(super) fn plain(name: &str) -> OfferedTool {
        OfferedTool { namespace: None, name: name.to_owned() }
    }

    /// Whether the server's name of this tool is `tool`. Programs may put the name of the server in front of it.
    pub fn is(&self, tool: &str) -> bool {
        let server = |before: &str| before.ends_with("__") || SERVER_PREFIXES.iter().any(|name| before.ends_with(name));
        self.name == tool || self.name.strip_suffix(tool).is_some_and(server)
    }
}

/// The result of a tool call.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolResult {
    /// The id of the call. Some protocols have none; then results are matched by their order.
    pub(super) call: Option<CallId>,
    /// The texts of the result, as the model reads them.
    pub texts: Vec<String>,
}

impl ToolResult {
    /// Reads a result: the id of its call, if the protocol has one, and either a text or a list of pieces with texts.
    pub(super) fn read(call: Option<&Value>, content: &Value) -> anyhow::Result<ToolResult> {
        let id = |call: &Value| call.as_str().context("a result has no id of its call")?.parse();
        let call = call.map(id).transpose()?;
        let texts = match content {
            Value::String(text) => vec![text.clone()],
            Value::Array(pieces) => {
                pieces.iter().filter_map(|piece| piece["text"].as_str()).map(str::to_owned).collect()
            }
            _ => vec![],
        };
        Ok(ToolResult { call, texts })
    }

    /// Returns the first JSON value in the texts, or the joined texts.
    pub fn value(&self) -> Value {
        let json = self.texts.iter().find_map(|text| json_in(text));
        json.unwrap_or_else(|| Value::String(self.texts.join("\n")))
    }
}

/// Returns the first JSON value in a text. Programs add text before and after the answer of a tool.
fn json_in(text: &str) -> Option<Value> {
    let begin = text.find(['{', '['])?;
    serde_json::Deserializer::from_str(&text[begin..]).into_iter().next()?.ok()
}

/// The model's next turn: text, tool calls, or both.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct ModelAnswer {
    pub text: Option<String>,
    pub calls: Vec<ToolCall>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct ToolCall {
    pub id: CallId,
    pub tool: OfferedTool,
    /// JSON, unless the script sends broken arguments.
    pub arguments: String,
}

impl ModelAnswer {
    pub(super) fn text(text: impl Into<String>) -> ModelAnswer {
        ModelAnswer { text: Some(text.into()), calls: vec![] }
    }

    /// Splits the text in two for streaming.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &str> {
        let text = self.text.as_deref().unwrap_or_default();
        let (begin, end) = text.split_at(text.floor_char_boundary(text.len().div_ceil(2)));
        [begin, end].into_iter().filter(|piece| !piece.is_empty())
    }
}

impl ToolCall {
    /// Returns the arguments as JSON, for protocols that cannot carry broken JSON. Broken arguments become a string.
    pub(super) fn input(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_else(|_| self.arguments.as_str().into())
    }
}

/// A piece of a streamed answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Frame {
    Named {
        event: &'static str,
        data: Value,
    },
    Data(Value),
    /// Marks the end, for streams of data without an end of their own.
    Done,
    /// A line of a JSON lines stream.
    Line(Value),
}

impl Frame {
    /// Creates an event whose data repeats its name in `type`.
    pub(super) fn named(event: &'static str, mut data: Value) -> Frame {
        data["type"] = event.into();
        Frame::Named { event, data }
    }

    pub(super) fn encode(&self) -> String {
        match self {
            Frame::Named { event, data } => format!("event: {event}\ndata: {data}\n\n"),
            Frame::Data(data) => format!("data: {data}\n\n"),
            Frame::Done => "data: [DONE]\n\n".to_owned(),
            Frame::Line(data) => format!("{data}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn offered_tool_matches_with_any_server_prefix() {
        let is = |name: &str, tool: &str| OfferedTool::plain(name).is(tool);
        assert!(is("task_claim", "task_claim") && is("mcp__rookery__task_claim", "task_claim"));
        assert!(is("rookery_task_claim", "task_claim") && is("mcp_workflow-context_task_claim", "task_claim"));
        assert!(!is("subtask_claim", "task_claim") && !is("mcp__rookery__task_claim", "claim"));
    }

    #[test]
    fn tool_result_reads_text_and_pieces() {
        let one = ToolResult::read(Some(&json!("call_2_0")), &json!("sent")).unwrap();
        assert_eq!(one.value(), json!("sent"));
        let pieces = json!([{"type": "text", "text": "{\"id\":\"x\"}"}, {"type": "text", "text": "You have 1 unread"}]);
        assert_eq!(ToolResult::read(Some(&json!("call_2_0")), &pieces).unwrap().value(), json!({"id": "x"}));
        let with_extra_text =
            json!("Wall time: 0.05 seconds\nOutput:\n{\"id\":\"x\"}\n\n<system-reminder>\n…</system-reminder>");
        assert_eq!(ToolResult::read(Some(&json!("call_2_0")), &with_extra_text).unwrap().value(), json!({"id": "x"}));
        assert!(ToolResult::read(Some(&json!("toolu_of_another_program")), &pieces).is_err());
        assert_eq!(ToolResult::read(None, &pieces).unwrap().call, None);
    }
}
