//! Anthropic's Messages API: `POST /v1/messages`.

use serde_json::{Value, json};

use super::api::{AnswerDraft, ModelApi, count, list, text};
use super::error::ModelError;
use super::messages::{ModelCall, ModelCallResult, ModelMessage, ModelRequest, ModelTool, StopReason};
use super::target::ModelTarget;

pub(super) const API: ModelApi = ModelApi { path, headers, body, take };

/// Default for the length of an answer, which this API requires; every current model supports this much.
const MAX_TOKENS: u64 = 8192;

fn path(_: &ModelTarget) -> String {
    "v1/messages".to_owned()
}

fn headers(key: &str) -> Vec<(&'static str, String)> {
    let version = ("anthropic-version", "2023-06-01".to_owned());
    if key.is_empty() { vec![version] } else { vec![version, ("x-api-key", key.to_owned())] }
}

fn body(target: &ModelTarget, ask: &ModelRequest<'_>) -> Value {
    let mut messages: Vec<Value> = ask.messages.iter().filter_map(message).collect();
    // The common beginning of two requests is read from the provider's cache.
    if let Some(last) = messages.last_mut().and_then(|message| message["content"].as_array_mut()?.last_mut()) {
        last["cache_control"] = json!({"type": "ephemeral"});
    }
    let mut body = json!({"model": target.model, "max_tokens": ask.max_tokens.unwrap_or(MAX_TOKENS), "stream": true,
        "messages": messages});
    if !ask.system.is_empty() {
        body["system"] = json!([{"type": "text", "text": ask.system, "cache_control": {"type": "ephemeral"}}]);
    }
    if !ask.tools.is_empty() {
        let tool =
            |tool: &ModelTool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema});
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    body
}

/// Encodes a message. The API rejects empty texts, and messages without any block.
fn message(message: &ModelMessage) -> Option<Value> {
    let block = |text: &str| (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}));
    let (role, blocks): (_, Vec<Value>) = match message {
        ModelMessage::User { text } => ("user", block(text).into_iter().collect()),
        ModelMessage::Model { text, calls } => {
            let call = |call: &ModelCall| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.object()});
            ("assistant", block(text).into_iter().chain(calls.iter().map(call)).collect())
        }
        ModelMessage::Tools { results } => {
            let result = |result: &ModelCallResult| {
                json!({"type": "tool_result", "tool_use_id": result.id, "content": result.text,
                    "is_error": result.failed})
            };
            ("user", results.iter().map(result).collect())
        }
    };
    (!blocks.is_empty()).then(|| json!({"role": role, "content": blocks}))
}

fn take(draft: &mut AnswerDraft, data: &Value) -> Result<Option<String>, ModelError> {
    match text(&data["type"]) {
        "message_start" => add_usage(draft, &data["message"]["usage"]),
        "content_block_start" if data["content_block"]["type"] == "tool_use" => {
            let block = &data["content_block"];
            draft.add(call(block, String::new()))?;
        }
        "content_block_start" => return Ok(draft.say(text(&data["content_block"]["text"]))),
        "content_block_delta" => match text(&data["delta"]["type"]) {
            "text_delta" => return Ok(draft.say(text(&data["delta"]["text"]))),
            // Blocks are streamed one after the other, so this belongs to the last one.
            "input_json_delta" => {
                let last = draft.calls.last_mut().ok_or_else(|| ModelError::new_malformed("arguments of no call"))?;
                last.arguments.push_str(text(&data["delta"]["partial_json"]));
            }
            _ => {}
        },
        "message_delta" => {
            add_usage(draft, &data["usage"]);
            draft.stop = stop(&data["delta"]["stop_reason"]).or(draft.stop.take());
        }
        "message" => return whole(draft, data),
        "error" => return Err(error(&data["error"])),
        _ => {}
    }
    Ok(None)
}

fn whole(draft: &mut AnswerDraft, data: &Value) -> Result<Option<String>, ModelError> {
    let mut last_text = None;
    for block in list(&data["content"]) {
        match text(&block["type"]) {
            "text" => last_text = draft.say(text(&block["text"])).or(last_text),
            "tool_use" => draft.add(call(block, block["input"].to_string()))?,
            _ => {}
        }
    }
    add_usage(draft, &data["usage"]);
    draft.stop = stop(&data["stop_reason"]);
    Ok(last_text)
}

fn call(block: &Value, arguments: String) -> ModelCall {
    let (id, name) = (text(&block["id"]).to_owned(), text(&block["name"]).to_owned());
    ModelCall { id, name, arguments, signature: None }
}

/// Tokens that are written to or read from the cache are reported separately.
fn add_usage(draft: &mut AnswerDraft, usage: &Value) {
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let input: u64 = input.iter().map(|name| count(&usage[name])).sum();
    draft.usage.input_tokens = draft.usage.input_tokens.max(input);
    draft.usage.output_tokens = draft.usage.output_tokens.max(count(&usage["output_tokens"]));
}

fn stop(reason: &Value) -> Option<StopReason> {
    Some(match reason.as_str()? {
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Withheld("the model refused to answer".to_owned()),
        _ => StopReason::End,
    })
}

/// An error after the answer had started, when a status code can no longer be sent.
fn error(error: &Value) -> ModelError {
    let status = match text(&error["type"]) {
        "overloaded_error" => 529,
        "rate_limit_error" => 429,
        "authentication_error" => 401,
        "permission_error" => 403,
        "not_found_error" => 404,
        "invalid_request_error" | "request_too_large" => 400,
        _ => 500,
    };
    ModelError::status(status, text(&error["message"]))
}
