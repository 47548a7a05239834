//! Google's Gemini API: `POST …/models/M:generateContent` and `…/models/M:streamGenerateContent?alt=sse`.

use axum::http::Uri;
use serde_json::{Value, json};

use super::exchange::{Frame, ModelAnswer, ModelRequest, OfferedTool, ToolResult};
use super::{EVENT_STREAM, Protocol, list, text, texts};

const STREAMED: &str = ":streamGenerateContent";

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "generateContent",
    accepts_path: |path| path.ends_with(":generateContent") || path.ends_with(STREAMED),
    wants_stream: |uri, _| uri.path().ends_with(STREAMED),
    read,
    stream,
    media_type: EVENT_STREAM,
    whole,
    error,
};

fn read(uri: &Uri, body: &Value) -> anyhow::Result<ModelRequest> {
    let (mut results, mut said) = (Vec::new(), Vec::new());
    for content in list(&body["contents"]) {
        for part in list(&content["parts"]) {
            let response = &part["functionResponse"];
            if response.is_object() {
                results.push(ToolResult::read(response.get("id"), &texts_in(&response["response"]))?);
            } else if content["role"] == "model" && part["text"].is_string() && part["thought"] != true {
                said.push(text(&part["text"]));
            }
        }
    }
    let declared = list(&body["tools"]).iter().flat_map(|tool| list(&tool["functionDeclarations"]));
    let model = uri.path().rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
    Ok(ModelRequest {
        system: texts(&body["systemInstruction"]["parts"]),
        model: model.to_owned(),
        tools: declared.filter_map(|tool| tool["name"].as_str()).map(OfferedTool::plain).collect(),
        results,
        said,
        body: body.clone(),
    })
}

/// Returns a tool's answer from the field of the object that has it. A structure becomes its JSON text.
fn texts_in(response: &Value) -> Value {
    let fields = ["output", "result", "content", "error"].iter().filter_map(|name| response.get(name));
    match fields.into_iter().next() {
        Some(text @ (Value::String(_) | Value::Array(_))) => text.clone(),
        Some(other) => other.to_string().into(),
        None => response.to_string().into(),
    }
}

fn stream(request: &ModelRequest, answer: &ModelAnswer, _: usize) -> Vec<Frame> {
    let mut parts: Vec<Value> = answer.pieces().map(|text| json!({"text": text})).collect();
    parts.extend(calls(answer));
    let last = parts.pop();
    let mut frames: Vec<Frame> = parts.into_iter().map(|part| Frame::Data(piece(request, vec![part]))).collect();
    let mut end = piece(request, last.into_iter().collect());
    end["candidates"][0]["finishReason"] = "STOP".into();
    frames.push(Frame::Data(end));
    frames
}

fn whole(request: &ModelRequest, answer: &ModelAnswer, _: usize) -> Value {
    let said = answer.text.iter().map(|text| json!({"text": text}));
    let mut whole = piece(request, said.chain(calls(answer)).collect());
    whole["candidates"][0]["finishReason"] = "STOP".into();
    whole
}

fn calls(answer: &ModelAnswer) -> impl Iterator<Item = Value> {
    answer.calls.iter().map(|call| {
        json!({"functionCall": {"id": call.id.to_string(), "name": call.tool.name, "args": call.input()},
            "thoughtSignature": format!("signed {}", call.id)})
    })
}

fn piece(request: &ModelRequest, parts: Vec<Value>) -> Value {
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15});
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}], "usageMetadata": usage,
        "modelVersion": request.model})
}

fn error(status: u16, message: &str) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}
