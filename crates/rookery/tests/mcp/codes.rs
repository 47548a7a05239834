//! What goes wrong is said by a code, in a form that never changes.

use serde_json::{Value, json};

use crate::support::{Way, connect, plan, setup};

/// Exactly these fields, of these kinds.
fn is_well_formed(refused: &Value, code: &str, recoverable: bool) {
    let fields = refused.as_object().unwrap();
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    assert!(
        ["code", "message", "recoverable"].iter().all(|name| names.contains(name))
            && names.iter().all(|name| ["code", "message", "recoverable", "suggestion", "detail"].contains(name)),
        "{refused}"
    );
    assert_eq!((&refused["code"], &refused["recoverable"]), (&json!(code), &json!(recoverable)), "{refused}");
    assert!(refused["message"].as_str().is_some_and(|message| !message.is_empty()), "{refused}");
    assert!(fields.get("suggestion").is_none_or(Value::is_string), "{refused}");
    // Of these rejections only those over a held task have details: the holder.
    let holder = (code == "NOT_ASSIGNED").then(|| json!({"holder": "a"}));
    assert_eq!(fields.get("detail"), holder.as_ref(), "{refused}");
}

#[tokio::test]
async fn every_code_in_its_exact_form() {
    let daemon = setup().start().unwrap();
    let (a, b) = (connect(&daemon, Way::Alone, Some("a")).await, connect(&daemon, Way::Alone, Some("b")).await);
    a.register("a").await;
    b.register("b").await;
    let tasks =
        json!([{"name": "held"}, {"name": "free"}, {"name": "waits", "depends_on": ["held"]}, {"name": "done"}]);
    let (workflow, tasks) = plan(&a, tasks).await;
    let id = |name: &str| tasks[name].clone();
    for task in ["held", "done"] {
        a.call("task_claim", json!({"task_id": id(task)})).await;
        a.call("task_update_status", json!({"id": id(task), "status": "in_progress"})).await;
    }
    a.call("task_update_status", json!({"id": id("done"), "status": "completed", "outcome": "x"})).await;
    a.call("template_create", json!({"name": "t", "from_workflow_id": workflow})).await;

    let unknown = |code: &'static str, tool: &'static str, arguments: Value| (code, false, tool, arguments);
    let mendable = |code: &'static str, tool: &'static str, arguments: Value| (code, true, tool, arguments);
    let no_plan = json!({"summary": "s", "tasks": [{"name": "n"}]});
    for (code, recoverable, tool, arguments) in [
        unknown("WORKFLOW_NOT_FOUND", "workflow_get", json!({"id": "wf_x"})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_get", json!({"id": "wf_x", "include_tasks": true})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_set_plan", json!({"id": "wf_x", "plan": no_plan})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_next_tasks", json!({"workflow_id": "wf_x"})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_progress", json!({"workflow_id": "wf_x"})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_summary", json!({"id": "wf_x"})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_update_status", json!({"id": "wf_x", "status": "paused"})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_add_task", json!({"workflow_id": "wf_x", "name": "n"})),
        unknown("WORKFLOW_NOT_FOUND", "workflow_remove_task", json!({"workflow_id": "wf_x", "task_id": id("free")})),
        unknown("WORKFLOW_NOT_FOUND", "template_create", json!({"name": "u", "from_workflow_id": "wf_x"})),
        unknown("TASK_NOT_FOUND", "task_get", json!({"id": "tk_x"})),
        unknown("TASK_NOT_FOUND", "task_claim", json!({"task_id": "tk_x"})),
        unknown("TASK_NOT_FOUND", "task_release", json!({"task_id": "tk_x"})),
        unknown("TASK_NOT_FOUND", "task_load_context", json!({"task_id": "tk_x"})),
        unknown("TASK_NOT_FOUND", "task_update_status", json!({"id": "tk_x", "status": "in_progress"})),
        unknown("TASK_NOT_FOUND", "task_check_dependencies", json!({"task_id": "tk_x"})),
        unknown("TASK_NOT_FOUND", "task_set_plan", json!({"id": "tk_x", "plan": {"approach": "a", "steps": []}})),
        unknown(
            "TASK_NOT_FOUND",
            "task_replan",
            json!({"id": "tk_x", "reason": "r", "new_plan": {"approach": "a", "steps": []}}),
        ),
        unknown("TASK_NOT_FOUND", "checkpoint_add", json!({"task_id": "tk_x", "type": "progress", "summary": "s"})),
        unknown("TASK_NOT_FOUND", "checkpoint_list", json!({"task_id": "tk_x"})),
        unknown(
            "TASK_NOT_FOUND",
            "workflow_add_task",
            json!({"workflow_id": workflow, "name": "n", "after_task": "x"}),
        ),
        unknown("AGENT_NOT_FOUND", "agent_get", json!({"id": "ag_x"})),
        unknown("TEMPLATE_NOT_FOUND", "template_apply", json!({"template_id": "tmpl_x", "workflow_name": "n"})),
        unknown("INVALID_TRANSITION", "task_update_status", json!({"id": id("done"), "status": "in_progress"})),
        unknown("INVALID_TRANSITION", "task_claim", json!({"task_id": id("done")})),
        unknown(
            "INVALID_TRANSITION",
            "task_update_status",
            json!({"id": id("free"), "status": "completed", "outcome": "x"}),
        ),
        unknown("INVALID_STATE", "workflow_set_plan", json!({"id": workflow, "plan": no_plan})),
        unknown("INVALID_STATE", "task_set_plan", json!({"id": id("held"), "plan": {"approach": "a", "steps": []}})),
        unknown(
            "INVALID_STATE",
            "task_replan",
            json!({"id": id("free"), "reason": "r", "new_plan": {"approach": "a", "steps": []}}),
        ),
        unknown("TASK_NOT_REMOVABLE", "workflow_remove_task", json!({"workflow_id": workflow, "task_id": id("held")})),
        unknown("NOT_CLAIMED", "task_release", json!({"task_id": id("free")})),
        mendable("TASK_BLOCKED", "task_update_status", json!({"id": id("waits"), "status": "in_progress"})),
        mendable("MISSING_OUTCOME", "task_update_status", json!({"id": id("held"), "status": "completed"})),
        mendable("MISSING_ERROR", "task_update_status", json!({"id": id("held"), "status": "failed"})),
        mendable("DUPLICATE_TASK_NAME", "workflow_add_task", json!({"workflow_id": workflow, "name": "free"})),
        mendable(
            "SELF_DEPENDENCY",
            "workflow_add_task",
            json!({"workflow_id": workflow, "name": "n", "depends_on": ["n"]}),
        ),
        mendable(
            "UNKNOWN_DEPENDENCY",
            "workflow_add_task",
            json!({"workflow_id": workflow, "name": "n", "depends_on": ["x"]}),
        ),
        mendable(
            "NAME_CONFLICT",
            "workflow_replan",
            json!({"workflow_id": workflow, "plan": {"summary": "", "reason": "", "tasks": [{"name": "held"}]}}),
        ),
        mendable("DUPLICATE_TEMPLATE", "template_create", json!({"name": "t", "from_workflow_id": workflow})),
        mendable("INVALID_INPUT", "task_load_context", json!({"task_id": id("held"), "max_tokens": 499})),
        mendable("INVALID_INPUT", "task_update_status", json!({"id": id("held"), "status": "dancing"})),
        mendable(
            "INVALID_INPUT",
            "task_update_status",
            json!({"id": id("held"), "status": "review", "waiting_for": "input"}),
        ),
        mendable("INVALID_INPUT", "checkpoint_add", json!({"task_id": id("held"), "type": "gossip", "summary": "s"})),
        mendable("INVALID_INPUT", "checkpoint_add", json!({"task_id": id("held"), "type": "progress", "summary": " "})),
        mendable("INVALID_INPUT", "workflow_create", json!({"name": "n"})),
        mendable(
            "INVALID_INPUT",
            "workflow_create",
            json!({"name": "", "source_type": "prompt", "source_content": "x"}),
        ),
        mendable(
            "TOO_LARGE",
            "checkpoint_add",
            json!({"task_id": id("held"), "type": "progress", "summary": "x".repeat(20_000)}),
        ),
    ] {
        is_well_formed(&a.refused(tool, arguments).await, code, recoverable);
    }
    is_well_formed(&b.refused("task_release", json!({"task_id": id("held")})).await, "NOT_ASSIGNED", false);
    let foreign = json!({"id": id("held"), "status": "completed", "outcome": "mine now"});
    is_well_formed(&b.refused("task_update_status", foreign).await, "NOT_ASSIGNED", false);
    let early = json!({"task_id": id("free"), "type": "progress", "summary": "s"});
    is_well_formed(&b.refused("checkpoint_add", early).await, "NOT_CLAIMED", false);
    let stranger = connect(&daemon, Way::Alone, None).await;
    let claim = json!({"task_id": id("held"), "agent_id": "ag_x"});
    is_well_formed(&stranger.refused("task_claim", claim.clone()).await, "AGENT_NOT_FOUND", false);
    is_well_formed(&stranger.refused("task_release", claim).await, "AGENT_NOT_FOUND", false);
    let open = json!({"name": "n", "source_type": "prompt", "source_content": "x"});
    is_well_formed(&stranger.refused("workflow_create", open).await, "NO_IDENTITY", true);
    is_well_formed(&a.refused("task_get", json!({"id": 7})).await, "INVALID_INPUT", true);
}

#[tokio::test]
async fn a_pause_may_ask_and_a_release_may_tell_why() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Way::Alone, Some("a")).await;
    a.register("a").await;
    let (_, tasks) = plan(&a, json!([{"name": "one"}])).await;
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
