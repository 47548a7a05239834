//! OpenAI's chat completions, which many others offer too: `POST /chat/completions`.

use serde_json::{Value, json};

use super::api::{Draft, Wire, count, list, text};
use super::error::Trouble;
use super::messages::{Ask, Call, Message, Stop, Tool};
use super::target::Target;

pub(super) const WIRE: Wire = Wire { path, headers, body, take };

fn path(_: &Target) -> String {
    "chat/completions".to_owned()
}

pub(super) fn headers(key: &str) -> Vec<(&'static str, String)> {
    if key.is_empty() { vec![] } else { vec![("authorization", format!("Bearer {key}"))] }
}

fn body(target: &Target, ask: &Ask<'_>) -> Value {
    let system = (!ask.system.is_empty()).then(|| json!({"role": "system", "content": ask.system}));
    let messages: Vec<Value> = system.into_iter().chain(ask.messages.iter().flat_map(messages)).collect();
    let mut body = json!({"model": target.model, "messages": messages, "stream": true,
        "stream_options": {"include_usage": true}});
    if !ask.tools.is_empty() {
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    if let Some(most) = ask.max_tokens {
        // OpenAI's newer models take only the newer word, and others know only the older one.
        body[if target.provider == "openai" { "max_completion_tokens" } else { "max_tokens" }] = most.into();
    }
    body
}

pub(super) fn tool(tool: &Tool) -> Value {
    json!({"type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema}})
}

fn messages(message: &Message) -> Vec<Value> {
    match message {
        Message::User { text } => vec![json!({"role": "user", "content": text})],
        Message::Model { text, calls } if calls.is_empty() => vec![json!({"role": "assistant", "content": text})],
        Message::Model { text, calls } => {
            let call = |call: &Call| {
                json!({"id": call.id, "type": "function",
                    "function": {"name": call.name, "arguments": call.object().to_string()}})
            };
            let content = (!text.is_empty()).then_some(text);
            let calls: Vec<Value> = calls.iter().map(call).collect();
            vec![json!({"role": "assistant", "content": content, "tool_calls": calls})]
        }
        Message::Tools { results } => {
            let result = |result: &super::messages::CallResult| json!({"role": "tool", "tool_call_id": result.id, "content": result.text});
            results.iter().map(result).collect()
        }
    }
}

fn take(draft: &mut Draft, data: &Value) -> Result<Option<String>, Trouble> {
    if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
        return Err(failed(error));
    }
    used(draft, &data["usage"]);
    // Only one answer is asked for.
    let Some(choice) = list(&data["choices"]).first() else { return Ok(None) };
    let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
    for (place, part) in list(&delta["tool_calls"]).iter().enumerate() {
        let index = part["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let call = draft.call(index.unwrap_or(place))?;
        let function = &part["function"];
        // The id and the name come once, and arguments in pieces.
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
            "length" => Stop::Length,
            "content_filter" => Stop::Withheld("the provider's filter withheld the answer".to_owned()),
            _ => Stop::End,
        });
    }
    let refusal = delta["refusal"].as_str().unwrap_or_default();
    Ok(draft.say(if refusal.is_empty() { text(&delta["content"]) } else { refusal }))
}

fn used(draft: &mut Draft, usage: &Value) {
    if usage.is_object() {
        draft.usage.input_tokens = count(&usage["prompt_tokens"]);
        draft.usage.output_tokens = count(&usage["completion_tokens"]);
        // Some tell what it costs.
        draft.usage.cost_usd = usage["cost"].as_f64().or(draft.usage.cost_usd);
    }
}

/// What went wrong after the answer had begun. Some say the status that it would have been.
fn failed(error: &Value) -> Trouble {
    let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    Trouble::status(status.unwrap_or(500), error["message"].as_str().or(error.as_str()).unwrap_or_default())
}
