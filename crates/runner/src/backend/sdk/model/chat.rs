//! OpenAI's chat completions API, which many other providers offer too: `POST /chat/completions`.

use serde_json::{Value, json};

use super::api::{AnswerDraft, ModelApi, count, list, text};
use super::error::ModelError;
use super::messages::{ModelCall, ModelMessage, ModelRequest, ModelTool, StopReason};
use super::target::ModelTarget;

pub(super) const API: ModelApi = ModelApi { path, headers, body, take };

fn path(_: &ModelTarget) -> String {
    "chat/completions".to_owned()
}

pub(super) fn headers(key: &str) -> Vec<(&'static str, String)> {
    if key.is_empty() { vec![] } else { vec![("authorization", format!("Bearer {key}"))] }
}

fn body(target: &ModelTarget, ask: &ModelRequest<'_>) -> Value {
    let system = (!ask.system.is_empty()).then(|| json!({"role": "system", "content": ask.system}));
    let messages: Vec<Value> = system.into_iter().chain(ask.messages.iter().flat_map(messages)).collect();
    let mut body = json!({"model": target.model, "messages": messages, "stream": true,
        "stream_options": {"include_usage": true}});
    if !ask.tools.is_empty() {
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    if let Some(most) = ask.max_tokens {
        // OpenAI's newer models accept only the new name, and other providers know only the old one.
        body[if target.provider == "openai" { "max_completion_tokens" } else { "max_tokens" }] = most.into();
    }
    body
}

pub(super) fn tool(tool: &ModelTool) -> Value {
    json!({"type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema}})
}

fn messages(message: &ModelMessage) -> Vec<Value> {
    match message {
        ModelMessage::User { text } => vec![json!({"role": "user", "content": text})],
        ModelMessage::Model { text, calls } if calls.is_empty() => vec![json!({"role": "assistant", "content": text})],
        ModelMessage::Model { text, calls } => {
            let call = |call: &ModelCall| {
                json!({"id": call.id, "type": "function",
                    "function": {"name": call.name, "arguments": call.object().to_string()}})
            };
            let content = (!text.is_empty()).then_some(text);
            let calls: Vec<Value> = calls.iter().map(call).collect();
            vec![json!({"role": "assistant", "content": content, "tool_calls": calls})]
        }
        ModelMessage::Tools { results } => {
            let result = |result: &super::messages::ModelCallResult| json!({"role": "tool", "tool_call_id": result.id, "content": result.text});
            results.iter().map(result).collect()
        }
    }
}

fn take(draft: &mut AnswerDraft, data: &Value) -> Result<Option<String>, ModelError> {
    if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
        return Err(stream_error(error));
    }
    add_usage(draft, &data["usage"]);
    // Only one choice is requested.
    let Some(choice) = list(&data["choices"]).first() else { return Ok(None) };
    let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
    for (place, part) in list(&delta["tool_calls"]).iter().enumerate() {
        let index = part["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let call = draft.call(index.unwrap_or(place))?;
        let function = &part["function"];
        // Id and name come once, arguments in pieces.
        if call.id.is_empty() {
            text(&part["id"]).clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            text(&function["name"]).clone_into(&mut call.name);
        }
        call.arguments.push_str(text(&function["arguments"]));
    }
    if let Some(reason) = choice["finish_reason"].as_str() {
        draft.stop = Some(match reason {
            "length" => StopReason::Length,
            "content_filter" => StopReason::Withheld("the provider's filter withheld the answer".to_owned()),
            _ => StopReason::End,
        });
    }
    let refusal = delta["refusal"].as_str().unwrap_or_default();
    Ok(draft.say(if refusal.is_empty() { text(&delta["content"]) } else { refusal }))
}

fn add_usage(draft: &mut AnswerDraft, usage: &Value) {
    if usage.is_object() {
        draft.usage.input_tokens = count(&usage["prompt_tokens"]);
        draft.usage.output_tokens = count(&usage["completion_tokens"]);
        // Some providers report the cost.
        draft.usage.cost_usd = usage["cost"].as_f64().or(draft.usage.cost_usd);
    }
}

/// An error after the answer had started. Some providers include the status that it would have had.
fn stream_error(error: &Value) -> ModelError {
    let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    ModelError::status(status.unwrap_or(500), error["message"].as_str().or(error.as_str()).unwrap_or_default())
}
