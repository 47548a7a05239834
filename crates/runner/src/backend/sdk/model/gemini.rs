//! Google's Gemini: `POST /v1beta/models/M:streamGenerateContent?alt=sse`.

use serde_json::{Value, json};

use super::api::{Draft, Wire, count, list, text};
use super::error::Trouble;
use super::messages::{Ask, Call, CallResult, Message, Stop, Tool};
use super::target::Target;

pub(super) const WIRE: Wire = Wire { path, headers, body, take };

fn path(target: &Target) -> String {
    format!("v1beta/models/{}:streamGenerateContent?alt=sse", target.model)
}

fn headers(key: &str) -> Vec<(&'static str, String)> {
    if key.is_empty() { vec![] } else { vec![("x-goog-api-key", key.to_owned())] }
}

fn body(_: &Target, ask: &Ask<'_>) -> Value {
    let contents: Vec<Value> = ask.messages.iter().filter_map(content).collect();
    let mut body = json!({"contents": contents});
    if !ask.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": ask.system}]});
    }
    if !ask.tools.is_empty() {
        let tool = |tool: &Tool| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema});
        body["tools"] = json!([{"functionDeclarations": ask.tools.iter().map(tool).collect::<Vec<_>>()}]);
    }
    if let Some(most) = ask.max_tokens {
        body["generationConfig"] = json!({"maxOutputTokens": most});
    }
    body
}

fn content(message: &Message) -> Option<Value> {
    let words = |text: &str| (!text.is_empty()).then(|| json!({"text": text}));
    let (role, parts): (_, Vec<Value>) = match message {
        Message::User { text } => ("user", words(text).into_iter().collect()),
        Message::Model { text, calls } => ("model", words(text).into_iter().chain(calls.iter().map(called)).collect()),
        Message::Tools { results } => ("user", results.iter().map(answered).collect()),
    };
    (!parts.is_empty()).then(|| json!({"role": role, "parts": parts}))
}

fn called(call: &Call) -> Value {
    let mut part = json!({"functionCall": {"name": call.name, "args": call.object()}});
    if !call.id.is_empty() {
        part["functionCall"]["id"] = call.id.as_str().into();
    }
    if let Some(signature) = &call.signature {
        part["thoughtSignature"] = signature.as_str().into();
    }
    part
}

fn answered(result: &CallResult) -> Value {
    let field = if result.failed { "error" } else { "output" };
    let mut part = json!({"functionResponse": {"name": result.name, "response": {field: result.text}}});
    if !result.id.is_empty() {
        part["functionResponse"]["id"] = result.id.as_str().into();
    }
    part
}

fn take(draft: &mut Draft, data: &Value) -> Result<Option<String>, Trouble> {
    if let Some(error) = data.get("error").filter(|error| error.is_object()) {
        let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        return Err(Trouble::status(status, text(&error["message"])));
    }
    let usage = &data["usageMetadata"];
    if usage.is_object() {
        draft.usage.input_tokens = count(&usage["promptTokenCount"]) + count(&usage["toolUsePromptTokenCount"]);
        draft.usage.output_tokens = count(&usage["candidatesTokenCount"]) + count(&usage["thoughtsTokenCount"]);
    }
    if let Some(reason) = data["promptFeedback"]["blockReason"].as_str() {
        draft.stop = Some(Stop::Withheld(format!("the provider did not take the prompt: {reason}")));
    }
    let Some(candidate) = list(&data["candidates"]).first() else { return Ok(None) };
    let mut said = String::new();
    for part in list(&candidate["content"]["parts"]) {
        let call = &part["functionCall"];
        if call.is_object() {
            let arguments = call.get("args").map_or_else(String::new, Value::to_string);
            let signature = part["thoughtSignature"].as_str().map(str::to_owned);
            let (id, name) = (text(&call["id"]).to_owned(), text(&call["name"]).to_owned());
            draft.add(Call { id, name, arguments, signature })?;
        } else if part["thought"] != true {
            said.push_str(text(&part["text"]));
        }
    }
    if let Some(reason) = candidate["finishReason"].as_str() {
        draft.stop = Some(match reason {
            "STOP" => Stop::End,
            "MAX_TOKENS" => Stop::Length,
            other => Stop::Withheld(format!("the provider ended the answer: {other}")),
        });
    }
    Ok(draft.say(&said))
}
