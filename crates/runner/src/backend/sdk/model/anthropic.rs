//! Anthropic's Messages: `POST /v1/messages`.

use serde_json::{Value, json};

use super::api::{Draft, Wire, count, list, text};
use super::error::Trouble;
use super::messages::{Ask, Call, CallResult, Message, Stop, Tool};
use super::target::Target;

pub(super) const WIRE: Wire = Wire { path, headers, body, take };

/// The interface wants to be told, and every model of today can answer that much.
const MAX_TOKENS: u64 = 8192;

fn path(_: &Target) -> String {
    "v1/messages".to_owned()
}

fn headers(key: &str) -> Vec<(&'static str, String)> {
    let version = ("anthropic-version", "2023-06-01".to_owned());
    if key.is_empty() { vec![version] } else { vec![version, ("x-api-key", key.to_owned())] }
}

fn body(target: &Target, ask: &Ask<'_>) -> Value {
    let mut messages: Vec<Value> = ask.messages.iter().filter_map(message).collect();
    // What stays the same from one question to the next is read from the provider's cache.
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
            |tool: &Tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema});
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    body
}

/// Texts without anything in them are refused, and so are messages without any block.
fn message(message: &Message) -> Option<Value> {
    let words = |text: &str| (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}));
    let (role, blocks): (_, Vec<Value>) = match message {
        Message::User { text } => ("user", words(text).into_iter().collect()),
        Message::Model { text, calls } => {
            let call =
                |call: &Call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.object()});
            ("assistant", words(text).into_iter().chain(calls.iter().map(call)).collect())
        }
        Message::Tools { results } => {
            let result = |result: &CallResult| {
                json!({"type": "tool_result", "tool_use_id": result.id, "content": result.text,
                    "is_error": result.failed})
            };
            ("user", results.iter().map(result).collect())
        }
    };
    (!blocks.is_empty()).then(|| json!({"role": role, "content": blocks}))
}

fn take(draft: &mut Draft, data: &Value) -> Result<Option<String>, Trouble> {
    match text(&data["type"]) {
        "message_start" => used(draft, &data["message"]["usage"]),
        "content_block_start" if data["content_block"]["type"] == "tool_use" => {
            let block = &data["content_block"];
            draft.add(call(block, String::new()))?;
        }
        "content_block_start" => return Ok(draft.say(text(&data["content_block"]["text"]))),
        "content_block_delta" => match text(&data["delta"]["type"]) {
            "text_delta" => return Ok(draft.say(text(&data["delta"]["text"]))),
            // Blocks come one after the other, so it is of the last one.
            "input_json_delta" => {
                let last = draft.calls.last_mut().ok_or_else(|| Trouble::garbled("arguments of no call"))?;
                last.arguments.push_str(text(&data["delta"]["partial_json"]));
            }
            _ => {}
        },
        "message_delta" => {
            used(draft, &data["usage"]);
            draft.stop = stop(&data["delta"]["stop_reason"]).or(draft.stop.take());
        }
        "message" => return whole(draft, data),
        "error" => return Err(error(&data["error"])),
        _ => {}
    }
    Ok(None)
}

fn whole(draft: &mut Draft, data: &Value) -> Result<Option<String>, Trouble> {
    let mut said = None;
    for block in list(&data["content"]) {
        match text(&block["type"]) {
            "text" => said = draft.say(text(&block["text"])).or(said),
            "tool_use" => draft.add(call(block, block["input"].to_string()))?,
            _ => {}
        }
    }
    used(draft, &data["usage"]);
    draft.stop = stop(&data["stop_reason"]);
    Ok(said)
}

fn call(block: &Value, arguments: String) -> Call {
    let (id, name) = (text(&block["id"]).to_owned(), text(&block["name"]).to_owned());
    Call { id, name, arguments, signature: None }
}

/// What is written to and read from the cache is counted apart from the rest.
fn used(draft: &mut Draft, usage: &Value) {
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let input: u64 = input.iter().map(|name| count(&usage[name])).sum();
    draft.usage.input_tokens = draft.usage.input_tokens.max(input);
    draft.usage.output_tokens = draft.usage.output_tokens.max(count(&usage["output_tokens"]));
}

fn stop(reason: &Value) -> Option<Stop> {
    Some(match reason.as_str()? {
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Withheld("the model refused to answer".to_owned()),
        _ => Stop::End,
    })
}

/// What went wrong after the answer had begun, when there is no status left to say it by.
fn error(error: &Value) -> Trouble {
    let status = match text(&error["type"]) {
        "overloaded_error" => 529,
        "rate_limit_error" => 429,
        "authentication_error" => 401,
        "permission_error" => 403,
        "not_found_error" => 404,
        "invalid_request_error" | "request_too_large" => 400,
        _ => 500,
    };
    Trouble::status(status, text(&error["message"]))
}
