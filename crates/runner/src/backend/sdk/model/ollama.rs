//! Ollama's own interface: `POST /api/chat`, a line of JSON for each piece.

use serde_json::{Value, json};

use super::api::{Draft, Wire, count, list, text};
use super::chat;
use super::error::Trouble;
use super::messages::{Ask, Call, CallResult, Message, Stop, tokens};
use super::target::Target;

pub(super) const WIRE: Wire = Wire { path, headers: chat::headers, body, take };

/// What a question is given room for at least and at most. What does not fit is left out without a word, beginning with what
/// the agent is told about itself, so the room grows with the question; in few steps, for each loads the model anew.
const ROOM_TOKENS: (usize, usize) = (8 << 10, 128 << 10);

fn path(_: &Target) -> String {
    "api/chat".to_owned()
}

fn body(target: &Target, ask: &Ask<'_>) -> Value {
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

fn messages(message: &Message) -> Vec<Value> {
    match message {
        Message::User { text } => vec![json!({"role": "user", "content": text})],
        Message::Model { text, calls } => {
            let call = |(index, call): (usize, &Call)| {
                let mut written = json!({"function": {"index": index, "name": call.name, "arguments": call.object()}});
                if !call.id.is_empty() {
                    written["id"] = call.id.as_str().into();
                }
                written
            };
            let mut said = json!({"role": "assistant", "content": text});
            if !calls.is_empty() {
                said["tool_calls"] = calls.iter().enumerate().map(call).collect();
            }
            vec![said]
        }
        Message::Tools { results } => results.iter().map(answered).collect(),
    }
}

fn answered(result: &CallResult) -> Value {
    let mut answered = json!({"role": "tool", "tool_name": result.name, "content": result.text});
    if !result.id.is_empty() {
        answered["tool_call_id"] = result.id.as_str().into();
    }
    answered
}

fn take(draft: &mut Draft, data: &Value) -> Result<Option<String>, Trouble> {
    if let Some(error) = data["error"].as_str() {
        return Err(Trouble::status(500, error));
    }
    let message = &data["message"];
    for call in list(&message["tool_calls"]) {
        let function = &call["function"];
        let arguments = function.get("arguments").map_or_else(String::new, Value::to_string);
        let (id, name) = (text(&call["id"]).to_owned(), text(&function["name"]).to_owned());
        draft.add(Call { id, name, arguments, signature: None })?;
    }
    if data["done"] == true {
        draft.usage.input_tokens = count(&data["prompt_eval_count"]);
        draft.usage.output_tokens = count(&data["eval_count"]);
        draft.stop = Some(if data["done_reason"] == "length" { Stop::Length } else { Stop::End });
    }
    Ok(draft.say(text(&message["content"])))
}
