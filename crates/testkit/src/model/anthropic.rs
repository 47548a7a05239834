//! Anthropic's Messages, as Claude Code speaks it: `POST …/v1/messages`, always streamed.

use serde_json::{Value, json};

use super::Wire;
use super::talk::{Answer, Asked, Frame, Offered, ToolResult};

pub(super) const WIRE: Wire = Wire { name: "messages", path: "/v1/messages", read, write, error };

fn read(body: &Value) -> anyhow::Result<Asked> {
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        for block in list(&message["content"]) {
            match (message["role"].as_str(), block["type"].as_str()) {
                (Some("user"), Some("tool_result")) => {
                    results.push(ToolResult::read(&block["tool_use_id"], &block["content"])?);
                }
                (Some("assistant"), Some("text")) => said.extend(block["text"].as_str().map(str::to_owned)),
                _ => {}
            }
        }
    }
    let tools = list(&body["tools"]).iter().filter_map(|tool| tool["name"].as_str());
    Ok(Asked {
        system: texts(&body["system"]),
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        tools: tools.map(|name| Offered { namespace: None, name: name.to_owned() }).collect(),
        results,
        said,
        body: body.clone(),
    })
}

fn write(asked: &Asked, answer: &Answer, number: usize) -> Vec<Frame> {
    let (block, delta, reason) = match answer {
        Answer::Text(text) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}), "end_turn")
        }
        Answer::Call { id, tool, arguments } => (
            json!({"type": "tool_use", "id": id.to_string(), "name": tool.name, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
            "tool_use",
        ),
    };
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0});
    let message = json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": asked.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage});
    let ended = json!({"delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 5}});
    vec![
        Frame::new("message_start", json!({"message": message})),
        Frame::new("content_block_start", json!({"index": 0, "content_block": block})),
        Frame::new("content_block_delta", json!({"index": 0, "delta": delta})),
        Frame::new("content_block_stop", json!({"index": 0})),
        Frame::new("message_delta", ended),
        Frame::new("message_stop", json!({})),
    ]
}

fn error(message: &str) -> Value {
    json!({"type": "error", "error": {"type": "api_error", "message": message}})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text, or the texts of a list of blocks.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        blocks => list(blocks).iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
    }
}
