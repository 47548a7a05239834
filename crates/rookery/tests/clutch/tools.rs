//! Calls of tools: every allowlist holds, and whoever calls what is not there is told so, once.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use serde_json::{Value, json};

use crate::sending::{came_in, envelope, post, sent, team};
use crate::team::{follow, ok};

async fn put(daemon: &Daemon, agent: &str, security: Value) {
    let card = json!({"v": "clutch/0.1", "agent_id": agent, "security": security});
    let request = daemon.request(Method::PUT, &format!("/clutch/v0/agents/{agent}")).json(&card);
    assert_eq!(read(request).await.unwrap().status, 200);
}

fn call(id: &str, to: &str, more: Value) -> Value {
    let mut call = envelope(id, "tool.call", "agent:ken", more);
    call["to"] = json!([{"agent_id": to}]);
    call["payload"] = json!({"tool": "mcp:browser", "args": {"url": "https://example.org"}});
    call
}

/// The answers to a call.
async fn answers(daemon: &Daemon, call: &str) -> Vec<Value> {
    let shown = ok(daemon, "/messages?type=tool.error").await;
    let messages = shown["messages"].as_array().unwrap().iter().map(|placed| placed["message"].clone());
    messages.filter(|message| message["meta"]["in_reply_to"] == call).collect()
}

#[tokio::test]
async fn a_call_that_nothing_serves_is_answered_once() {
    let mut daemon = team(&["lead", "ken"]).await;
    let mut socket = follow(&daemon, "?type=tool.error&after=0").await;
    let trace = json!({"trace_id": "tr_9", "span_id": "sp_9"});
    let said = call("c1", "mcp:browser", json!({"trace": trace, "idempotency_key": "once"}));
    let first = sent(&daemon, &said).await;
    assert_eq!(first["duplicate"], false);
    let told = answers(&daemon, "c1").await;
    assert_eq!(told.len(), 1);
    let answer = &told[0];
    assert_eq!((&answer["type"], &answer["from"]["agent_id"]), (&json!("tool.error"), &json!("agent:orchestrator")));
    assert_eq!((&answer["to"], &answer["trace"]), (&json!([{"agent_id": "agent:ken"}]), &trace));
    for field in ["run_id", "thread_id", "task_id"] {
        assert_eq!(answer[field], said[field], "{field}");
    }
    let payload = json!({"code": "TOOL_UNAVAILABLE", "message": "nothing here serves mcp:browser", "retryable": true,
                         "details": {"tool": "mcp:browser", "call_id": "c1"}});
    assert_eq!(answer["payload"], payload);
    assert_eq!(ok(&daemon, &format!("/messages/{}", answer["id"].as_str().unwrap())).await, *answer);
    assert_eq!(socket.take(1).await.unwrap()[0].message, *answer);
    let by_ken = ok(&daemon, "/messages?agent_id=ken&type=tool.error").await;
    assert_eq!(by_ken["messages"], json!([]), "the daemon says it, not ken");
    let by_router = ok(&daemon, "/messages?agent_id=agent:orchestrator&type=tool.error").await;
    assert_eq!(by_router["messages"].as_array().unwrap().len(), 1);

    assert_eq!(sent(&daemon, &said).await["duplicate"], true);
    let mut renamed = said.clone();
    renamed["id"] = json!("c1-again");
    assert_eq!(sent(&daemon, &renamed).await["duplicate"], true, "by its key");
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    assert_eq!(sent(&daemon, &said).await["duplicate"], true);
    assert_eq!(answers(&daemon, "c1").await.len(), 1);
    let batch = json!([
        call("c2", "mcp:browser", json!({})),
        envelope("n", "x.note", "agent:ken", json!({})),
        call("c3", "agent:orchestrator", json!({}))
    ]);
    let reply = post(&daemon, &batch).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let ids: Vec<&Value> = reply.body["results"].as_array().unwrap().iter().map(|result| &result["id"]).collect();
    assert_eq!(ids, ["c2", "n", "c3"], "what the daemon answers is not among what was sent");
    assert_eq!((answers(&daemon, "c2").await.len(), answers(&daemon, "c3").await.len()), (1, 1));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn no_call_gets_past_an_allowlist() {
    let daemon = team(&["lead", "smith"]).await;
    let (has, lacks) = (json!(["mcp:browser"]), json!(["mcp:files"]));
    put(&daemon, "ken", json!({})).await;
    let under = |id: &str, list: &Value| {
        let policy = json!({"policy": {"tool_allowlist": list}});
        envelope(
            id,
            "task.request",
            "agent:lead",
            json!({"task_id": id, "to": [{"agent_id": "person:anna"}], "security": policy}),
        )
    };
    sent(&daemon, &under("wide", &has)).await;
    sent(&daemon, &under("narrow", &lacks)).await;
    sent(&daemon, &under("open", &has)).await;
    let message = |list: &Value| json!({"policy": {"tool_allowlist": list}});
    for (number, (card, policy, task, by)) in [
        (&has, &has, "wide", None),
        (&lacks, &has, "wide", Some("card")),
        (&has, &lacks, "wide", Some("message")),
        (&has, &has, "narrow", Some("task")),
        (&has, &json!([]), "wide", Some("message")),
        // From here on ken has the narrow one, and names others.
        (&has, &has, "ghost", Some("held_task")),
        (&has, &has, "open", Some("held_task")),
        (&has, &has, "wide", None),
    ]
    .into_iter()
    .enumerate()
    {
        if number == 5 {
            sent(&daemon, &envelope("a1", "task.accept", "agent:ken", json!({"task_id": "narrow"}))).await;
        }
        if number == 7 {
            sent(&daemon, &envelope("a2", "task.accept", "agent:ken", json!({"task_id": "wide"}))).await;
        }
        put(&daemon, "ken", json!({"tool_allowlist": card})).await;
        let id = format!("c{number}");
        let before = came_in(&daemon);
        sent(&daemon, &call(&id, "agent:smith", json!({"task_id": task, "security": message(policy)}))).await;
        let told = answers(&daemon, &id).await;
        let codes: Vec<_> = told
            .iter()
            .map(|answer| (&answer["payload"]["code"], &answer["payload"]["details"]["allowlist"]))
            .collect();
        let pending = daemon.get("/clutch/v0/messages?agent_id=ken&type=tool.call&limit=1000").await.unwrap().body;
        assert!(
            pending["messages"].as_array().unwrap().iter().any(|placed| placed["message"]["id"] == id),
            "it is in the log"
        );
        match by {
            Some(by) => assert_eq!(codes, [(&json!("TOOL_NOT_ALLOWED"), &json!(by))], "{number}"),
            None => assert_eq!((codes.len(), came_in(&daemon)), (0, before + 1), "{number}"),
        }
        let row = crate::sending::rows(&daemon).into_iter().find(|row| row["fact"]["message"] == id).unwrap();
        let reached = if by.is_some() { json!(null) } else { json!(["smith"]) };
        assert_eq!(
            row["fact"].get("delivered").cloned().unwrap_or_default(),
            reached,
            "nobody gets what is not allowed"
        );
    }
    daemon.replay_verify().unwrap();
}
