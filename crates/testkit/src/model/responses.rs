//! OpenAI's Responses, as Codex speaks it: `POST …/responses`, always streamed.

use serde_json::{Value, json};

use super::Wire;
use super::talk::{Answer, Asked, Frame, Offered, ToolResult};

pub(super) const WIRE: Wire = Wire { name: "responses", path: "/responses", read, write, error };

fn read(body: &Value) -> anyhow::Result<Asked> {
    let mut system: Vec<&str> = body["instructions"].as_str().into_iter().collect();
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for item in list(&body["input"]) {
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("function_call_output"), _) => results.push(ToolResult::read(&item["call_id"], &item["output"])?),
            (_, Some("assistant")) => said.extend(texts(item).map(str::to_owned)),
            (_, Some("developer" | "system")) => system.extend(texts(item)),
            _ => {}
        }
    }
    Ok(Asked {
        system: system.join("\n"),
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        tools: list(&body["tools"]).iter().flat_map(offered).collect(),
        results,
        said,
        body: body.clone(),
    })
}

/// A tool by itself, or the tools of a namespace.
fn offered(tool: &Value) -> Vec<Offered> {
    let named = |tool: &Value, namespace: Option<&str>| {
        let name = tool["name"].as_str()?.to_owned();
        Some(Offered { namespace: namespace.map(str::to_owned), name })
    };
    match tool["type"].as_str() {
        Some("namespace") => {
            list(&tool["tools"]).iter().filter_map(|inner| named(inner, tool["name"].as_str())).collect()
        }
        _ => named(tool, None).into_iter().collect(),
    }
}

fn write(asked: &Asked, answer: &Answer, number: usize) -> Vec<Frame> {
    let item = match answer {
        Answer::Text(text) => json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant",
            "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}),
        Answer::Call { id, tool, arguments } => {
            let mut item = json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": id.to_string(),
                "name": tool.name, "arguments": arguments.to_string()});
            if let Some(namespace) = &tool.namespace {
                item["namespace"] = namespace.as_str().into();
            }
            item
        }
    };
    let id = format!("resp_{number}");
    let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15});
    let whole = json!({"id": id, "object": "response", "status": "completed", "model": asked.model, "output": [item],
        "usage": usage});
    let mut frames = vec![
        Frame::new("response.created", json!({"response": {"id": id, "status": "in_progress"}})),
        Frame::new("response.output_item.added", json!({"output_index": 0, "item": item})),
    ];
    if let Answer::Text(text) = answer {
        let delta = json!({"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": text});
        frames.push(Frame::new("response.output_text.delta", delta));
    }
    frames.push(Frame::new("response.output_item.done", json!({"output_index": 0, "item": item})));
    frames.push(Frame::new("response.completed", json!({"response": whole})));
    frames
}

fn error(message: &str) -> Value {
    json!({"error": {"type": "server_error", "message": message}})
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(item: &Value) -> impl Iterator<Item = &str> {
    list(&item["content"]).iter().filter_map(|piece| piece["text"].as_str())
}
