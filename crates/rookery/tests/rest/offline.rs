//! Agents that fall silent: declared offline with evidence, freed of what they held, and taken back when they return.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Sse, Team, assert_reply, eventually, setup, team_of, text};

async fn beat(team: &Team, agent: &str) {
    let reply = team.send(Method::POST, &format!("/agents/{agent}/heartbeat"), &[], None).await;
    assert_reply(&reply, 200, json!({"ok": true}));
}

/// Heartbeats are expected every second; agents seen only by calls have all the time in the world.
fn strict() -> rookery_testkit::daemon::Setup {
    setup().arg("--no-watch").env("ROOKERY_OFFLINE_AFTER", "1s")
}

/// The event that says that an agent went offline.
async fn offline(stream: &mut Sse, agent: &str) -> Value {
    loop {
        let event = stream.next_of("agent.status_changed").await.event;
        if event["agent_id"] == agent && event["metadata"].get("evidence").is_some() {
            return event;
        }
    }
}

#[tokio::test]
async fn one_that_sends_heartbeats_no_more_is_declared_offline_with_evidence() {
    let team = team_of(strict(), &["a", "b", "silent"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let held = team.task().await;
    team.moved(&held, "in_progress", "a").await;
    let kept = text(&team.task_with(json!({"assigned_to": "a"})).await["id"]);
    team.claimed("x", "a").await;
    beat(&team, "a").await;
    let seen = team.ok("/agents/a").await["last_heartbeat"].clone();
    let event = offline(&mut stream, "a").await;
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
    // The lead is replaced; one that never sent a heartbeat is not expected to.
    assert_eq!(team.lead().await, "b");
    assert_eq!(team.ok("/agents/silent").await["status"], "idle");
    assert_eq!(team.ok("/status").await["agents"], json!({"total": 3, "active": 2, "lead": "b"}));
    let actions = team.actions().await;
    assert!(actions.contains(&"x.checkpoint.added".to_owned()), "what was going on is kept: {actions:?}");
    team.moved(&held, "in_progress", "b").await;
}

#[tokio::test]
async fn signs_of_life_of_any_kind_keep_an_agent() {
    let team = team_of(strict(), &["lead", "a", "watch"]).await;
    beat(&team, "a").await;
    beat(&team, "watch").await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    // Calls of any kind by `a` until somebody else has been declared.
    let calling = eventually("the silent one is declared", async || {
        team.send(Method::GET, "/status", &[("x-agent-id", "a")], None).await;
        None::<()>
    });
    tokio::select! {
        _ = offline(&mut stream, "watch") => {}
        () = calling => {}
    }
    assert_eq!(team.ok("/agents/a").await["status"], "idle");
}

#[tokio::test]
async fn one_seen_only_by_calls_has_a_limit_of_its_own() {
    let team = team_of(setup().arg("--no-watch").env("ROOKERY_CALL_ONLY_OFFLINE_AFTER", "1s"), &[]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    team.announce("a", "worker").await;
    team.announce("beats", "worker").await;
    beat(&team, "beats").await;
    let event = offline(&mut stream, "a").await;
    let evidence = &event["metadata"]["evidence"];
    assert_eq!((&evidence["source"], &evidence["limit_millis"]), (&json!("call"), &json!(1000)));
    assert_eq!(team.ok("/agents/beats").await["status"], "idle");
    assert_eq!(team.lead().await, "beats");
}

#[tokio::test]
async fn an_open_stream_keeps_its_agent_and_a_closed_one_does_not() {
    let limits = setup().arg("--no-watch").env("ROOKERY_CONNECTION_OFFLINE_AFTER", "1s");
    let team = team_of(limits, &["lead", "stays", "goes"]).await;
    let mut log = Sse::open(&team, "/events/stream", None).await;
    let _open = Sse::open_with(&team, "/events/stream?action=x.never", &[("x-agent-id", "stays")]).await;
    for _ in 0..2 {
        drop(Sse::open_with(&team, "/events/stream", &[("x-agent-id", "goes")]).await);
        let event = offline(&mut log, "goes").await;
        assert_eq!(event["metadata"]["evidence"]["source"], "connection");
        assert_eq!(team.ok("/agents/stays").await["status"], "idle");
        beat(&team, "goes").await;
    }
}

#[tokio::test]
async fn one_that_comes_back_gets_what_nobody_took() {
    let team = team_of(strict(), &["other", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let (taken, free) = (team.task().await, team.task().await);
    team.moved(&taken, "in_progress", "a").await;
    team.moved(&free, "in_progress", "a").await;
    team.claimed("taken", "a").await;
    team.claimed("free", "a").await;
    beat(&team, "a").await;
    offline(&mut stream, "a").await;
    team.moved(&taken, "in_progress", "other").await;
    team.claimed("taken", "other").await;
    beat(&team, "a").await;
    assert_eq!(stream.next_of("agent.heartbeat").await.event["agent_id"], "a");
    for (task, holder) in [(&taken, "other"), (&free, "a")] {
        assert_eq!(team.ok(&format!("/tasks/{task}")).await["assigned_to"], holder);
    }
    for (path, owner) in [("taken", "other"), ("free", "a")] {
        assert_eq!(team.resource(path).await["owner"], owner, "{path}");
    }
}

#[tokio::test]
async fn any_call_brings_an_agent_back() {
    let team = team_of(strict(), &["lead", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    beat(&team, "a").await;
    offline(&mut stream, "a").await;
    team.claimed("x", "a").await;
    assert_ne!(team.ok("/agents/a").await["status"], "offline");
    assert_eq!(team.events("agent.heartbeat").await.len(), 1);
}

#[tokio::test]
async fn reading_brings_an_agent_back_and_speaking_for_it_does_not() {
    let team = team_of(strict(), &["lead", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    beat(&team, "a").await;
    offline(&mut stream, "a").await;
    let key = format!("Bearer {}", team.person_key().unwrap());
    let spoken = [("authorization", key.as_str()), ("x-agent-id", "a")];
    assert_eq!(team.send(Method::GET, "/tasks", &spoken, None).await.status, 200);
    assert_eq!(team.ok("/agents/a").await["status"], "offline");
    assert_eq!(team.send(Method::GET, "/tasks", &[("x-agent-id", "a")], None).await.status, 200);
    assert_eq!(team.ok("/agents/a").await["status"], "idle");
}

#[tokio::test]
async fn a_zombies_fence_is_refused_after_it_was_replaced() {
    let team = team_of(strict(), &["other", "a"]).await;
    let mut stream = Sse::open(&team, "/events/stream", None).await;
    let task = team.task().await;
    let granted = team.move_task(&task, "in_progress", "a").await;
    let fence = granted.headers["x-fence"].to_str().unwrap().to_owned();
    beat(&team, "a").await;
    offline(&mut stream, "a").await;
    let done = Some(json!({"status": "done", "agent_id": "a"}));
    // It comes back by this call and holds the task again, by another grant.
    let late = team.send(Method::PATCH, &format!("/tasks/{task}"), &[("x-fence", &fence)], done).await;
    assert_eq!((late.status.as_u16(), &late.body["code"]), (409, &json!("STALE_FENCE")), "{}", late.body);
}

#[tokio::test]
async fn our_own_absence_expires_nobody() {
    let mut team = team_of(setup().arg("--no-watch").env("ROOKERY_OFFLINE_AFTER", "2s"), &["a"]).await;
    team.claimed("x", "a").await;
    beat(&team, "a").await;
    let seen = team.ok("/agents/a").await["last_heartbeat"].as_i64().unwrap();
    assert_eq!(team.stop().unwrap(), Some(0));
    // Until the limit is over: for that time nobody could have shown a sign of life.
    eventually("the limit is over", || async { (now() > seen + 2_000).then_some(()) }).await;
    team.restart().unwrap();
    let started = now();
    let agent = team.ok("/agents/a").await;
    assert_eq!((&agent["status"], &agent["last_heartbeat"]), (&json!("idle"), &json!(seen)));
    let mut stream = Sse::open(&team, "/events/stream?after=0", None).await;
    let event = offline(&mut stream, "a").await;
    let waited = event["timestamp"].as_i64().unwrap() - started;
    assert!(waited > 1_000, "it had a period of its own after the start, not {waited} ms");
    assert_eq!(event["metadata"]["evidence"]["last_seen"], json!(seen));
}

#[tokio::test]
async fn a_crash_of_ours_expires_nobody() {
    let mut team = team_of(strict(), &["a", "other"]).await;
    team.claimed("x", "a").await;
    beat(&team, "a").await;
    let killed = now();
    team.kill().unwrap();
    eventually("the limit is over", || async { (now() > killed + 1_000).then_some(()) }).await;
    team.restart().unwrap();
    assert_eq!(team.ok("/agents/a").await["status"], "idle");
    assert_eq!(team.resource("x").await["owner"], "a");
    assert_eq!(team.lead().await, "a");
}

fn now() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}
