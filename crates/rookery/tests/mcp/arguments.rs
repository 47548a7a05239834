//! Arguments that are not as they should be: what a caller is told, and that nothing happens.

use serde_json::{Map, Value, json};

use crate::support::{Way, connect, exported, setup, task, text};

/// Words of the language that the daemon is written in, which say nothing to whoever calls it.
const FOREIGN: [&str; 12] =
    ["u8", "u32", "u64", "i64", "f64", "usize", "enum", "struct", "variant", "sequence", "invalid type", "expected"];

/// A value that the schema does not allow.
fn wrong(schema: &Value) -> Option<Value> {
    let kinds = schema.to_string();
    let takes = |kind: &str| kinds.contains(&format!("\"{kind}\""));
    if !takes("type") {
        return None;
    }
    Some(if takes("object") { json!(true) } else { json!({"this": {"is": "wrong"}}) })
}

#[tokio::test]
async fn a_wrong_argument_is_named_in_words_of_json() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Way::Session, Some("a")).await;
    let mut seen = 0;
    for tool in a.service.list_all_tools().await.unwrap() {
        let none = Map::new();
        let fields = tool.input_schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        for (name, schema) in fields {
            let Some(value) = wrong(schema) else { continue };
            let refused = a.refused(&tool.name, json!({ name: value })).await;
            let said = text(&refused["message"]);
            assert_eq!(refused["code"], "INVALID_INPUT", "{}: {refused}", tool.name);
            assert!(said.starts_with(&format!("argument '{name}': must be ")), "{}: {said}", tool.name);
            for word in FOREIGN {
                assert!(!said.split([' ', ',', ':']).any(|said| said == word), "{}: {said}", tool.name);
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
    let missing = a.refused("channel_send", json!({})).await;
    assert_eq!(missing["message"], "argument 'message' is missing; it must be a string");
    let to = a.refused("coord_publish_message", json!({"type": "GENERAL", "subject": "x", "to": 7})).await;
    assert_eq!(to["message"], "argument 'to': must be a list of strings or a string, not the number 7");
}

#[tokio::test]
async fn an_empty_name_is_no_name() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Way::Session, Some("a")).await;
    a.register("a").await;
    let task = task(&daemon, Some("a")).await;
    a.call("document_write", json!({"content": "as it was"})).await;
    let before = exported(&daemon).len();
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
            let refused = a.refused(tool, arguments).await;
            assert_eq!(refused["code"], "INVALID_INPUT", "{tool}: {refused}");
            assert!(text(&refused["message"]).contains(&format!("argument '{field}'")), "{tool}: {refused}");
        }
    }
    for nobody in [json!("@"), json!(" @ ")] {
        a.refused("channel_send", json!({"message": "x", "to": nobody})).await;
    }
    a.refused("coord_publish_message", json!({"type": "GENERAL", "subject": "x", "to": ["a", ""]})).await;
    assert_eq!(exported(&daemon).len(), before, "nothing was done");
}

#[tokio::test]
async fn a_limit_is_clamped_and_none_is_a_mistake() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Way::Session, Some("a")).await;
    a.register("a").await;
    a.call("document_write", json!({"content": "one"})).await;
    a.call("document_write", json!({"content": "two"})).await;
    a.says("channel_send", json!({"message": "one"})).await;
    a.says("channel_send", json!({"message": "two"})).await;
    let task = task(&daemon, Some("a")).await;
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
            for none in [json!(0), json!(-5), json!(1.5)] {
                arguments[limit] = none;
                let refused = a.refused(&tool.name, arguments.clone()).await;
                let said = format!("argument '{limit}': must be a whole number, 1 or more");
                assert_eq!(refused["message"], said, "{}", tool.name);
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
