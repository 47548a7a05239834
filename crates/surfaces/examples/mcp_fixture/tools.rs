//! The tools that the suite calls.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{ElicitRequest, ProgressNotificationParam, ServerRequest};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use crate::changes::Extras;
use crate::disconnect::disconnect;
use crate::fixture::Fixture;
use crate::wire::{WAV, embedded, failed, image, text, wire};

/// How far the messages of one call lie apart.
const STEP: Duration = Duration::from_millis(50);

pub fn listed(extras: Extras) -> Vec<Value> {
    let plain = |name: &str| json!({"name": name, "description": name, "inputSchema": {"type": "object"}});
    let asking = |name: &str, field: &str| {
        let schema = json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
        json!({"name": name, "description": name, "inputSchema": schema})
    };
    let names = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_error_handling",
        "test_tool_with_progress",
        "test_reconnection",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_logging_tool",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_tampered_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_capabilities",
    ];
    let mut tools: Vec<Value> = names.into_iter().map(plain).collect();
    tools.push(asking("test_sampling", "prompt"));
    tools.push(asking("test_elicitation", "message"));
    tools.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "Tool with JSON Schema 2020-12 features",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"}, "email": {"type": "string"}},
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        },
    }));
    tools.push(json!({
        "name": "test_custom_header",
        "description": "Tool with an argument that is repeated in a header",
        "inputSchema": {
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
        },
    }));
    if extras.tool {
        tools.push(plain("test_extra_tool"));
    }
    tools
}

/// What the tools answer that always answer the same.
fn fixed(tool: &str) -> Option<Value> {
    let content = match tool {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image()]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => {
            json!([embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")])
        }
        "test_multiple_content_types" => {
            let data = embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#);
            json!([text("Multiple content types test:"), image(), data])
        }
        "json_schema_2020_12_tool" | "test_extra_tool" => json!([text("done")]),
        "test_error_handling" => {
            let said = text("This tool intentionally returns an error for testing");
            return Some(json!({"content": [said], "isError": true}));
        }
        _ => return None,
    };
    Some(json!({"content": content}))
}

/// The form that a tool asks the user to fill in.
fn form(tool: &str, arguments: &Value) -> Option<Value> {
    let three = json!(["option1", "option2", "option3"]);
    let titled = json!([{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"},
        {"const": "value3", "title": "Third"}]);
    let (message, schema) = match tool {
        "test_elicitation" => (
            arguments["message"].clone(),
            json!({"type": "object", "required": ["username", "email"], "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"}}}),
        ),
        "test_elicitation_sep1034_defaults" => (
            json!("Defaults"),
            json!({"type": "object", "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "default": true}}}),
        ),
        "test_elicitation_sep1330_enums" => (
            json!("Choices"),
            json!({"type": "object", "properties": {
                "untitledSingle": {"type": "string", "enum": three},
                "titledSingle": {"type": "string", "oneOf": titled},
                "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"]},
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": three}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled}}}}),
        ),
        _ => return None,
    };
    Some(json!({"mode": "form", "message": message, "requestedSchema": schema}))
}

impl Fixture {
    /// Runs a tool that has asked all it has to ask.
    pub async fn run(
        &self,
        tool: &str,
        arguments: Value,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        if let Some(answer) = fixed(tool) {
            return Ok(answer);
        }
        if let Some(form) = form(tool, &arguments) {
            let asked = ServerRequest::ElicitRequest(ElicitRequest::new(wire(form)?));
            let answer = context.peer.send_request(asked).await.map_err(failed)?;
            let said = serde_json::to_string(&answer).unwrap_or_default();
            return Ok(json!({"content": [text(format!("Elicitation completed: {said}"))]}));
        }
        match tool {
            "test_sampling" => {
                let message = json!({"role": "user", "content": text(arguments["prompt"].as_str().unwrap_or(""))});
                let asked = wire(json!({"messages": [message], "maxTokens": 100}))?;
                let answer = context.peer.create_message(asked).await.map_err(failed)?;
                let said = serde_json::to_string(&answer).unwrap_or_default();
                Ok(json!({"content": [text(format!("LLM response: {said}"))]}))
            }
            "test_tool_with_logging" | "test_logging_tool" => {
                for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    self.log.info(said, &context).await?;
                    tokio::time::sleep(STEP).await;
                }
                Ok(json!({"content": [text("logged")]}))
            }
            "test_tool_with_progress" => {
                for done in [0.0, 50.0, 100.0] {
                    if let Some(token) = context.meta.get_progress_token() {
                        let notice = ProgressNotificationParam::new(token, done).with_total(100.0);
                        context.peer.notify_progress(notice).await.map_err(failed)?;
                    }
                    tokio::time::sleep(STEP).await;
                }
                Ok(json!({"content": [text("done")]}))
            }
            "test_reconnection" => {
                disconnect(&context);
                tokio::time::sleep(STEP).await;
                Ok(json!({"content": [text("done")]}))
            }
            "test_trigger_tool_change" => {
                self.shared.extras.send_modify(|extras| extras.tool = !extras.tool);
                Ok(json!({"content": [text("the list of tools has changed")]}))
            }
            "test_trigger_prompt_change" => {
                self.shared.extras.send_modify(|extras| extras.prompt = !extras.prompt);
                Ok(json!({"content": [text("the list of prompts has changed")]}))
            }
            "test_custom_header" => {
                let region = arguments["region"].as_str().unwrap_or_default();
                Ok(json!({"content": [text(format!("region: {region}"))]}))
            }
            other => Err(ErrorData::invalid_params(format!("there is no tool '{other}'"), None)),
        }
    }
}
