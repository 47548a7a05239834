//! Error codes of tools, in a form that never changes.

use serde_json::{Value, json};

use crate::support::{Transport, connect, create_planned_workflow, setup};

/// Asserts an error with exactly these fields and types.
fn assert_well_formed(rejected: &Value, code: &str, recoverable: bool) {
    let fields = rejected.as_object().unwrap();
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert!(
        ["code", "message", "recoverable"].iter().all(|name| names.contains(name))
            && names.iter().all(|name| ["code", "message", "recoverable", "suggestion", "detail"].contains(name)),
        "{rejected}"
    );
    assert_eq!((&rejected["code"], &rejected["recoverable"]), (&json!(code), &json!(recoverable)), "{rejected}");
    assert!(rejected["message"].as_str().is_some_and(|message| !message.is_empty()), "{rejected}");
    assert!(fields.get("suggestion").is_none_or(Value::is_string), "{rejected}");
    // Of these rejections only those over a held task have details: the holder.
    let holder = (code == "NOT_ASSIGNED").then(|| json!({"holder": "a"}));
    assert_eq!(fields.get("detail"), holder.as_ref(), "{rejected}");
}

#[tokio::test]
async fn every_error_code_has_its_exact_form() {
    let daemon = setup().start().unwrap();
    let (a, b) = (
        connect(&daemon, Transport::Stateless, Some("a")).await,
        connect(&daemon, Transport::Stateless, Some("b")).await,
    );
    a.register("a").await;
    b.register("b").await;
    let tasks =
        json!([{"name": "held"}, {"name": "free"}, {"name": "waits", "depends_on": ["held"]}, {"name": "done"}]);
    let (workflow, tasks) = create_planned_workflow(&a, tasks).await;
    let id = |name: &str| tasks[name].clone();
    for task in ["held", "done"] {
        a.call("task_claim", json!({"task_id": id(task)})).await;
        a.call("task_update_status", json!({"id": id(task), "status": "in_progress"})).await;
    }
    a.call("task_update_status", json!({"id": id("done"), "status": "completed", "outcome": "x"})).await;
    a.call("template_create", json!({"name": "t", "from_workflow_id": workflow})).await;

    let permanent = |code: &'static str, tool: &'static str, arguments: Value| (code, false, tool, arguments);
    let recoverable_error = |code: &'static str, tool: &'static str, arguments: Value| (code, true, tool, arguments);
    let no_plan = json!({"summary": "s", "tasks": [{"name": "n"}]});
    for (code, recoverable, tool, arguments) in [
        permanent("WORKFLOW_NOT_FOUND", "workflow_get", json!({"id": "wf_x"})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_get", json!({"id": "wf_x", "include_tasks": true})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_set_plan", json!({"id": "wf_x", "plan": no_plan})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_next_tasks", json!({"workflow_id": "wf_x"})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_progress", json!({"workflow_id": "wf_x"})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_summary", json!({"id": "wf_x"})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_update_status", json!({"id": "wf_x", "status": "paused"})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_add_task", json!({"workflow_id": "wf_x", "name": "n"})),
        permanent("WORKFLOW_NOT_FOUND", "workflow_remove_task", json!({"workflow_id": "wf_x", "task_id": id("free")})),
        permanent("WORKFLOW_NOT_FOUND", "template_create", json!({"name": "u", "from_workflow_id": "wf_x"})),
        permanent("TASK_NOT_FOUND", "task_get", json!({"id": "tk_x"})),
        permanent("TASK_NOT_FOUND", "task_claim", json!({"task_id": "tk_x"})),
        permanent("TASK_NOT_FOUND", "task_release", json!({"task_id": "tk_x"})),
        permanent("TASK_NOT_FOUND", "task_load_context", json!({"task_id": "tk_x"})),
        permanent("TASK_NOT_FOUND", "task_update_status", json!({"id": "tk_x", "status": "in_progress"})),
        permanent("TASK_NOT_FOUND", "task_check_dependencies", json!({"task_id": "tk_x"})),
        permanent("TASK_NOT_FOUND", "task_set_plan", json!({"id": "tk_x", "plan": {"approach": "a", "steps": []}})),
        permanent(
            "TASK_NOT_FOUND",
            "task_replan",
            json!({"id": "tk_x", "reason": "r", "new_plan": {"approach": "a", "steps": []}}),
        ),
        permanent("TASK_NOT_FOUND", "checkpoint_add", json!({"task_id": "tk_x", "type": "progress", "summary": "s"})),
        permanent("TASK_NOT_FOUND", "checkpoint_list", json!({"task_id": "tk_x"})),
        permanent(
            "TASK_NOT_FOUND",
            "workflow_add_task",
            json!({"workflow_id": workflow, "name": "n", "after_task": "x"}),
        ),
        permanent("AGENT_NOT_FOUND", "agent_get", json!({"id": "ag_x"})),
        permanent("TEMPLATE_NOT_FOUND", "template_apply", json!({"template_id": "tmpl_x", "workflow_name": "n"})),
        permanent("INVALID_TRANSITION", "task_update_status", json!({"id": id("done"), "status": "in_progress"})),
        permanent("INVALID_TRANSITION", "task_claim", json!({"task_id": id("done")})),
        permanent(
            "INVALID_TRANSITION",
            "task_update_status",
            json!({"id": id("free"), "status": "completed", "outcome": "x"}),
        ),
        permanent("INVALID_STATE", "workflow_set_plan", json!({"id": workflow, "plan": no_plan})),
        permanent("INVALID_STATE", "task_set_plan", json!({"id": id("held"), "plan": {"approach": "a", "steps": []}})),
        permanent(
            "INVALID_STATE",
            "task_replan",
            json!({"id": id("free"), "reason": "r", "new_plan": {"approach": "a", "steps": []}}),
        ),
        permanent(
            "TASK_NOT_REMOVABLE",
            "workflow_remove_task",
            json!({"workflow_id": workflow, "task_id": id("held")}),
        ),
        permanent("NOT_CLAIMED", "task_release", json!({"task_id": id("free")})),
        recoverable_error("TASK_BLOCKED", "task_update_status", json!({"id": id("waits"), "status": "in_progress"})),
        recoverable_error("MISSING_OUTCOME", "task_update_status", json!({"id": id("held"), "status": "completed"})),
        recoverable_error("MISSING_ERROR", "task_update_status", json!({"id": id("held"), "status": "failed"})),
        recoverable_error("DUPLICATE_TASK_NAME", "workflow_add_task", json!({"workflow_id": workflow, "name": "free"})),
        recoverable_error(
            "SELF_DEPENDENCY",
            "workflow_add_task",
            json!({"workflow_id": workflow, "name": "n", "depends_on": ["n"]}),
        ),
        recoverable_error(
            "UNKNOWN_DEPENDENCY",
            "workflow_add_task",
            json!({"workflow_id": workflow, "name": "n", "depends_on": ["x"]}),
        ),
        recoverable_error(
            "NAME_CONFLICT",
            "workflow_replan",
            json!({"workflow_id": workflow, "plan": {"summary": "", "reason": "", "tasks": [{"name": "held"}]}}),
        ),
        recoverable_error("DUPLICATE_TEMPLATE", "template_create", json!({"name": "t", "from_workflow_id": workflow})),
        recoverable_error("INVALID_INPUT", "task_load_context", json!({"task_id": id("held"), "max_tokens": 499})),
        recoverable_error("INVALID_INPUT", "task_update_status", json!({"id": id("held"), "status": "dancing"})),
        recoverable_error(
            "INVALID_INPUT",
            "task_update_status",
            json!({"id": id("held"), "status": "review", "waiting_for": "input"}),
        ),
        recoverable_error(
            "INVALID_INPUT",
            "checkpoint_add",
            json!({"task_id": id("held"), "type": "gossip", "summary": "s"}),
        ),
        recoverable_error(
            "INVALID_INPUT",
            "checkpoint_add",
            json!({"task_id": id("held"), "type": "progress", "summary": " "}),
        ),
        recoverable_error("INVALID_INPUT", "workflow_create", json!({"name": "n"})),
        recoverable_error(
            "INVALID_INPUT",
            "workflow_create",
            json!({"name": "", "source_type": "prompt", "source_content": "x"}),
        ),
        recoverable_error(
            "TOO_LARGE",
            "checkpoint_add",
            json!({"task_id": id("held"), "type": "progress", "summary": "x".repeat(20_000)}),
        ),
    ] {
        assert_well_formed(&a.call_rejected(tool, arguments).await, code, recoverable);
    }
    assert_well_formed(&b.call_rejected("task_release", json!({"task_id": id("held")})).await, "NOT_ASSIGNED", false);
    let foreign = json!({"id": id("held"), "status": "completed", "outcome": "mine now"});
    assert_well_formed(&b.call_rejected("task_update_status", foreign).await, "NOT_ASSIGNED", false);
    let early = json!({"task_id": id("free"), "type": "progress", "summary": "s"});
    assert_well_formed(&b.call_rejected("checkpoint_add", early).await, "NOT_CLAIMED", false);
    let stranger = connect(&daemon, Transport::Stateless, None).await;
    let claim = json!({"task_id": id("held"), "agent_id": "ag_x"});
    assert_well_formed(&stranger.call_rejected("task_claim", claim.clone()).await, "AGENT_NOT_FOUND", false);
    assert_well_formed(&stranger.call_rejected("task_release", claim).await, "AGENT_NOT_FOUND", false);
    let open = json!({"name": "n", "source_type": "prompt", "source_content": "x"});
    assert_well_formed(&stranger.call_rejected("workflow_create", open).await, "NO_IDENTITY", true);
    assert_well_formed(&a.call_rejected("task_get", json!({"id": 7})).await, "INVALID_INPUT", true);
}

#[tokio::test]
async fn pause_and_release_keep_their_reason() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Stateless, Some("a")).await;
    a.register("a").await;
    let (_, tasks) = create_planned_workflow(&a, json!([{"name": "one"}])).await;
    let task = &tasks["one"];
    a.call("task_claim", json!({"task_id": task})).await;
    a.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    let pause = json!({"id": task, "status": "paused", "waiting_for": "input", "reason": "which provider?"});
    a.call("task_update_status", pause).await;
    let paused = a.call("task_get", json!({"id": task})).await;
    assert_eq!((&paused["waiting_for"], &paused["reason"]), (&json!("input"), &json!("which provider?")));
    a.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    let released = json!({"task_id": task, "reason": "somebody else knows it better"});
    assert_eq!(a.call("task_release", released).await, json!({"success": true}));
    let free = a.call("task_get", json!({"id": task})).await;
    assert_eq!((&free["status"], &free["reason"]), (&json!("pending"), &json!("somebody else knows it better")));
    assert!(free.get("waiting_for").is_none() && free["assigned_agent_id"].is_null(), "{free}");
}
