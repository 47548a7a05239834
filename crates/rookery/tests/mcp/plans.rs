//! Plans of workflows: rejections, later changes, permissions, and templates.

use serde_json::{Value, json};

use crate::support::{
    Client, Transport, connect, connect_with, create_planned_workflow, export_log, rows_of_kind, setup, text,
};

async fn daemon_with_agent() -> (rookery_testkit::daemon::Daemon, Client) {
    let daemon = setup().start().unwrap();
    let agent = connect(&daemon, Transport::Stateless, Some("a")).await;
    agent.register("a").await;
    (daemon, agent)
}

async fn create_workflow(agent: &Client) -> String {
    let created = json!({"name": "w", "source_type": "github_issue", "source_content": "fix it", "source_ref": "#7"});
    text(&agent.call("workflow_create", created).await["id"])
}

#[tokio::test]
async fn invalid_plan_is_rejected_whole() {
    let (daemon, agent) = daemon_with_agent().await;
    let id = create_workflow(&agent).await;
    let before = export_log(&daemon).len();
    let cycle = json!([
        {"name": "x", "depends_on": ["y"]},
        {"name": "y", "depends_on": ["z"]},
        {"name": "z", "depends_on": ["x"]},
    ]);
    for (tasks, code, names) in [
        (cycle, "DEPENDENCY_CYCLE", vec!["x", "y", "z"]),
        (json!([{"name": "x"}, {"name": "x"}]), "DUPLICATE_TASK_NAME", vec!["'x'"]),
        (json!([{"name": "x", "depends_on": ["x"]}]), "SELF_DEPENDENCY", vec!["'x'"]),
        (json!([{"name": "x", "depends_on": ["nothing"]}]), "UNKNOWN_DEPENDENCY", vec!["'nothing'"]),
        (json!([{"name": "x", "context_from": ["nothing"]}]), "UNKNOWN_DEPENDENCY", vec!["'nothing'"]),
        (json!([]), "INVALID_INPUT", vec!["at least one task"]),
        (
            json!([{"name": "x", "estimated_complexity": "huge"}]),
            "INVALID_INPUT",
            vec!["plan.tasks[0].estimated_complexity"],
        ),
    ] {
        let rejected =
            agent.call_rejected("workflow_set_plan", json!({"id": id, "plan": {"summary": "s", "tasks": tasks}})).await;
        assert_eq!((&rejected["code"], &rejected["recoverable"]), (&json!(code), &json!(true)), "{rejected}");
        let message = text(&rejected["message"]);
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
    assert_eq!(export_log(&daemon).len(), before, "no event was appended");
    let tasks = json!([{"name": "second", "sequence": 2}, {"name": "first", "sequence": 1}]);
    let full = json!({"summary": "s", "approach": "slowly", "risks": ["rain"], "assumptions": ["sun"], "tasks": tasks});
    agent.call("workflow_set_plan", json!({"id": id, "plan": full})).await;
    let planned = agent.call("workflow_get", json!({"id": id, "include_tasks": true})).await;
    assert_eq!((&planned["tasks"][0]["name"], &planned["source_ref"]), (&json!("first"), &json!("#7")));
    for part in ["s", "slowly", "rain", "sun"] {
        assert!(text(&planned["plan_summary"]).contains(part), "{planned}");
    }
    let twice = agent
        .call_rejected("workflow_set_plan", json!({"id": id, "plan": {"summary": "", "tasks": [{"name": "z"}]}}))
        .await;
    assert_eq!((&twice["code"], &twice["recoverable"]), (&json!("INVALID_STATE"), &json!(false)));
}

#[tokio::test]
async fn early_task_claim_lists_its_blocking_tasks() {
    let (_daemon, agent) = daemon_with_agent().await;
    let (id, tasks) = create_planned_workflow(
        &agent,
        json!([{"name": "one"}, {"name": "two", "depends_on": ["one"]}, {"name": "three", "depends_on": ["two"]}]),
    )
    .await;
    let early = agent.call("task_claim", json!({"task_id": tasks["three"]})).await;
    let two = json!({"id": tasks["two"], "name": "two", "status": "blocked"});
    assert_eq!((&early["success"], &early["blocked_by"]), (&json!(true), &json!([two])));
    let started =
        agent.call_rejected("task_update_status", json!({"id": tasks["three"], "status": "in_progress"})).await;
    assert_eq!(started["code"], "TASK_BLOCKED");
    let now = agent.call("task_claim", json!({"task_id": tasks["one"]})).await;
    assert_eq!((&now["success"], now.get("blocked_by")), (&json!(true), None));

    let new_plan = json!({"summary": "without two", "reason": "not needed", "tasks": []});
    agent.call("workflow_replan", json!({"workflow_id": id, "plan": new_plan})).await;
    let again = agent.call("task_claim", json!({"task_id": tasks["three"]})).await;
    let one = json!({"id": tasks["one"], "name": "one", "status": "pending"});
    assert_eq!(again["blocked_by"], json!([one]), "it inherits the dependencies of the removed task");
}

#[tokio::test]
async fn plan_changes_during_work() {
    let (_daemon, agent) = daemon_with_agent().await;
    let (id, tasks) = create_planned_workflow(
        &agent,
        json!([{"name": "one"}, {"name": "two", "depends_on": ["one"]}, {"name": "three", "depends_on": ["two"]}]),
    )
    .await;
    let added = json!({"workflow_id": id, "name": "one and a half", "depends_on": [tasks["one"]], "after_task": "one"});
    let added = agent.call("workflow_add_task", added).await;
    assert_eq!((&added["sequence"], &added["workflow_id"]), (&json!(2), &json!(id)));
    let removed = agent.call("workflow_remove_task", json!({"workflow_id": id, "task_id": tasks["two"]})).await;
    assert_eq!(removed, json!({"removed_task_id": tasks["two"], "dependencies_rewired": 1, "tasks_renumbered": 1}));
    let waits = agent.call("task_check_dependencies", json!({"task_id": tasks["three"]})).await;
    let one = json!({"id": tasks["one"], "name": "one", "status": "pending"});
    assert_eq!(waits, json!({"satisfied": false, "pending": [one], "completed": []}));

    agent.call("task_claim", json!({"task_id": tasks["one"]})).await;
    let held = agent.call_rejected("workflow_remove_task", json!({"workflow_id": id, "task_id": tasks["one"]})).await;
    assert_eq!(held["code"], "TASK_NOT_REMOVABLE");
    let again =
        json!({"summary": "revised", "reason": "we know more", "tasks": [{"name": "last", "depends_on": ["one"]}]});
    let replanned = agent.call("workflow_replan", json!({"workflow_id": id, "plan": again})).await;
    let counts = json!({
        "workflow_id": id,
        "tasks_added": 1,
        "tasks_removed": 2,
        "tasks_preserved": 1,
        "new_status": "in_progress",
    });
    assert_eq!(replanned, counts);
    let taken = json!({"summary": "", "reason": "", "tasks": [{"name": "one"}]});
    let taken = agent.call_rejected("workflow_replan", json!({"workflow_id": id, "plan": taken})).await;
    assert_eq!(taken["code"], "NAME_CONFLICT");
    let shown = agent.call("workflow_get", json!({"id": id})).await;
    assert_eq!((&shown["plan_summary"], &shown["tasks"]), (&json!("revised"), &json!([])));
    assert_eq!(shown["config"]["replan_history"][0]["reason"], "we know more");

    agent.call("task_update_status", json!({"id": tasks["one"], "status": "in_progress"})).await;
    let other = json!({"approach": "otherwise", "steps": ["x"]});
    let task = json!({"id": tasks["one"], "reason": "it did not work", "new_plan": other});
    let replanned = agent.call("task_replan", task).await;
    let checkpoints = agent.call("checkpoint_list", json!({"task_id": tasks["one"], "type": ["replan"]})).await;
    assert_eq!(checkpoints["checkpoints"][0]["id"], replanned["checkpoint_id"]);
    assert_eq!(checkpoints["checkpoints"][0]["summary"], "it did not work");
    agent.call("task_update_status", json!({"id": tasks["one"], "status": "failed", "error": "no"})).await;
    let offered = agent.call("workflow_next_tasks", json!({"workflow_id": id})).await;
    assert_eq!(offered["tasks"][0]["id"], json!(tasks["one"]), "a failed task can be taken");
    let strict = agent.call("workflow_next_tasks", json!({"workflow_id": id, "include_failed": false})).await;
    assert_eq!(strict["tasks"], json!([]));
    agent.call("task_claim", json!({"task_id": tasks["one"]})).await;
    let retried = agent.call("task_get", json!({"id": tasks["one"]})).await;
    assert_eq!((&retried["attempt"], &retried["status"]), (&json!(2), &json!("pending")));
}

#[tokio::test]
async fn workflow_status_follows_its_tasks_and_can_be_paused() {
    let (daemon, agent) = daemon_with_agent().await;
    let (id, tasks) =
        create_planned_workflow(&agent, json!([{"name": "one"}, {"name": "two"}, {"name": "three"}])).await;
    let status = async || text(&agent.call("workflow_get", json!({"id": id})).await["status"]);
    assert_eq!(status().await, "ready");
    agent.call("task_claim", json!({"task_id": tasks["one"]})).await;
    assert_eq!(status().await, "in_progress");
    agent.call("workflow_update_status", json!({"id": id, "status": "paused", "reason": "lunch"})).await;
    let asked = agent.call("workflow_next_tasks", json!({"workflow_id": id})).await;
    assert_eq!((&asked["tasks"], &asked["workflow_status"]), (&json!([]), &json!("paused")));
    assert_eq!(agent.call("workflow_next_tasks", json!({})).await["tasks"], json!([]));
    let held = agent.call_rejected("task_claim", json!({"task_id": tasks["two"]})).await;
    assert_eq!(held["code"], "INVALID_STATE");
    let shown = agent.call("workflow_get", json!({"id": id})).await;
    assert_eq!(shown["last_status_reason"], "lunch");
    agent.call("workflow_update_status", json!({"id": id, "status": "in_progress"})).await;
    let early = agent.call_rejected("workflow_update_status", json!({"id": id, "status": "completed"})).await;
    assert_eq!(early["code"], "INVALID_STATE");
    let wrong = agent.call_rejected("workflow_update_status", json!({"id": id, "status": "planning"})).await;
    assert_eq!(wrong["code"], "INVALID_TRANSITION");

    agent.call("task_update_status", json!({"id": tasks["one"], "status": "in_progress"})).await;
    agent.call("task_update_status", json!({"id": tasks["one"], "status": "completed", "outcome": "done"})).await;
    agent.call("task_update_status", json!({"id": tasks["two"], "status": "skipped", "reason": "not needed"})).await;
    agent.call("task_update_status", json!({"id": tasks["three"], "status": "cancelled"})).await;
    assert_eq!(status().await, "completed");
    let progress = agent.call("workflow_progress", json!({"workflow_id": id})).await;
    assert_eq!(progress["by_status"], json!({"completed": 1, "skipped": 2}));
    assert_eq!((&progress["completed_sequence"], &progress["estimated_remaining"]), (&json!(3), &json!(0)));
    let text_of = agent.call("workflow_summary", json!({"id": id, "format": "markdown"})).await;
    assert!(text(&text_of["summary"]).contains("1. one [completed] by a: done"), "{text_of}");
    assert!(text_of["token_estimate"].as_u64().unwrap() > 5);

    // Tasks outside of any workflow belong to the default workflow, which never ends.
    let loose = crate::support::create_task(&daemon, None).await;
    let open = agent.call("workflow_next_tasks", json!({})).await;
    assert_eq!((&open["tasks"][0]["id"], &open["all_complete"]), (&json!(loose), &json!(false)));
    let all = agent.call("workflow_list", json!({})).await;
    assert_eq!((&all["total"], &all["workflows"][1]["id"]), (&json!(2), &json!("run_default")));
}

#[tokio::test]
async fn workflow_is_changed_only_by_creator_lead_or_people() {
    let daemon = setup().start().unwrap();
    let mut agents = vec![];
    for name in ["lead", "a", "b"] {
        let agent = connect(&daemon, Transport::Stateless, Some(name)).await;
        agent.register(name).await;
        agents.push(agent);
    }
    let [lead, a, b] = agents.as_slice() else { panic!("three agents") };
    let (id, tasks) = create_planned_workflow(a, json!([{"name": "one"}, {"name": "two"}])).await;
    let pause = json!({"id": id, "status": "abandoned"});
    let rejected = b.call_rejected("workflow_update_status", pause.clone()).await;
    assert_eq!(rejected["code"], "FORBIDDEN");
    assert!(text(&rejected["message"]).contains("steered by a"), "{rejected}");
    let removal = json!({"workflow_id": id, "task_id": tasks["two"]});
    assert_eq!(b.call_rejected("workflow_remove_task", removal.clone()).await["code"], "FORBIDDEN");
    b.call("workflow_add_task", json!({"workflow_id": id, "name": "found on the way"})).await;
    let as_another = json!({"workflow_id": id, "name": "x", "agent_id": "a"});
    assert_eq!(b.call_rejected("workflow_add_task", as_another.clone()).await["code"], "FORBIDDEN");
    lead.call("workflow_add_task", as_another).await;
    lead.call("workflow_remove_task", removal).await;

    let key = format!("Bearer {}", daemon.person_key().unwrap());
    let header = (reqwest::header::AUTHORIZATION, reqwest::header::HeaderValue::from_str(&key).unwrap());
    let person = connect_with(&daemon, Transport::Stateless, "", None, [header].into()).await;
    let own = json!({"name": "for people", "source_type": "custom", "source_content": ""});
    let own = person.call("workflow_create", own).await;
    assert_eq!(person.call("workflow_get", json!({"id": own["id"]})).await["created_by"], "person:local");

    a.call("agent_unregister", json!({})).await;
    b.call("workflow_update_status", pause).await;
}

#[tokio::test]
async fn template_from_a_workflow_creates_another_workflow() {
    let (daemon, agent) = daemon_with_agent().await;
    let (id, _) = create_planned_workflow(
        &agent,
        json!([{"name": "build {{what}}"}, {"name": "test", "depends_on": ["build {{what}}"]}]),
    )
    .await;
    let from = text(&agent.call("template_create", json!({"name": "a feature", "from_workflow_id": id})).await["id"]);
    let tasks = json!([{"name": "ask {{who}}", "parallel_group": "g"}, {"name": "do", "depends_on": ["ask {{who}}"]}]);
    let defined =
        json!({"name": "a bug", "description": "for {{who}}", "template": {"tasks": tasks, "variables": ["why"]}});
    agent.call("template_create", defined.clone()).await;
    assert_eq!(agent.call_rejected("template_create", defined).await["code"], "DUPLICATE_TEMPLATE");
    let neither = agent.call_rejected("template_create", json!({"name": "x"})).await;
    assert_eq!(neither["code"], "INVALID_INPUT");
    let listed = agent.call("template_list", json!({})).await["templates"].clone();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| text(&one["name"])).collect();
    assert_eq!(names, ["a bug", "a feature"]);
    assert_eq!((&listed[0]["variables"], &listed[0]["source"]), (&json!(["who", "why"]), &json!("db")));
    assert_eq!(listed[0]["tasks"][1]["depends_on"], json!(["ask {{who}}"]));

    let missing = agent.call_rejected("template_apply", json!({"template_id": from, "workflow_name": "login"})).await;
    assert_eq!((&missing["code"], &missing["recoverable"]), (&json!("MISSING_VARIABLES"), &json!(true)));
    let filled = json!({
        "template_id": from,
        "workflow_name": "login",
        "variables": {"what": "the login"},
        "max_parallel_tasks": 3,
    });
    let applied = agent.call("template_apply", filled).await;
    let created = agent.call("workflow_get", json!({"id": applied["workflow_id"], "include_tasks": true})).await;
    assert_eq!(
        (&created["status"], &created["source_type"], &created["max_parallel_tasks"]),
        (&json!("ready"), &json!("template"), &json!(3))
    );
    assert_eq!(created["tasks"][0]["name"], "build the login");
    assert_eq!(created["tasks"][1]["depends_on"], json!([created["tasks"][0]["id"]]));
    let unknown = agent.call_rejected("template_apply", json!({"template_id": "tmpl_x", "workflow_name": "x"})).await;
    assert_eq!(unknown["code"], "TEMPLATE_NOT_FOUND");
    assert_eq!(rows_of_kind(&daemon, "template.created").len(), 2);
}

#[tokio::test]
async fn agent_names_its_workflow_and_clears_its_current_task() {
    let (daemon, agent) = daemon_with_agent().await;
    let (id, tasks) = create_planned_workflow(&agent, json!([{"name": "one"}])).await;
    let joining = json!({"name": "b", "runtime": "codex", "workflow_id": id});
    let other = connect(&daemon, Transport::Stateless, None).await;
    let b = text(&other.call("agent_register", joining).await["id"]);
    let unknown = json!({"name": "c", "runtime": "codex", "workflow_id": "wf_x"});
    assert_eq!(other.call_rejected("agent_register", unknown).await["code"], "WORKFLOW_NOT_FOUND");
    let there = agent.call("agent_list", json!({"workflow_id": id})).await;
    let there: Vec<String> = there["agents"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect();
    assert_eq!(there, [b]);
    agent.call("task_claim", json!({"task_id": tasks["one"]})).await;
    assert_eq!(agent.call("agent_get", json!({"id": "a"})).await["current_task_id"], json!(tasks["one"]));
    agent.call("agent_update", json!({"current_task_id": null})).await;
    let me = agent.call("agent_get", json!({"id": "a"})).await;
    assert_eq!((&me["current_task_id"], &me["status"]), (&Value::Null, &json!("busy")));
    agent.call("agent_update", json!({"metadata": {"k": 1}})).await;
    agent.call("agent_update", json!({"current_task_id": tasks["one"]})).await;
    assert_eq!(agent.call("agent_get", json!({"id": "a"})).await["current_task_id"], json!(tasks["one"]));
}

#[tokio::test]
async fn heartbeat_with_unknown_task_still_keeps_agent_online() {
    let (daemon, agent) = daemon_with_agent().await;
    agent.call("agent_update", json!({"status": "offline"})).await;
    let beat = agent.call_rejected("agent_heartbeat", json!({"current_task_id": "tk_nothing", "status": "busy"})).await;
    assert_eq!((&beat["code"], &beat["message"]), (&json!("TASK_NOT_FOUND"), &json!("Task not found: 'tk_nothing'")));
    assert!(beat["suggestion"].as_str().unwrap().contains("sign of life"), "{beat}");
    let shown = daemon.get("/agents/a").await.unwrap().body;
    assert_eq!((&shown["status"], &shown["current_task"]), (&json!("idle"), &Value::Null));
    let head = daemon.get("/status").await.unwrap().body["event_count"].clone();
    let update = json!({"current_task_id": "tk_nothing", "metadata": {"k": 1}});
    assert_eq!(agent.call_rejected("agent_update", update).await["code"], "TASK_NOT_FOUND");
    assert_eq!(daemon.get("/status").await.unwrap().body["event_count"], head, "no event was appended");
}
