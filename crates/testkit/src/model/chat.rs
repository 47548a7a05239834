//! OpenAI's chat completions, which many other servers offer too: `POST …/chat/completions`.

use axum::http::Uri;
use serde_json::{Value, json};

use super::exchange::{Frame, ModelAnswer, ModelRequest, OfferedTool, ToolResult};
use super::{EVENT_STREAM, Protocol, has_stream_field, list, text, texts};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "chat completions",
    accepts_path: |path| path.ends_with("/chat/completions"),
    wants_stream: has_stream_field,
    read,
    stream,
    media_type: EVENT_STREAM,
    whole,
    error,
};

fn read(_: &Uri, body: &Value) -> anyhow::Result<ModelRequest> {
    let (mut system, mut results, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        match message["role"].as_str() {
            Some("system" | "developer") => system.push(texts(&message["content"])),
            Some("assistant") => said.push(texts(&message["content"])),
            Some("tool") => results.push(ToolResult::read(Some(&message["tool_call_id"]), &message["content"])?),
            _ => {}
        }
    }
    Ok(ModelRequest {
        system: system.join("\n"),
        model: text(&body["model"]),
        tools: read_tools(&body["tools"]),
        results,
        said: said.into_iter().filter(|text| !text.is_empty()).collect(),
        body: body.clone(),
    })
}

/// Reads the tools. Ollama uses the same form.
pub(super) fn read_tools(tools: &Value) -> Vec<OfferedTool> {
    list(tools).iter().filter_map(|tool| tool["function"]["name"].as_str()).map(OfferedTool::plain).collect()
}

fn stream(request: &ModelRequest, answer: &ModelAnswer, number: usize) -> Vec<Frame> {
    let chunk = |delta: Value, reason: Value| {
        let mut chunk = base(request, number, "chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        Frame::Data(chunk)
    };
    let mut frames = vec![chunk(json!({"role": "assistant", "content": null}), Value::Null)];
    frames.extend(answer.pieces().map(|text| chunk(json!({"content": text}), Value::Null)));
    for (index, call) in answer.calls.iter().enumerate() {
        let function = |function: Value| json!({"tool_calls": [{"index": index, "function": function}]});
        let mut start = function(json!({"name": call.tool.name, "arguments": ""}));
        start["tool_calls"][0]["id"] = call.id.to_string().into();
        start["tool_calls"][0]["type"] = "function".into();
        frames.push(chunk(start, Value::Null));
        frames.push(chunk(function(json!({"arguments": call.arguments})), Value::Null));
    }
    frames.push(chunk(json!({}), reason(answer).into()));
    if request.body["stream_options"]["include_usage"] == true {
        let mut last = base(request, number, "chat.completion.chunk");
        (last["choices"], last["usage"]) = (json!([]), usage());
        frames.push(Frame::Data(last));
    }
    frames.push(Frame::Done);
    frames
}

fn whole(request: &ModelRequest, answer: &ModelAnswer, number: usize) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text});
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            json!({"id": call.id.to_string(), "type": "function",
                "function": {"name": call.tool.name, "arguments": call.arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    let mut whole = base(request, number, "chat.completion");
    whole["choices"] = json!([{"index": 0, "message": message, "finish_reason": reason(answer)}]);
    whole["usage"] = usage();
    whole
}

fn base(request: &ModelRequest, number: usize, object: &str) -> Value {
    json!({"id": format!("chatcmpl-{number}"), "object": object, "created": 1, "model": request.model})
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
}

fn reason(answer: &ModelAnswer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn error(status: u16, message: &str) -> Value {
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}
