//! Anthropic's Messages API, which Claude Code uses: `POST …/v1/messages`.

use axum::http::Uri;
use serde_json::{Value, json};

use super::exchange::{Frame, ModelAnswer, ModelRequest, OfferedTool, ToolCall, ToolResult};
use super::{EVENT_STREAM, Protocol, has_stream_field, list, text, texts};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "messages",
    accepts_path: |path| path.ends_with("/v1/messages"),
    wants_stream: has_stream_field,
    read,
    stream,
    media_type: EVENT_STREAM,
    whole,
    error,
};

fn read(_: &Uri, body: &Value) -> anyhow::Result<ModelRequest> {
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        for block in list(&message["content"]) {
            match (message["role"].as_str(), block["type"].as_str()) {
                (Some("user"), Some("tool_result")) => {
                    results.push(ToolResult::read(Some(&block["tool_use_id"]), &block["content"])?);
                }
                (Some("assistant"), Some("text")) => said.extend(block["text"].as_str().map(str::to_owned)),
                _ => {}
            }
        }
    }
    let tools = list(&body["tools"]).iter().filter_map(|tool| tool["name"].as_str());
    Ok(ModelRequest {
        system: texts(&body["system"]),
        model: text(&body["model"]),
        tools: tools.map(OfferedTool::plain).collect(),
        results,
        said,
        body: body.clone(),
    })
}

fn stream(request: &ModelRequest, answer: &ModelAnswer, number: usize) -> Vec<Frame> {
    let mut start_message = message(request, number);
    (start_message["content"], start_message["stop_reason"]) = (json!([]), Value::Null);
    let mut frames = vec![Frame::named("message_start", json!({"message": start_message}))];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        frames.push(Frame::named("content_block_start", json!({"index": index, "content_block": start})));
        let deltas = deltas.into_iter().map(|delta| json!({"index": index, "delta": delta}));
        frames.extend(deltas.map(|delta| Frame::named("content_block_delta", delta)));
        frames.push(Frame::named("content_block_stop", json!({"index": index})));
        index += 1;
    };
    if answer.text.is_some() {
        let deltas = answer.pieces().map(|text| json!({"type": "text_delta", "text": text}));
        block(json!({"type": "text", "text": ""}), deltas.collect());
    }
    for call in &answer.calls {
        let start = json!({"type": "tool_use", "id": call.id.to_string(), "name": call.tool.name, "input": {}});
        block(start, vec![json!({"type": "input_json_delta", "partial_json": call.arguments})]);
    }
    let end = json!({"delta": {"stop_reason": reason(answer), "stop_sequence": null}, "usage": {"output_tokens": 5}});
    frames.extend([Frame::named("message_delta", end), Frame::named("message_stop", json!({}))]);
    frames
}

fn whole(request: &ModelRequest, answer: &ModelAnswer, number: usize) -> Value {
    let said = answer.text.iter().map(|text| json!({"type": "text", "text": text}));
    let tool_use = |call: &ToolCall| json!({"type": "tool_use", "id": call.id.to_string(), "name": call.tool.name, "input": call.input()});
    let mut message = message(request, number);
    message["content"] = said.chain(answer.calls.iter().map(tool_use)).collect();
    message["stop_reason"] = reason(answer).into();
    message
}

fn message(request: &ModelRequest, number: usize) -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0});
    json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": request.model,
        "stop_sequence": null, "usage": usage})
}

fn reason(answer: &ModelAnswer) -> &'static str {
    if answer.calls.is_empty() { "end_turn" } else { "tool_use" }
}

fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
