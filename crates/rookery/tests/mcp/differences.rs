//! Differences from the documents of the tools that docs/differences.md lists and no other test covers.

use serde_json::{Value, json};

use crate::support::{Transport, connect, connect_to, create_planned_workflow, setup, text};

/// Tools of the first implementation that its document does not name.
const ABSENT: [&str; 14] = [
    "message_send",
    "message_broadcast",
    "message_list",
    "message_get",
    "message_mark_read",
    "message_archive",
    "message_count_unread",
    "repository_register",
    "repository_list",
    "repository_get",
    "task_assign_workspace",
    "task_get_available",
    "workflow_get_summary",
    "workflow_set_parallelism",
];

#[tokio::test]
async fn undocumented_tools_are_absent() {
    let daemon = setup().start().unwrap();
    let client = connect_to(&daemon, Transport::Session, "", None).await;
    let tools = client.service.list_all_tools().await.unwrap();
    assert!(tools.iter().all(|tool| !ABSENT.contains(&tool.name.as_ref())));
}

#[tokio::test]
async fn empty_fields_are_omitted_and_json_stays_json() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    let (_, tasks) =
        create_planned_workflow(&a, json!([{"name": "first"}, {"name": "second", "depends_on": ["first"]}])).await;
    a.call("task_claim", json!({"task_id": tasks["first"]})).await;
    let context = a.call("task_load_context", json!({"task_id": tasks["first"]})).await;
    for field in ["plan", "outcome", "updated_at", "initial_plan", "repository_id", "workspace_id"] {
        assert_eq!(context["current_task"].get(field), None, "{field}");
    }
    let done = json!({"id": tasks["first"], "status": "completed", "outcome": "o", "outcome_detail": {"files": 2}});
    a.call("task_update_status", done.clone()).await;
    let again = json!({"id": tasks["first"], "status": "completed", "outcome": "o"});
    assert_eq!(a.call_rejected("task_update_status", again).await["code"], "INVALID_TRANSITION");
    assert_eq!(a.call("task_get", json!({"id": tasks["first"]})).await["outcome_detail"], json!({"files": 2}));
    let claimed = a.call("task_claim", json!({"task_id": tasks["second"]})).await;
    assert!(claimed["fence"].is_u64(), "{claimed}");
    let context = a.call("task_load_context", json!({"task_id": tasks["second"]})).await;
    let outcome = &context["dependency_outcomes"][0];
    assert_eq!((&outcome["outcome"], outcome.get("outcome_detail")), (&json!("o"), None));
}

#[tokio::test]
async fn ids_arguments_and_statuses_differ_as_listed() {
    let daemon = setup().start().unwrap();
    let (a, b) =
        (connect(&daemon, Transport::Session, Some("a")).await, connect(&daemon, Transport::Session, None).await);
    a.register("a").await;
    let id = b.register("b").await;
    assert_eq!(id.strip_prefix("ag_").map(str::len), Some(12));
    let (workflow, tasks) = create_planned_workflow(&a, json!([{"name": "first"}])).await;
    for (id, prefix) in [(&workflow, "wf_"), (&tasks["first"], "tk_")] {
        assert_eq!(id.strip_prefix(prefix).map(str::len), Some(21), "{id}");
    }
    let with_repository = json!({"name": "n", "source_type": "prompt", "source_content": "x", "repository_path": "/r"});
    assert_eq!(a.call_rejected("workflow_create", with_repository).await["code"], "INVALID_INPUT");
    let idle = json!({"status": "idle"});
    assert_eq!(a.call_rejected("agent_heartbeat", idle).await["code"], "INVALID_INPUT");
    // Starting a task that is in progress changes nothing.
    a.call("task_claim", json!({"task_id": tasks["first"]})).await;
    for _ in 0..2 {
        a.call("task_update_status", json!({"id": tasks["first"], "status": "in_progress"})).await;
    }
    let limited = a.call("coord_check_messages", json!({"limit": 1})).await;
    assert_eq!((&limited["count"], &limited["pending"]), (&json!(0), &Value::Array(vec![])));
    let sent = json!({"type": "GENERAL", "to": ["b"], "subject": "s", "body": "b"});
    let message = text(&a.call("coord_publish_message", sent).await["message_id"]);
    let shown = a.call("message_status", json!({"id": message})).await;
    let timestamp = text(&shown["timestamp"]);
    assert_eq!(timestamp.len(), "2026-02-01T13:20:11.123Z".len(), "{timestamp}");
}
