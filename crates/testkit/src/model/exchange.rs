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

/// What programs put before the name of a tool that separate the two by one stroke only.
const SERVERS: [&str; 3] = ["rookery_", "workflow-context_", "workflow_context_"];

/// A tool that the model may call, by the names that the program gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    pub namespace: Option<String>,
    pub name: String,
}

impl Offered {
    pub(super) fn plain(name: &str) -> Offered {
        Offered { namespace: None, name: name.to_owned() }
    }

    /// Whether this is the tool that its server calls so: programs put their name for the server in front.
    pub fn is(&self, tool: &str) -> bool {
        let server = |before: &str| before.ends_with("__") || SERVERS.iter().any(|name| before.ends_with(name));
        self.name == tool || self.name.strip_suffix(tool).is_some_and(server)
    }
}

/// What a call of the script brought.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolResult {
    /// Not every protocol names the call; then the order tells.
    pub(super) call: Option<CallId>,
    /// The texts of the result, as the model reads them.
    pub texts: Vec<String>,
}

impl ToolResult {
    /// What the protocol says of a result: the id of its call, if it has such, and either one text or a list of pieces with
    /// texts.
    pub(super) fn read(call: Option<&Value>, content: &Value) -> anyhow::Result<ToolResult> {
        let id = |call: &Value| call.as_str().context("a result without the id of its call")?.parse();
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

/// What the model says next: words, calls of tools, or both.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Answer {
    pub text: Option<String>,
    pub calls: Vec<Call>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Call {
    pub id: CallId,
    pub tool: Offered,
    /// JSON, unless the script has it broken.
    pub arguments: String,
}

impl Answer {
    pub(super) fn text(text: impl Into<String>) -> Answer {
        Answer { text: Some(text.into()), calls: vec![] }
    }

    /// The words as they are streamed, never all at once.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &str> {
        let text = self.text.as_deref().unwrap_or_default();
        let (begin, end) = text.split_at(text.floor_char_boundary(text.len().div_ceil(2)));
        [begin, end].into_iter().filter(|piece| !piece.is_empty())
    }
}

impl Call {
    /// The arguments for a protocol that has no room for broken JSON: such ones are a text then.
    pub(super) fn input(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_else(|_| self.arguments.as_str().into())
    }
}

/// One piece of a streamed answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Frame {
    Named {
        event: &'static str,
        data: Value,
    },
    Data(Value),
    /// What ends a stream of data that has no other end.
    Done,
    /// For streams that are lines of JSON.
    Line(Value),
}

impl Frame {
    /// An event whose data repeats its name.
    pub(super) fn named(event: &'static str, mut data: Value) -> Frame {
        data["type"] = event.into();
        Frame::Named { event, data }
    }

    pub(super) fn written(&self) -> String {
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
    fn a_tool_is_known_by_its_own_name_whatever_stands_before_it() {
        let is = |name: &str, tool: &str| Offered::plain(name).is(tool);
        assert!(is("task_claim", "task_claim") && is("mcp__rookery__task_claim", "task_claim"));
        assert!(is("rookery_task_claim", "task_claim") && is("mcp_workflow-context_task_claim", "task_claim"));
        assert!(!is("subtask_claim", "task_claim") && !is("mcp__rookery__task_claim", "claim"));
    }

    #[test]
    fn results_are_read_from_either_form() {
        let one = ToolResult::read(Some(&json!("call_2_0")), &json!("sent")).unwrap();
        assert_eq!(one.value(), json!("sent"));
        let pieces = json!([{"type": "text", "text": "{\"id\":\"x\"}"}, {"type": "text", "text": "You have 1 unread"}]);
        assert_eq!(ToolResult::read(Some(&json!("call_2_0")), &pieces).unwrap().value(), json!({"id": "x"}));
        let dressed =
            json!("Wall time: 0.05 seconds\nOutput:\n{\"id\":\"x\"}\n\n<system-reminder>\n…</system-reminder>");
        assert_eq!(ToolResult::read(Some(&json!("call_2_0")), &dressed).unwrap().value(), json!({"id": "x"}));
        assert!(ToolResult::read(Some(&json!("toolu_of_somebody")), &pieces).is_err());
        assert_eq!(ToolResult::read(None, &pieces).unwrap().call, None);
    }
}
