//! Silent agents: declared offline with evidence, freed of what they held, taken back when they return.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Sse, Team, assert_reply, eventually, setup, team_of, text};

async fn send_heartbeat(team: &Team, agent: &str) {
    let reply = team.send(Method::POST, &format!("/agents/{agent}/heartbeat"), &[], None).await;
    assert_reply(&reply, 200, json!({"ok": true}));
}

/// A daemon that expects a heartbeat every second; its limit for agents seen only by calls stays long.
fn short_heartbeat_setup() -> rookery_testkit::daemon::Setup {
    setup().arg("--no-watch").env("ROOKERY_OFFLINE_AFTER", "1s")
}

/// The next event by which an agent went offline.
async fn next_offline(stream: &mut Sse, agent: &str) -> Value {
    loop {
        let event = stream.next_of("agent.status_changed").await.event;
        if event["agent_id"] == agent && event["metadata"].get("evidence").is_some() {
            return event;
        }
    }
}

#[tokio::test]
async fn heartbeat_timeout_declares_agent_offline_with_evidence() {
    let team = team_of(short_heartbeat_setup(), &["a", "b", "silent"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let held = team.create_task().await;
    team.move_task(&held, "in_progress", "a").await;
    let kept = text(&team.create_task_with(json!({"assigned_to": "a"})).await["id"]);
    team.claim("x", "a").await;
    send_heartbeat(&team, "a").await;
    let seen = team.ok("/agents/a").await["last_heartbeat"].clone();
    let event = next_offline(&mut stream, "a").await;
    let evidence = &event["metadata"]["evidence"];
    assert_eq!((&evidence["source"], &evidence["limit_millis"]), (&json!("heartbeat"), &json!(1000)));
    assert_eq!(evidence["last_seen"], seen);
    assert_eq!(event["metadata"]["lost"]["tasks"], json!([held]));
    let agent = team.ok("/agents/a").await;
    assert_eq!((&agent["status"], &agent["current_task"]), (&json!("offline"), &Value::Null));
    for task in [&held, &kept] {
        let task = team.ok(&format!("/tasks/{task}")).await;
        assert_eq!((&task["status"], &task["assigned_to"]), (&json!("queued"), &Value::Null));
    }
    assert_eq!(team.resource("x").await["state"], "free");
    // The lead is replaced. An agent that never sent a heartbeat is not expected to send any.
    assert_eq!(team.lead().await, "b");
    assert_eq!(team.ok("/agents/silent").await["status"], "idle");
    assert_eq!(team.ok("/status").await["agents"], json!({"total": 3, "active": 2, "lead": "b"}));
    let actions = team.actions().await;
    assert!(
        actions.contains(&"x.checkpoint.added".to_owned()),
        "the work in progress is kept as a checkpoint: {actions:?}"
    );
    team.move_task(&held, "in_progress", "b").await;
}

#[tokio::test]
async fn any_call_prevents_the_heartbeat_timeout() {
    let team = team_of(short_heartbeat_setup(), &["lead", "a", "watch"]).await;
    send_heartbeat(&team, "a").await;
    send_heartbeat(&team, "watch").await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    // Calls of any kind by `a` until the other agent has been declared offline.
    let calling = eventually("the silent agent is offline", async || {
        team.send(Method::GET, "/status", &[("x-agent-id", "a")], None).await;
        None::<()>
    });
    tokio::select! {
        _ = next_offline(&mut stream, "watch") => {}
        () = calling => {}
    }
    assert_eq!(team.ok("/agents/a").await["status"], "idle");
}

#[tokio::test]
async fn agent_seen_only_by_calls_has_its_own_offline_timeout() {
    let team = team_of(setup().arg("--no-watch").env("ROOKERY_CALL_ONLY_OFFLINE_AFTER", "1s"), &[]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    team.announce("a", "worker").await;
    team.announce("beats", "worker").await;
    send_heartbeat(&team, "beats").await;
    let event = next_offline(&mut stream, "a").await;
    let evidence = &event["metadata"]["evidence"];
    assert_eq!((&evidence["source"], &evidence["limit_millis"]), (&json!("call"), &json!(1000)));
    assert_eq!(team.ok("/agents/beats").await["status"], "idle");
    assert_eq!(team.lead().await, "beats");
}

#[tokio::test]
async fn open_stream_keeps_agent_online_and_closed_stream_does_not() {
    let limits = setup().arg("--no-watch").env("ROOKERY_CONNECTION_OFFLINE_AFTER", "1s");
    let team = team_of(limits, &["lead", "stays", "goes"]).await;
    let mut log = Sse::open(&team, "/events/stream", None).await;
    let open = Sse::open_with(&team, "/events/stream?action=x.never", &[("x-agent-id", "stays")]).await;
    for _ in 0..2 {
        drop(Sse::open_with(&team, "/events/stream", &[("x-agent-id", "goes")]).await);
        let event = next_offline(&mut log, "goes").await;
        assert_eq!(event["metadata"]["evidence"]["source"], "connection");
        assert_eq!(team.ok("/agents/stays").await["status"], "idle");
        send_heartbeat(&team, "goes").await;
    }
    drop(open);
}

#[tokio::test]
async fn returning_agent_regains_only_unclaimed_work() {
    let team = team_of(short_heartbeat_setup(), &["other", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let (taken, free) = (team.create_task().await, team.create_task().await);
    team.move_task(&taken, "in_progress", "a").await;
    team.move_task(&free, "in_progress", "a").await;
    team.claim("taken", "a").await;
    team.claim("free", "a").await;
    send_heartbeat(&team, "a").await;
    next_offline(&mut stream, "a").await;
    team.move_task(&taken, "in_progress", "other").await;
    team.claim("taken", "other").await;
    send_heartbeat(&team, "a").await;
    assert_eq!(stream.next_of("agent.heartbeat").await.event["agent_id"], "a");
    for (task, holder) in [(&taken, "other"), (&free, "a")] {
        assert_eq!(team.ok(&format!("/tasks/{task}")).await["assigned_to"], holder);
    }
    for (path, owner) in [("taken", "other"), ("free", "a")] {
        assert_eq!(team.resource(path).await["owner"], owner, "{path}");
    }
}

#[tokio::test]
async fn call_of_offline_agent_brings_it_back() {
    let team = team_of(short_heartbeat_setup(), &["lead", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    send_heartbeat(&team, "a").await;
    next_offline(&mut stream, "a").await;
    team.claim("x", "a").await;
    assert_ne!(team.ok("/agents/a").await["status"], "offline");
    assert_eq!(team.events("agent.heartbeat").await.len(), 1);
}

#[tokio::test]
async fn read_by_agent_brings_it_back_and_call_on_its_behalf_does_not() {
    let team = team_of(short_heartbeat_setup(), &["lead", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    send_heartbeat(&team, "a").await;
    next_offline(&mut stream, "a").await;
    let key = format!("Bearer {}", team.person_key().unwrap());
    let spoken = [("authorization", key.as_str()), ("x-agent-id", "a")];
    assert_eq!(team.send(Method::GET, "/tasks", &spoken, None).await.status, 200);
    assert_eq!(team.ok("/agents/a").await["status"], "offline");
    assert_eq!(team.send(Method::GET, "/tasks", &[("x-agent-id", "a")], None).await.status, 200);
    assert_eq!(team.ok("/agents/a").await["status"], "idle");
}

#[tokio::test]
async fn outdated_fence_of_returning_agent_is_rejected() {
    let team = team_of(short_heartbeat_setup(), &["other", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let task = team.create_task().await;
    let granted = team.try_move_task(&task, "in_progress", "a").await;
    let fence = granted.headers["x-fence"].to_str().unwrap().to_owned();
    send_heartbeat(&team, "a").await;
    next_offline(&mut stream, "a").await;
    let done = Some(json!({"status": "done", "agent_id": "a"}));
    // The agent returns by this call and holds the task again, with another fence.
    let late = team.send(Method::PATCH, &format!("/tasks/{task}"), &[("x-fence", &fence)], done).await;
    assert_eq!((late.status.as_u16(), &late.body["code"]), (409, &json!("STALE_FENCE")), "{}", late.body);
}

#[tokio::test]
async fn daemon_shutdown_expires_no_agent() {
    let mut team = team_of(setup().arg("--no-watch").env("ROOKERY_OFFLINE_AFTER", "2s"), &["a"]).await;
    team.claim("x", "a").await;
    send_heartbeat(&team, "a").await;
    let seen = team.ok("/agents/a").await["last_heartbeat"].as_i64().unwrap();
    assert_eq!(team.stop().unwrap(), Some(0));
    // Until the limit has passed: during that time no agent could reach the daemon.
    eventually("the limit has passed", || async { (now() > seen + 2_000).then_some(()) }).await;
    team.restart().unwrap();
    let started = now();
    let agent = team.ok("/agents/a").await;
    assert_eq!((&agent["status"], &agent["last_heartbeat"]), (&json!("idle"), &json!(seen)));
    let mut stream = Sse::open(&team, "/events/stream?after=0", None).await;
    let event = next_offline(&mut stream, "a").await;
    let waited = event["timestamp"].as_i64().unwrap() - started;
    assert!(waited > 1_000, "its limit starts again with the daemon, not after {waited} ms");
    assert_eq!(event["metadata"]["evidence"]["last_seen"], json!(seen));
}

#[tokio::test]
async fn daemon_crash_expires_no_agent() {
    let mut team = team_of(short_heartbeat_setup(), &["a", "other"]).await;
    team.claim("x", "a").await;
    send_heartbeat(&team, "a").await;
    let killed = now();
    team.kill().unwrap();
    eventually("the limit has passed", || async { (now() > killed + 1_000).then_some(()) }).await;
    team.restart().unwrap();
    assert_eq!(team.ok("/agents/a").await["status"], "idle");
    assert_eq!(team.resource("x").await["owner"], "a");
    assert_eq!(team.lead().await, "a");
}

fn now() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}
