//! OpenAI's chat completions, which many others speak too: `POST …/chat/completions`.

use axum::http::Uri;
use serde_json::{Value, json};

use super::exchange::{Answer, Asked, Frame, Offered, ToolResult};
use super::{EVENTS, Wire, list, says_stream, text, texts};

pub(super) const WIRE: Wire = Wire {
    name: "chat completions",
    is_at: |path| path.ends_with("/chat/completions"),
    is_streamed: says_stream,
    read,
    stream,
    media: EVENTS,
    whole,
    error,
};

fn read(_: &Uri, body: &Value) -> anyhow::Result<Asked> {
    let (mut system, mut results, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        match message["role"].as_str() {
            Some("system" | "developer") => system.push(texts(&message["content"])),
            Some("assistant") => said.push(texts(&message["content"])),
            Some("tool") => results.push(ToolResult::read(Some(&message["tool_call_id"]), &message["content"])?),
            _ => {}
        }
    }
    Ok(Asked {
        system: system.join("\n"),
        model: text(&body["model"]),
        tools: functions(&body["tools"]),
        results,
        said: said.into_iter().filter(|text| !text.is_empty()).collect(),
        body: body.clone(),
    })
}

/// The tools, as Ollama names them too.
pub(super) fn functions(tools: &Value) -> Vec<Offered> {
    list(tools).iter().filter_map(|tool| tool["function"]["name"].as_str()).map(Offered::plain).collect()
}

fn stream(asked: &Asked, answer: &Answer, number: usize) -> Vec<Frame> {
    let chunk = |delta: Value, reason: Value| {
        let mut chunk = base(asked, number, "chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        Frame::Data(chunk)
    };
    let mut frames = vec![chunk(json!({"role": "assistant", "content": null}), Value::Null)];
    frames.extend(answer.pieces().map(|text| chunk(json!({"content": text}), Value::Null)));
    for (index, call) in answer.calls.iter().enumerate() {
        let function = |function: Value| json!({"tool_calls": [{"index": index, "function": function}]});
        let mut begun = function(json!({"name": call.tool.name, "arguments": ""}));
        begun["tool_calls"][0]["id"] = call.id.to_string().into();
        begun["tool_calls"][0]["type"] = "function".into();
        frames.push(chunk(begun, Value::Null));
        frames.push(chunk(function(json!({"arguments": call.arguments})), Value::Null));
    }
    frames.push(chunk(json!({}), reason(answer).into()));
    if asked.body["stream_options"]["include_usage"] == true {
        let mut used = base(asked, number, "chat.completion.chunk");
        (used["choices"], used["usage"]) = (json!([]), usage());
        frames.push(Frame::Data(used));
    }
    frames.push(Frame::Done);
    frames
}

fn whole(asked: &Asked, answer: &Answer, number: usize) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text});
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            json!({"id": call.id.to_string(), "type": "function",
                "function": {"name": call.tool.name, "arguments": call.arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    let mut whole = base(asked, number, "chat.completion");
    whole["choices"] = json!([{"index": 0, "message": message, "finish_reason": reason(answer)}]);
    whole["usage"] = usage();
    whole
}

fn base(asked: &Asked, number: usize, object: &str) -> Value {
    json!({"id": format!("chatcmpl-{number}"), "object": object, "created": 1, "model": asked.model})
}

fn usage() -> Value {
    json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
}

fn reason(answer: &Answer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn error(status: u16, message: &str) -> Value {
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}
