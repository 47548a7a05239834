//! Google's Gemini API: `POST /v1beta/models/M:streamGenerateContent?alt=sse`.

use serde_json::{Value, json};

use super::api::{AnswerDraft, ModelApi, count, list, text};
use super::error::ModelError;
use super::messages::{ModelCall, ModelCallResult, ModelMessage, ModelRequest, ModelTool, StopReason};
use super::target::ModelTarget;

pub(super) const API: ModelApi = ModelApi { path, headers, body, take };

fn path(target: &ModelTarget) -> String {
    format!("v1beta/models/{}:streamGenerateContent?alt=sse", target.model)
}

fn headers(key: &str) -> Vec<(&'static str, String)> {
    if key.is_empty() { vec![] } else { vec![("x-goog-api-key", key.to_owned())] }
}

fn body(_: &ModelTarget, ask: &ModelRequest<'_>) -> Value {
    let contents: Vec<Value> = ask.messages.iter().filter_map(content).collect();
    let mut body = json!({"contents": contents});
    if !ask.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": ask.system}]});
    }
    if !ask.tools.is_empty() {
        let tool = |tool: &ModelTool| json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema});
        body["tools"] = json!([{"functionDeclarations": ask.tools.iter().map(tool).collect::<Vec<_>>()}]);
    }
    if let Some(most) = ask.max_tokens {
        body["generationConfig"] = json!({"maxOutputTokens": most});
    }
    body
}

fn content(message: &ModelMessage) -> Option<Value> {
    let block = |text: &str| (!text.is_empty()).then(|| json!({"text": text}));
    let (role, parts): (_, Vec<Value>) = match message {
        ModelMessage::User { text } => ("user", block(text).into_iter().collect()),
        ModelMessage::Model { text, calls } => {
            ("model", block(text).into_iter().chain(calls.iter().map(encode_call)).collect())
        }
        ModelMessage::Tools { results } => ("user", results.iter().map(encode_result).collect()),
    };
    (!parts.is_empty()).then(|| json!({"role": role, "parts": parts}))
}

fn encode_call(call: &ModelCall) -> Value {
    let mut part = json!({"functionCall": {"name": call.name, "args": call.object()}});
    if !call.id.is_empty() {
        part["functionCall"]["id"] = call.id.as_str().into();
    }
    if let Some(signature) = &call.signature {
        part["thoughtSignature"] = signature.as_str().into();
    }
    part
}

fn encode_result(result: &ModelCallResult) -> Value {
    let field = if result.failed { "error" } else { "output" };
    let mut part = json!({"functionResponse": {"name": result.name, "response": {field: result.text}}});
    if !result.id.is_empty() {
        part["functionResponse"]["id"] = result.id.as_str().into();
    }
    part
}

fn take(draft: &mut AnswerDraft, data: &Value) -> Result<Option<String>, ModelError> {
    if let Some(error) = data.get("error").filter(|error| error.is_object()) {
        let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        return Err(ModelError::status(status, text(&error["message"])));
    }
    let usage = &data["usageMetadata"];
    if usage.is_object() {
        draft.usage.input_tokens = count(&usage["promptTokenCount"]) + count(&usage["toolUsePromptTokenCount"]);
        draft.usage.output_tokens = count(&usage["candidatesTokenCount"]) + count(&usage["thoughtsTokenCount"]);
    }
    if let Some(reason) = data["promptFeedback"]["blockReason"].as_str() {
        draft.stop = Some(StopReason::Withheld(format!("the provider rejected the prompt: {reason}")));
    }
    let Some(candidate) = list(&data["candidates"]).first() else { return Ok(None) };
    let mut said = String::new();
    for part in list(&candidate["content"]["parts"]) {
        let call = &part["functionCall"];
        if call.is_object() {
            let arguments = call.get("args").map_or_else(String::new, Value::to_string);
            let signature = part["thoughtSignature"].as_str().map(str::to_owned);
            let (id, name) = (text(&call["id"]).to_owned(), text(&call["name"]).to_owned());
            draft.add(ModelCall { id, name, arguments, signature })?;
        } else if part["thought"] != true {
            said.push_str(text(&part["text"]));
        }
    }
    if let Some(reason) = candidate["finishReason"].as_str() {
        draft.stop = Some(match reason {
            "STOP" => StopReason::End,
            "MAX_TOKENS" => StopReason::Length,
            other => StopReason::Withheld(format!("the provider ended the answer: {other}")),
        });
    }
    Ok(draft.say(&said))
}
