//! Invalid arguments: the error that a caller gets, and that nothing happens.

use serde_json::{Map, Value, json};

use crate::support::{Transport, connect, create_task, export_log, setup, text};

/// Terms of Rust that an error for a caller must not contain.
const RUST_TERMS: [&str; 12] =
    ["u8", "u32", "u64", "i64", "f64", "usize", "enum", "struct", "variant", "sequence", "invalid type", "expected"];

/// A value that the schema does not allow, if there is one.
fn invalid_value(schema: &Value) -> Option<Value> {
    let kinds = schema.to_string();
    let takes = |kind: &str| kinds.contains(&format!("\"{kind}\""));
    if !takes("type") {
        return None;
    }
    Some(if takes("object") { json!(true) } else { json!({"this": {"is": "wrong"}}) })
}

#[tokio::test]
async fn wrong_argument_type_is_reported_in_json_terms() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let mut seen = 0;
    for tool in a.service.list_all_tools().await.unwrap() {
        let none = Map::new();
        let fields = tool.input_schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        for (name, schema) in fields {
            let Some(value) = invalid_value(schema) else { continue };
            let rejected = a.call_rejected(&tool.name, json!({ name: value })).await;
            let message = text(&rejected["message"]);
            assert_eq!(rejected["code"], "INVALID_INPUT", "{}: {rejected}", tool.name);
            assert!(message.starts_with(&format!("argument '{name}': must be ")), "{}: {message}", tool.name);
            for term in RUST_TERMS {
                assert!(!message.split([' ', ',', ':']).any(|part| part == term), "{}: {message}", tool.name);
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
    let missing = a.call_rejected("channel_send", json!({})).await;
    assert_eq!(missing["message"], "argument 'message' is missing; it must be a string");
    let to = a.call_rejected("coord_publish_message", json!({"type": "GENERAL", "subject": "x", "to": 7})).await;
    assert_eq!(to["message"], "argument 'to': must be a list of strings or a string, not the number 7");
}

#[tokio::test]
async fn empty_name_argument_is_rejected() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    let task = create_task(&daemon, Some("a")).await;
    a.call("document_write", json!({"content": "as it was"})).await;
    let before = export_log(&daemon).len();
    for (tool, arguments, field) in [
        ("channel_send", json!({"message": "for one alone"}), "to"),
        ("coord_publish_message", json!({"type": "GENERAL", "subject": "for one alone"}), "to"),
        ("handoff_create", json!({"task_id": task, "summary": "for one alone"}), "to_agent"),
        ("resource_claim", json!({"path": "x"}), "task_id"),
        ("document_read", json!({}), "file"),
        ("document_write", json!({"content": "another"}), "file"),
        ("document_append", json!({"content": "more"}), "file"),
        ("document_history", json!({}), "file"),
        ("document_create", json!({"content": "another"}), "file"),
        ("document_delete", json!({}), "file"),
        ("workflow_next_tasks", json!({}), "workflow_id"),
        ("workflow_list", json!({}), "repository_path"),
        ("workspace_list", json!({}), "workflow_id"),
        ("workspace_create", json!({"branch": "b", "path": "x"}), "base_branch"),
        ("agent_list", json!({}), "runtime"),
        ("agent_heartbeat", json!({}), "current_task_id"),
        ("agent_update", json!({}), "current_task_id"),
        ("template_create", json!({"name": "t"}), "from_workflow_id"),
    ] {
        for empty in ["", "  "] {
            let mut arguments = arguments.clone();
            arguments[field] = empty.into();
            let rejected = a.call_rejected(tool, arguments).await;
            assert_eq!(rejected["code"], "INVALID_INPUT", "{tool}: {rejected}");
            assert!(text(&rejected["message"]).contains(&format!("argument '{field}'")), "{tool}: {rejected}");
        }
    }
    for empty_name in [json!("@"), json!(" @ ")] {
        a.call_rejected("channel_send", json!({"message": "x", "to": empty_name})).await;
    }
    a.call_rejected("coord_publish_message", json!({"type": "GENERAL", "subject": "x", "to": ["a", ""]})).await;
    assert_eq!(export_log(&daemon).len(), before, "no event was appended");
}

#[tokio::test]
async fn large_limit_is_clamped_and_non_positive_limit_is_rejected() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    a.call("document_write", json!({"content": "one"})).await;
    a.call("document_write", json!({"content": "two"})).await;
    a.call_text("channel_send", json!({"message": "one"})).await;
    a.call_text("channel_send", json!({"message": "two"})).await;
    let task = create_task(&daemon, Some("a")).await;
    let mut seen = 0;
    for tool in a.service.list_all_tools().await.unwrap() {
        let fields = tool.input_schema["properties"].as_object().unwrap();
        for limit in fields.keys().filter(|name| name.ends_with("limit")) {
            let mut arguments = json!({});
            for id in ["id", "task_id"].into_iter().filter(|id| fields.contains_key(*id)) {
                arguments[id] = task.as_str().into();
            }
            if fields.contains_key("timeout_seconds") {
                arguments["timeout_seconds"] = 0.into();
            }
            for invalid in [json!(0), json!(-5), json!(1.5)] {
                arguments[limit] = invalid;
                let rejected = a.call_rejected(&tool.name, arguments.clone()).await;
                let expected = format!("argument '{limit}': must be a whole number, 1 or more");
                assert_eq!(rejected["message"], expected, "{}", tool.name);
            }
            for large in [json!(1_001), json!(5_000_000_000_u64), json!(1e30)] {
                arguments[limit] = large;
                a.call(&tool.name, arguments.clone()).await;
            }
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
    assert_eq!(a.call("channel_peek", json!({"limit": 1e30})).await["entries"].as_array().unwrap().len(), 2);
    assert_eq!(a.call("document_history", json!({"limit": 1})).await["versions"].as_array().unwrap().len(), 1);
}
