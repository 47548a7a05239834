//! OpenAI's Responses API, which Codex uses: `POST …/responses`.

use axum::http::Uri;
use serde_json::{Value, json};

use super::exchange::{Frame, ModelAnswer, ModelRequest, OfferedTool, ToolCall, ToolResult};
use super::{EVENT_STREAM, Protocol, has_stream_field, list, text};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "responses",
    accepts_path: |path| path.ends_with("/responses"),
    wants_stream: has_stream_field,
    read,
    stream,
    media_type: EVENT_STREAM,
    whole,
    error,
};

fn read(_: &Uri, body: &Value) -> anyhow::Result<ModelRequest> {
    let mut system: Vec<&str> = body["instructions"].as_str().into_iter().collect();
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for item in list(&body["input"]) {
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("function_call_output"), _) => {
                results.push(ToolResult::read(Some(&item["call_id"]), &item["output"])?);
            }
            (_, Some("assistant")) => said.extend(texts(item).map(str::to_owned)),
            (_, Some("developer" | "system")) => system.extend(texts(item)),
            _ => {}
        }
    }
    Ok(ModelRequest {
        system: system.join("\n"),
        model: text(&body["model"]),
        tools: list(&body["tools"]).iter().flat_map(read_tool).collect(),
        results,
        said,
        body: body.clone(),
    })
}

/// Reads a tool, or the tools of a namespace.
fn read_tool(tool: &Value) -> Vec<OfferedTool> {
    let named = |tool: &Value, namespace: Option<&str>| {
        let name = tool["name"].as_str()?.to_owned();
        Some(OfferedTool { namespace: namespace.map(str::to_owned), name })
    };
    match tool["type"].as_str() {
        Some("namespace") => {
            list(&tool["tools"]).iter().filter_map(|inner| named(inner, tool["name"].as_str())).collect()
        }
        _ => named(tool, None).into_iter().collect(),
    }
}

fn stream(request: &ModelRequest, answer: &ModelAnswer, number: usize) -> Vec<Frame> {
    let id = format!("resp_{number}");
    let created = json!({"response": {"id": id, "status": "in_progress"}});
    let mut frames = vec![Frame::named("response.created", created)];
    for (index, item) in items(answer, number).into_iter().enumerate() {
        let data = json!({"output_index": index, "item": item});
        frames.push(Frame::named("response.output_item.added", data.clone()));
        if item["type"] == "message" {
            frames.extend(answer.pieces().map(|text| {
                let delta = json!({"item_id": item["id"], "output_index": index, "content_index": 0, "delta": text});
                Frame::named("response.output_text.delta", delta)
            }));
        }
        frames.push(Frame::named("response.output_item.done", data));
    }
    frames.push(Frame::named("response.completed", json!({"response": whole(request, answer, number)})));
    frames
}

fn whole(request: &ModelRequest, answer: &ModelAnswer, number: usize) -> Value {
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15});
    json!({"id": format!("resp_{number}"), "object": "response", "status": "completed", "model": request.model,
        "output": items(answer, number), "usage": usage})
}

fn items(answer: &ModelAnswer, number: usize) -> Vec<Value> {
    let said = answer.text.iter().map(|text| {
        json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    });
    said.chain(answer.calls.iter().map(|call| function_call(call, number))).collect()
}

fn function_call(call: &ToolCall, number: usize) -> Value {
    let mut item = json!({"type": "function_call", "id": format!("fc_{number}_{}", call.id),
        "call_id": call.id.to_string(), "name": call.tool.name, "arguments": call.arguments});
    if let Some(namespace) = &call.tool.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

fn error(_: u16, message: &str) -> Value {
    json!({"error": {"type": "server_error", "message": message}})
}

fn texts(item: &Value) -> impl Iterator<Item = &str> {
    list(&item["content"]).iter().filter_map(|piece| piece["text"].as_str())
}
