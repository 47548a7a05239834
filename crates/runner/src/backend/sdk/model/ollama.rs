//! Ollama's own API: `POST /api/chat`, with one JSON line per piece.

use serde_json::{Value, json};

use super::api::{AnswerDraft, ModelApi, count, list, text};
use super::chat;
use super::error::ModelError;
use super::messages::{ModelCall, ModelCallResult, ModelMessage, ModelRequest, StopReason, tokens};
use super::target::ModelTarget;

pub(super) const API: ModelApi = ModelApi { path, headers: chat::headers, body, take };

/// Minimum and maximum of the context length. Ollama silently drops content that does not fit, the system prompt first, so the
/// length grows with the request. It grows in few steps, because each change reloads the model.
const ROOM_TOKENS: (usize, usize) = (8 << 10, 128 << 10);

fn path(_: &ModelTarget) -> String {
    "api/chat".to_owned()
}

fn body(target: &ModelTarget, ask: &ModelRequest<'_>) -> Value {
    let system = (!ask.system.is_empty()).then(|| json!({"role": "system", "content": ask.system}));
    let messages: Vec<Value> = system.into_iter().chain(ask.messages.iter().flat_map(messages)).collect();
    let mut body = json!({"model": target.model, "messages": messages, "stream": true});
    if !ask.tools.is_empty() {
        body["tools"] = ask.tools.iter().map(chat::tool).collect();
    }
    let answer = ask.max_tokens.and_then(|most| usize::try_from(most).ok()).unwrap_or(4 << 10);
    let room = (tokens(&body.to_string()) + answer).next_power_of_two().clamp(ROOM_TOKENS.0, ROOM_TOKENS.1);
    body["options"] = json!({"num_ctx": room});
    if let Some(most) = ask.max_tokens {
        body["options"]["num_predict"] = most.into();
    }
    body
}

fn messages(message: &ModelMessage) -> Vec<Value> {
    match message {
        ModelMessage::User { text } => vec![json!({"role": "user", "content": text})],
        ModelMessage::Model { text, calls } => {
            let call = |(index, call): (usize, &ModelCall)| {
                let mut written = json!({"function": {"index": index, "name": call.name, "arguments": call.object()}});
                if !call.id.is_empty() {
                    written["id"] = call.id.as_str().into();
                }
                written
            };
            let mut encoded = json!({"role": "assistant", "content": text});
            if !calls.is_empty() {
                encoded["tool_calls"] = calls.iter().enumerate().map(call).collect();
            }
            vec![encoded]
        }
        ModelMessage::Tools { results } => results.iter().map(encode_result).collect(),
    }
}

fn encode_result(result: &ModelCallResult) -> Value {
    let mut encoded = json!({"role": "tool", "tool_name": result.name, "content": result.text});
    if !result.id.is_empty() {
        encoded["tool_call_id"] = result.id.as_str().into();
    }
    encoded
}

fn take(draft: &mut AnswerDraft, data: &Value) -> Result<Option<String>, ModelError> {
    if let Some(error) = data["error"].as_str() {
        return Err(ModelError::status(500, error));
    }
    let message = &data["message"];
    for call in list(&message["tool_calls"]) {
        let function = &call["function"];
        let arguments = function.get("arguments").map_or_else(String::new, Value::to_string);
        let (id, name) = (text(&call["id"]).to_owned(), text(&function["name"]).to_owned());
        draft.add(ModelCall { id, name, arguments, signature: None })?;
    }
    if data["done"] == true {
        draft.usage.input_tokens = count(&data["prompt_eval_count"]);
        draft.usage.output_tokens = count(&data["eval_count"]);
        draft.stop = Some(if data["done_reason"] == "length" { StopReason::Length } else { StopReason::End });
    }
    Ok(draft.say(text(&message["content"])))
}
