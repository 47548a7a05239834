//! An agent's path through a workflow, in the documented order: registering, claiming, working, leaving, and resuming
//! the
//! work of another agent.

use rookery_testkit::daemon::Daemon;
use rookery_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::{Client, Transport, connect, create_planned_workflow, rows_of_kind, setup, text};

/// Every documented step, by a client that is new to the daemon.
#[tokio::test]
async fn documented_steps_from_registration_to_unregistration_succeed() {
    let daemon = setup().start().unwrap();
    let planner = connect(&daemon, Transport::Session, Some("planner")).await;
    planner.register("planner").await;
    let (workflow, _) = create_planned_workflow(&planner, json!([{"name": "Set up OAuth"}, {"name": "Google"}])).await;
    for transport in [Transport::Session, Transport::Stateless, Transport::Bridge] {
        let worker = connect(&daemon, transport, None).await;
        let agent = worker
            .call(
                "agent_register",
                json!({
                    "name": "worker-1",
                    "runtime": "claude_code",
                    "role": "worker",
                    "capabilities": ["typescript", "testing"],
                    "workspace_path": "/projects/myapp",
                }),
            )
            .await;
        assert_eq!((&agent["name"], &agent["status"]), (&json!("worker-1"), &json!("online")));
        let id = text(&agent["id"]);
        play_documented_steps(&daemon, &worker, &workflow, &id).await;
        planner
            .call("workflow_add_task", json!({"workflow_id": workflow, "name": format!("more for {transport:?}")}))
            .await;
    }
}

async fn play_documented_steps(daemon: &Daemon, worker: &Client, workflow: &str, agent: &str) {
    let next = worker.call("workflow_next_tasks", json!({"workflow_id": workflow})).await;
    let task = text(&next["tasks"][0]["id"]);
    let claim = worker.call("task_claim", json!({"task_id": task, "agent_id": agent})).await;
    assert_eq!(claim["success"], true);
    let include = json!({
        "workflow_plan": true,
        "prior_task_outcomes": true,
        "dependency_outcomes": true,
        "recent_checkpoints": 5,
    });
    let asked = json!({"task_id": task, "include": include, "max_tokens": 8000});
    let context = worker.call("task_load_context", asked).await;
    assert_eq!((&context["workflow"]["id"], &context["current_task"]["id"]), (&json!(workflow), &json!(task)));
    assert!(context["prior_tasks"].is_array() && context["dependency_outcomes"].is_array());
    let progress = json!({
        "task_id": task,
        "type": "progress",
        "summary": "Installed OAuth dependencies and created passport config",
        "files_changed": ["package.json", "src/auth/passport.ts"],
    });
    assert_eq!(worker.call("checkpoint_add", progress).await["sequence"], 1);
    let decision = json!({
        "task_id": task,
        "type": "decision",
        "summary": "Chose JWT over session cookies for stateless auth",
        "detail": {"reason": "Better for API-first architecture"},
    });
    assert_eq!(worker.call("checkpoint_add", decision).await["sequence"], 2);
    let beat = json!({"agent_id": agent, "current_task_id": task, "status": "busy"});
    assert_eq!(worker.call("agent_heartbeat", beat).await, json!({"success": true, "next_heartbeat_ms": 30_000}));
    let done = json!({
        "id": task,
        "status": "completed",
        "outcome": "OAuth infrastructure setup complete",
        "outcome_detail": {"files_created": ["src/auth/passport.ts"], "packages_added": ["passport"]},
    });
    assert_eq!(worker.call("task_update_status", done).await, json!({"success": true}));
    let after = worker.call("task_get", json!({"id": task})).await;
    assert_eq!((&after["status"], &after["assigned_agent_id"]), (&json!("completed"), &json!(agent)));
    assert_eq!(after["outcome_detail"]["packages_added"], json!(["passport"]));
    assert_eq!(after["files_changed"], json!(["package.json", "src/auth/passport.ts"]));

    // The next task fails, and leaving releases nothing, because a failed task has no holder.
    let next = worker.call("workflow_next_tasks", json!({"workflow_id": workflow})).await;
    let task = text(&next["tasks"][0]["id"]);
    worker.call("task_claim", json!({"task_id": task, "agent_id": agent})).await;
    let error = "Google OAuth callback URL rejected by provider";
    worker.call("task_update_status", json!({"id": task, "status": "failed", "error": error})).await;
    assert_eq!(worker.call("task_get", json!({"id": task})).await["error"], error);
    let left = worker.call("agent_unregister", json!({"id": agent})).await;
    assert_eq!(left, json!({"success": true, "tasks_released": 0}));
    assert_eq!(daemon.get(&format!("/agents/{agent}?include=left")).await.unwrap().body["status"], "offline");
}

/// The loop that projects write into their instructions: claim, context, plan, start, checkpoint, complete.
#[tokio::test]
async fn documented_work_loop_completes_its_workflow() {
    let daemon = setup().start().unwrap();
    let agent = connect(&daemon, Transport::Session, None).await;
    let id = text(&agent.call("agent_register", json!({"name": "claude", "runtime": "claude_code"})).await["id"]);
    assert_eq!(agent.call("workflow_list", json!({"status": "in_progress"})).await["workflows"], json!([]));
    let created = json!({"name": "OAuth", "source_type": "prompt", "source_content": "add OAuth"});
    let created = agent.call("workflow_create", created).await;
    assert_eq!((&created["status"], &created["max_parallel_tasks"]), (&json!("planning"), &json!(1)));
    let tasks = json!([
        {"name": "Setup"},
        {"name": "Google", "depends_on": ["Setup"], "parallel_group": "providers"},
        {"name": "GitHub", "depends_on": ["Setup"], "parallel_group": "providers"},
    ]);
    let planned = json!({"id": created["id"], "plan": {"summary": "three steps", "tasks": tasks}});
    assert_eq!(
        agent.call("workflow_set_plan", planned).await,
        json!({
            "workflow_id": created["id"],
            "tasks_created": 3,
            "parallelizable_groups": ["providers"],
            "status": "ready",
        })
    );
    let mut done = 0;
    loop {
        let next = agent.call("workflow_next_tasks", json!({"workflow_id": created["id"]})).await;
        let Some(task) = next["tasks"].as_array().unwrap().first().cloned() else {
            assert_eq!(next["all_complete"], true, "{next}");
            break;
        };
        assert_eq!(task["can_parallelize"], done > 0, "{task}");
        agent.call("task_claim", json!({"task_id": task["id"], "agent_id": id})).await;
        let context = agent.call("task_load_context", json!({"task_id": task["id"]})).await;
        assert_eq!(context["prior_tasks"].as_array().unwrap().len(), done, "{context}");
        let how = json!({"approach": "as always", "steps": ["one", "two"], "files_to_modify": ["src/a.ts"]});
        agent.call("task_set_plan", json!({"id": task["id"], "plan": how, "context": {"seen": done}})).await;
        assert_eq!(agent.call("task_get", json!({"id": task["id"]})).await["status"], "planning");
        agent.call("task_update_status", json!({"id": task["id"], "status": "in_progress"})).await;
        let step = json!({"task_id": task["id"], "type": "progress", "summary": "half of it"});
        agent.call("checkpoint_add", step).await;
        let end = json!({"id": task["id"], "status": "completed", "outcome": "it works"});
        agent.call("task_update_status", end).await;
        done += 1;
    }
    assert_eq!(done, 3);
    let workflow = agent.call("workflow_get", json!({"id": created["id"], "include_tasks": true})).await;
    assert_eq!(workflow["status"], "completed", "the workflow completes by itself");
    assert_eq!(workflow["tasks"][1]["plan"]["approach"], "as always");
    assert_eq!(workflow["tasks"][1]["context"], json!({"seen": 1}));
    let status_rows = rows_of_kind(&daemon, "run.status_set");
    assert_eq!(
        status_rows.iter().map(|row| text(&row["fact"]["to"])).collect::<Vec<_>>(),
        ["in_progress", "completed"]
    );
}

/// Two agents see the same tasks; the second one claims the next task.
#[tokio::test]
async fn conflicting_task_claim_leads_to_the_next_task() {
    let daemon = setup().start().unwrap();
    let (a, b) = (
        connect(&daemon, Transport::Session, Some("a")).await,
        connect(&daemon, Transport::Stateless, Some("b")).await,
    );
    a.register("a").await;
    b.register("b").await;
    let (workflow, tasks) = create_planned_workflow(&a, json!([{"name": "one"}, {"name": "two"}])).await;
    let (first, second) = (claim_next(&a, &workflow, "a").await, claim_next(&b, &workflow, "b").await);
    assert_eq!((first.as_deref(), second.as_deref()), (Some(tasks["one"].as_str()), Some(tasks["two"].as_str())));
    let late = b.call("task_claim", json!({"task_id": tasks["one"], "agent_id": "b"})).await;
    assert_eq!(late, json!({"success": false, "already_claimed_by": "a"}));
    let again = a.call("task_claim", json!({"task_id": tasks["one"], "agent_id": "a"})).await;
    assert_eq!(again["success"], true, "a repeated claim by the holder succeeds");
    assert_eq!(rows_of_kind(&daemon, "task.claimed").len(), 2);
    assert_eq!(claim_next(&b, &workflow, "b").await, None, "no task is left");

    // An unknown agent is rejected as such, no matter which agent holds the task.
    for task in ["one", "two"] {
        let stranger = connect(&daemon, Transport::Stateless, None).await;
        let refused = stranger.call_rejected("task_claim", json!({"task_id": tasks[task], "agent_id": "ag_x"})).await;
        assert_eq!(refused["code"], "AGENT_NOT_FOUND");
    }
}

async fn claim_next(agent: &Client, workflow: &str, id: &str) -> Option<String> {
    let next = agent.call("workflow_next_tasks", json!({"workflow_id": workflow})).await;
    for task in next["tasks"].as_array().unwrap() {
        let claim = agent.call("task_claim", json!({"task_id": task["id"], "agent_id": id})).await;
        if claim["success"] == true {
            return Some(text(&task["id"]));
        }
    }
    None
}

/// The agent dies during its work, then the daemon; a new agent finds the task with all its checkpoints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_resumes_after_agent_and_daemon_crash() {
    let mut daemon = setup().env("ROOKERY_OFFLINE_AFTER", "1s").start().unwrap();
    let lead = connect(&daemon, Transport::Session, Some("lead")).await;
    lead.register("lead").await;
    let (workflow, tasks) =
        create_planned_workflow(&lead, json!([{"name": "one"}, {"name": "two", "depends_on": ["one"]}])).await;
    let task = tasks["one"].clone();
    let dying = connect(&daemon, Transport::Session, Some("dying")).await;
    dying.register("dying").await;
    dying.call("task_claim", json!({"task_id": task})).await;
    dying.call("task_set_plan", json!({"id": task, "plan": {"approach": "bravely", "steps": ["go"]}})).await;
    dying.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    for number in 1..=8 {
        let step = json!({"task_id": task, "type": "progress", "summary": format!("step {number}")});
        dying.call("checkpoint_add", step).await;
    }
    dying.call("agent_heartbeat", json!({})).await;
    eventually("the silent agent loses its task", async || {
        let now = daemon.get(&format!("/tasks/{task}")).await.unwrap().body;
        Ok((now["assigned_to"] == Value::Null).then_some(()))
    })
    .await
    .unwrap();
    daemon.kill().unwrap();
    tokio::task::block_in_place(|| daemon.restart()).unwrap();

    let next = connect(&daemon, Transport::Stateless, None).await;
    let id = text(&next.call("agent_register", json!({"name": "fresh", "runtime": "codex"})).await["id"]);
    let found = next.call("workflow_list", json!({"status": ["in_progress"]})).await;
    assert_eq!(found["workflows"][0]["id"], json!(workflow));
    let progress = next.call("workflow_progress", json!({"workflow_id": workflow})).await;
    assert_eq!(progress["by_status"], json!({"pending": 1, "blocked": 1}));
    assert_eq!((&progress["current_sequence"], &progress["current_tasks"][0]["id"]), (&json!(1), &json!(task)));
    assert_eq!(progress["blocked_tasks"][0]["blocked_by"], json!(["one"]));
    let include = json!({"workflow_plan": true, "prior_task_outcomes": true, "all_checkpoints": true});
    let context = next.call("task_load_context", json!({"task_id": task, "include": include})).await;
    let left = context["current_task"]["checkpoints"].as_array().unwrap();
    assert_eq!(
        left.iter().map(|one| one["sequence"].as_u64().unwrap()).collect::<Vec<_>>(),
        (1..=9).collect::<Vec<_>>()
    );
    assert_eq!(left[7]["summary"], "step 8");
    assert_eq!(left[8]["type"], "recovery");
    assert_eq!(context["current_task"]["plan"]["approach"], "bravely");
    let claim = next.call("task_claim", json!({"task_id": task, "agent_id": id})).await;
    assert_eq!(claim["success"], true);
    next.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
    next.call("task_update_status", json!({"id": task, "status": "completed", "outcome": "done after all"})).await;
    let open = next.call("workflow_next_tasks", json!({"workflow_id": workflow})).await;
    assert_eq!(open["tasks"][0]["dependencies_completed"], json!(["one"]));
    drop((lead, dying));
    daemon.stop().unwrap();
    daemon.replay_verify().unwrap();
}
