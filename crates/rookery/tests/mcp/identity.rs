//! The caller of a tool and the agent it names: one agent, however its name is written.

use std::collections::HashMap;

use futures_util::future::join_all;
use reqwest::header::{HeaderName, HeaderValue};
use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::{
    Client, Transport, connect, connect_to, connect_with, create_planned_workflow, rows_of_kind, setup, text,
};

/// Connects inside an instance, as `rookery mcp --instance` does.
async fn connect_in_instance(daemon: &Daemon, instance: &str, agent: Option<&str>) -> Client {
    let mut headers = HashMap::new();
    headers.insert(HeaderName::from_static("x-rookery-instance"), HeaderValue::from_str(instance).unwrap());
    if let Some(agent) = agent {
        headers.insert(HeaderName::from_static("x-agent-id"), HeaderValue::from_str(agent).unwrap());
    }
    connect_with(daemon, Transport::Session, "", agent, headers).await
}

#[tokio::test]
async fn bridge_with_invalid_agent_name_exits_with_an_error() {
    let daemon = setup().start().unwrap();
    for name in ["person:anna", "system", "group:workers", "two words", "a@b@c", "x@"] {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
            command.env_remove(name);
        }
        let output = command.current_dir(daemon.root()).args(["mcp", "--agent", name]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {message}");
        assert!(
            message.contains(&format!("no agent can be called '{name}'")) && message.contains("an agent's name"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn tool_call_with_invalid_agent_name_registers_no_agent() {
    let daemon = setup().start().unwrap();
    let unnamed = connect(&daemon, Transport::Session, None).await;
    for name in ["@x", "x@", "a@b@c", "a b", &"x".repeat(129)] {
        for (tool, arguments) in [
            ("channel_send", json!({"agent_id": name, "message": "here I am"})),
            ("coord_send_heartbeat", json!({"agent_id": name})),
            ("agent_heartbeat", json!({"agent_id": name})),
        ] {
            let rejected = unnamed.call_rejected(tool, arguments).await;
            let code = if name.len() > 128 { "TOO_LARGE" } else { "INVALID_INPUT" };
            assert_eq!(rejected["code"], code, "{tool} {name}: {rejected}");
            assert!(text(&rejected["suggestion"]).contains("'name@instance'"), "{tool} {name}: {rejected}");
        }
    }
    assert_eq!(rows_of_kind(&daemon, "agent.registered"), Vec::<Value>::new());
    let there = connect(&daemon, Transport::Session, Some("reviewer@pr-1")).await;
    there.call("channel_send", json!({"message": "here I am"})).await;
    assert_eq!(rows_of_kind(&daemon, "agent.registered").len(), 1);
}

#[tokio::test]
async fn standalone_agent_and_member_of_default_are_two_agents() {
    let daemon = setup().start().unwrap();
    let rev = connect(&daemon, Transport::Bridge, Some("rev")).await;
    assert_eq!(rev.register("rev").await, "rev");
    assert_eq!(rev.call("agent_get", json!({"id": "rev"})).await["id"], "rev");
    let member = connect(&daemon, Transport::Bridge, Some("rev@default")).await;
    assert_eq!(member.register("rev").await, "rev@default");
    let solo = connect(&daemon, Transport::Bridge, Some("solo@default")).await;
    assert_eq!(solo.register("solo").await, "solo@default");
    for (named, id) in [("rev", "rev"), ("rev@default", "rev@default"), ("solo", "solo@default")] {
        assert_eq!(rev.call("agent_get", json!({"id": named})).await["id"], id, "{named}");
    }
    for (agent, path) in [(&rev, "a.rs"), (&member, "b.rs")] {
        assert_eq!(agent.call("resource_claim", json!({"path": path})).await["granted"], true);
    }
    assert_eq!(member.call("resource_claim", json!({"path": "a.rs"})).await["owner"], "rev");

    // `@name` reaches the member, `agent:name` the standalone agent; each is shown by the name that reaches it.
    solo.call("channel_send", json!({"message": "@rev look"})).await;
    solo.call("channel_send", json!({"message": "@agent:rev look too"})).await;
    solo.call("channel_send", json!({"message": "for the member", "to": "rev"})).await;
    solo.call("channel_send", json!({"message": "for the standalone one", "to": "agent:rev"})).await;
    assert_eq!(member.read_inbox().await, ["@rev look", "for the member"]);
    assert_eq!(rev.read_inbox().await, ["@agent:rev look too", "for the standalone one"]);
    rev.call("channel_send", json!({"message": "@solo done"})).await;
    member.call("channel_send", json!({"message": "@solo done too"})).await;
    let heard = solo.call("inbox_check", json!({})).await["messages"].clone();
    let from: Vec<&Value> = heard.as_array().unwrap().iter().map(|message| &message["entry"]["from"]).collect();
    assert_eq!(from, ["agent:rev", "rev"]);
}

#[tokio::test]
async fn bare_name_inside_an_instance_is_its_member() {
    let daemon = setup().start().unwrap();
    let unnamed = connect_in_instance(&daemon, "pr-9", None).await;
    unnamed.call("channel_send", json!({"agent_id": "reviewer", "message": "by argument"})).await;
    let reviewer = connect_in_instance(&daemon, "pr-9", Some("reviewer@pr-9")).await;
    reviewer.call("channel_send", json!({"agent_id": "reviewer", "message": "by both"})).await;
    let newcomer = connect_in_instance(&daemon, "pr-9", None).await;
    let id = newcomer.register("newcomer").await;
    assert!(id.ends_with("@pr-9"), "{id}");
    newcomer.call("channel_send", json!({"message": "registered"})).await;
    let entries = unnamed.call("channel_peek", json!({})).await["entries"].clone();
    let messages: Vec<String> = entries.as_array().unwrap().iter().map(|entry| text(&entry["message"])).collect();
    assert_eq!(messages, ["by argument", "by both", "registered"]);
    let project = connect(&daemon, Transport::Session, None).await;
    assert_eq!(project.call("channel_peek", json!({})).await["entries"], json!([]), "other channels stay empty");
    project.call("channel_send", json!({"agent_id": "outside", "message": "hello"})).await;
    for (asked, id) in [("reviewer", "reviewer@pr-9"), ("outside", "outside")] {
        assert_eq!(unnamed.call("agent_get", json!({"id": asked})).await["id"], id);
    }
}

#[tokio::test]
async fn only_the_lead_acts_as_another_agent_with_any_tool() {
    let daemon = setup().start().unwrap();
    let lead = connect(&daemon, Transport::Session, Some("lead")).await;
    lead.register("lead").await;
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    let sealed = connect(&daemon, Transport::Bridge, Some("sealed")).await;
    sealed.register("sealed").await;
    let calls = |agent: &str| {
        [
            ("resource_claim", json!({"path": format!("of-{agent}"), "agent_id": agent})),
            ("channel_send", json!({"message": "hello", "agent_id": agent})),
            ("inbox_peek", json!({"agent_id": agent})),
            ("coord_check_messages", json!({"agent_id": agent})),
            ("coord_send_heartbeat", json!({"agent_id": agent})),
        ]
    };
    for (tool, arguments) in calls("a") {
        lead.call(tool, arguments).await;
    }
    for (tool, arguments) in calls("lead") {
        assert_eq!(a.call_rejected(tool, arguments).await["code"], "FORBIDDEN", "{tool}");
    }
    for (tool, arguments) in calls("sealed") {
        assert_eq!(lead.call_rejected(tool, arguments).await["code"], "CREDENTIAL_REQUIRED", "{tool}");
    }
}

#[tokio::test]
async fn query_about_an_agent_does_not_identify_as_it() {
    let daemon = setup().start().unwrap();
    let worker = connect(&daemon, Transport::Session, Some("wkr")).await;
    worker.register("wkr").await;
    let other = connect(&daemon, Transport::Session, Some("other")).await;
    other.call("channel_send", json!({"message": "@wkr look"})).await;
    let unnamed = connect(&daemon, Transport::Session, None).await;
    let about = unnamed.call_raw("agent_get", json!({"agent_id": "wkr"})).await;
    assert_eq!((about.content.len(), about.meta), (1, None), "other callers are not told of its unread messages");
    let own = unnamed.call_raw("agent_update", json!({"id": "wkr", "metadata": {"k": 1}})).await;
    assert_eq!(own.content.len(), 2, "an update identifies as the agent");
}

#[tokio::test]
async fn unread_hint_counts_against_the_context_budget() {
    let daemon = setup().start().unwrap();
    let worker = connect(&daemon, Transport::Session, Some("wkr")).await;
    worker.register("wkr").await;
    let (_, tasks) =
        create_planned_workflow(&worker, json!([{"name": "one", "description": "do ".repeat(2_000)}])).await;
    let other = connect(&daemon, Transport::Session, Some("other")).await;
    other.call("channel_send", json!({"message": "@wkr look"})).await;
    let unnamed = connect_to(&daemon, Transport::Session, "workflow", None).await;
    for max_tokens in 500..520 {
        let asked = json!({"task_id": tasks["one"], "agent_id": "wkr", "max_tokens": max_tokens});
        let result = unnamed.call_raw("task_load_context", asked).await;
        let context = result.structured_content.unwrap();
        assert_eq!((&context["unread"], result.content.len()), (&json!(1), 2));
        let shown = context.to_string().chars().count().div_ceil(4);
        assert!(shown <= max_tokens, "{shown} tokens for {max_tokens}");
    }
}

#[tokio::test]
async fn concurrent_agent_updates_are_all_applied() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    a.register("a").await;
    let changes = (0..24).map(|at| a.call("agent_update", json!({"metadata": {format!("k{at}"): at}})));
    join_all(changes).await;
    let metadata = a.call("agent_get", json!({"id": "a"})).await["metadata"].clone();
    assert_eq!(metadata.as_object().unwrap().len(), 24, "{metadata}");
}

#[tokio::test]
async fn workflow_of_a_person_is_abandoned_only_by_the_lead() {
    let daemon = setup().start().unwrap();
    let (lead, a) = (
        connect(&daemon, Transport::Session, Some("lead")).await,
        connect(&daemon, Transport::Session, Some("a")).await,
    );
    lead.register("lead").await;
    a.register("a").await;
    let key = daemon.person_key().unwrap();
    let bearer = HeaderValue::from_str(&format!("Bearer {}", key.trim())).unwrap();
    let headers = HashMap::from([(HeaderName::from_static("authorization"), bearer)]);
    let person = connect_with(&daemon, Transport::Session, "", None, headers).await;
    let (workflow, _) = create_planned_workflow(&person, json!([{"name": "one", "description": "d"}])).await;
    let abandon = json!({"id": workflow, "status": "abandoned"});
    assert_eq!(a.call_rejected("workflow_update_status", abandon.clone()).await["code"], "FORBIDDEN");
    lead.call("workflow_update_status", abandon).await;
}

#[tokio::test]
async fn call_on_shared_connection_acts_as_the_holder_of_the_task() {
    let daemon = setup().start().unwrap();
    let shared = connect(&daemon, Transport::Session, None).await;
    let (one, two) = (shared.register("one").await, shared.register("two").await);
    let (_, tasks) =
        create_planned_workflow(&shared, json!([{"name": "first"}, {"name": "second"}, {"name": "third"}])).await;
    let claim = |task: &str, agent: &str| json!({"task_id": tasks[task], "agent_id": agent});
    shared.call("task_claim", claim("first", &one)).await;
    shared.call("task_claim", claim("second", &two)).await;
    shared.call("task_claim", json!({"task_id": tasks["third"]})).await;
    let authors =
        |kind: &str| -> Vec<String> { rows_of_kind(&daemon, kind).iter().map(|row| text(&row["actor"])).collect() };
    assert_eq!(
        authors("task.claimed"),
        [one.clone(), two.clone(), two.clone()],
        "a free task goes to the last registered agent"
    );
    let note = |task: &str| json!({"task_id": tasks[task], "type": "progress", "summary": "half"});
    for task in ["first", "second"] {
        shared.call("checkpoint_add", note(task)).await;
        let done = json!({"id": tasks[task], "status": "completed", "outcome": "done"});
        shared.call("task_update_status", done).await;
    }
    assert_eq!(authors("checkpoint.added"), [one.clone(), two.clone()]);
    assert_eq!(authors("task.completed"), [one.clone(), two.clone()]);
    shared.call("agent_unregister", json!({"id": two})).await;
    shared.call("task_claim", json!({"task_id": tasks["third"]})).await;
    assert_eq!(authors("task.claimed").last(), Some(&one), "the remaining agent acts");
}

#[tokio::test]
async fn registration_again_keeps_unnamed_fields() {
    let daemon = setup().start().unwrap();
    let a = connect(&daemon, Transport::Session, Some("a")).await;
    let whole = json!({"name": "Ada", "runtime": "codex", "role": "reviewer", "capabilities": ["rust", "sql"],
        "workspace_path": "/projects/a", "metadata": {"team": "core"}});
    a.call("agent_register", whole).await;
    let updates = async || daemon.get("/events?action=x.agent.updated").await.unwrap().body;
    let before = updates().await;
    a.call("agent_register", json!({"name": "Ada", "runtime": "codex"})).await;
    let shown = a.call("agent_get", json!({"id": "a"})).await;
    let kept = ["role", "capabilities", "workspace_path", "metadata"].map(|field| shown[field].clone());
    assert_eq!(kept, [json!("reviewer"), json!(["rust", "sql"]), json!("/projects/a"), json!({"team": "core"})]);
    assert_eq!(updates().await, before, "no event was appended");
    a.call("agent_register", json!({"name": "Ada", "runtime": "codex", "capabilities": [], "role": "lead"})).await;
    let shown = a.call("agent_get", json!({"id": "a"})).await;
    assert_eq!((&shown["capabilities"], &shown["workspace_path"]), (&json!([]), &json!("/projects/a")));
    assert_eq!(shown["role"], "lead", "the given role is kept");
    let leads = a.call("agent_list", json!({"role": "lead"})).await;
    assert_eq!(leads["agents"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn second_registration_in_a_session_without_credential_is_another_agent() {
    let daemon = setup().start().unwrap();
    let shared = connect(&daemon, Transport::Session, None).await;
    let first = json!({"name": "one", "runtime": "codex", "capabilities": ["rust"]});
    let one = text(&shared.call("agent_register", first).await["id"]);
    let two = shared.register("two").await;
    assert_ne!(one, two);
    let shown = shared.call("agent_get", json!({"id": one})).await;
    assert_eq!(
        (&shown["name"], &shown["capabilities"]),
        (&json!("one"), &json!(["rust"])),
        "the first agent is unchanged"
    );
    assert_eq!(shared.register("two").await, two, "the same name in the same session is the same agent");
}
