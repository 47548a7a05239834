//! Ollama's native API: `POST …/api/chat`, with one line of JSON for each piece.

use axum::http::Uri;
use serde_json::{Value, json};

use super::exchange::{Frame, ModelAnswer, ModelRequest, ToolResult};
use super::{Protocol, chat, list, text};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "Ollama chat",
    accepts_path: |path| path.ends_with("/api/chat"),
    wants_stream: |_, body| body["stream"] != false,
    read,
    stream,
    media_type: "application/x-ndjson",
    whole,
    error: |_, message| json!({"error": message}),
};

fn read(_: &Uri, body: &Value) -> anyhow::Result<ModelRequest> {
    let (mut system, mut results, mut said) = (Vec::new(), Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        let content = text(&message["content"]);
        match message["role"].as_str() {
            Some("system") => system.push(content),
            Some("assistant") if !content.is_empty() => said.push(content),
            Some("tool") => results.push(ToolResult::read(message.get("tool_call_id"), &message["content"])?),
            _ => {}
        }
    }
    Ok(ModelRequest {
        system: system.join("\n"),
        model: text(&body["model"]),
        tools: chat::read_tools(&body["tools"]),
        results,
        said,
        body: body.clone(),
    })
}

fn stream(request: &ModelRequest, answer: &ModelAnswer, _: usize) -> Vec<Frame> {
    let said = answer.pieces().map(|text| json!({"role": "assistant", "content": text}));
    let mut messages: Vec<Value> = said.collect();
    if !answer.calls.is_empty() {
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": calls(answer)}));
    }
    let mut frames: Vec<Frame> =
        messages.into_iter().map(|message| Frame::Line(piece(request, message, false))).collect();
    frames.push(Frame::Line(piece(request, json!({"role": "assistant", "content": ""}), true)));
    frames
}

fn whole(request: &ModelRequest, answer: &ModelAnswer, _: usize) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text.as_deref().unwrap_or_default()});
    if !answer.calls.is_empty() {
        message["tool_calls"] = calls(answer);
    }
    piece(request, message, true)
}

fn calls(answer: &ModelAnswer) -> Value {
    let call = |(index, call): (usize, &super::exchange::ToolCall)| {
        json!({"id": call.id.to_string(),
            "function": {"index": index, "name": call.tool.name, "arguments": call.input()}})
    };
    answer.calls.iter().enumerate().map(call).collect()
}

fn piece(request: &ModelRequest, message: Value, done: bool) -> Value {
    let mut piece =
        json!({"model": request.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done});
    if done {
        piece["done_reason"] = "stop".into();
        (piece["prompt_eval_count"], piece["eval_count"]) = (10.into(), 5.into());
    }
    piece
}
