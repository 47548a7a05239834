//! Tool calls: every allowlist is enforced, and a call of a missing tool is answered once.

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, read};
use serde_json::{Value, json};

use crate::sending::{count_incoming, envelope, post, send_ok, team};
use crate::team::{follow, ok};

async fn put_card(daemon: &Daemon, agent: &str, security: Value) {
    let card = json!({"v": "clutch/0.1", "agent_id": agent, "security": security});
    let request = daemon.request(Method::PUT, &format!("/clutch/v0/agents/{agent}")).json(&card);
    assert_eq!(read(request).await.unwrap().status, 200);
}

fn tool_call(id: &str, to: &str, more: Value) -> Value {
    let mut call = envelope(id, "tool.call", "agent:ken", more);
    call["to"] = json!([{"agent_id": to}]);
    call["payload"] = json!({"tool": "mcp:browser", "args": {"url": "https://example.org"}});
    call
}

/// The answers to a call.
async fn errors_for(daemon: &Daemon, call: &str) -> Vec<Value> {
    let shown = ok(daemon, "/messages?type=tool.error").await;
    let messages = shown["messages"].as_array().unwrap().iter().map(|placed| placed["message"].clone());
    messages.filter(|message| message["meta"]["in_reply_to"] == call).collect()
}

#[tokio::test]
async fn call_of_unserved_tool_is_answered_once() {
    let mut daemon = team(&["lead", "ken"]).await;
    let mut socket = follow(&daemon, "?type=tool.error&after=0").await;
    let trace = json!({"trace_id": "tr_9", "span_id": "sp_9"});
    let request = tool_call("c1", "mcp:browser", json!({"trace": trace, "idempotency_key": "once"}));
    let first = send_ok(&daemon, &request).await;
    assert_eq!(first["duplicate"], false);
    let errors = errors_for(&daemon, "c1").await;
    assert_eq!(errors.len(), 1);
    let answer = &errors[0];
    assert_eq!((&answer["type"], &answer["from"]["agent_id"]), (&json!("tool.error"), &json!("agent:orchestrator")));
    assert_eq!((&answer["to"], &answer["trace"]), (&json!([{"agent_id": "agent:ken"}]), &trace));
    for field in ["run_id", "thread_id", "task_id"] {
        assert_eq!(answer[field], request[field], "{field}");
    }
    let payload = json!({"code": "TOOL_UNAVAILABLE", "message": "nothing here serves mcp:browser", "retryable": true,
                         "details": {"tool": "mcp:browser", "call_id": "c1"}});
    assert_eq!(answer["payload"], payload);
    assert_eq!(ok(&daemon, &format!("/messages/{}", answer["id"].as_str().unwrap())).await, *answer);
    assert_eq!(socket.take(1).await.unwrap()[0].message, *answer);
    let by_ken = ok(&daemon, "/messages?agent_id=ken&type=tool.error").await;
    assert_eq!(by_ken["messages"], json!([]), "the answer is not from ken");
    let by_router = ok(&daemon, "/messages?agent_id=agent:orchestrator&type=tool.error").await;
    assert_eq!(by_router["messages"].as_array().unwrap().len(), 1);

    assert_eq!(send_ok(&daemon, &request).await["duplicate"], true);
    let mut renamed = request.clone();
    renamed["id"] = json!("c1-again");
    assert_eq!(send_ok(&daemon, &renamed).await["duplicate"], true, "by its key");
    daemon.kill().unwrap();
    daemon.restart().unwrap();
    assert_eq!(send_ok(&daemon, &request).await["duplicate"], true);
    assert_eq!(errors_for(&daemon, "c1").await.len(), 1);
    let batch = json!([
        tool_call("c2", "mcp:browser", json!({})),
        envelope("n", "x.note", "agent:ken", json!({})),
        tool_call("c3", "agent:orchestrator", json!({}))
    ]);
    let reply = post(&daemon, &batch).await;
    assert_eq!(reply.status, 202, "{}", reply.body);
    let ids: Vec<&Value> = reply.body["results"].as_array().unwrap().iter().map(|result| &result["id"]).collect();
    assert_eq!(ids, ["c2", "n", "c3"], "the results list only the sent envelopes");
    assert_eq!((errors_for(&daemon, "c2").await.len(), errors_for(&daemon, "c3").await.len()), (1, 1));
    daemon.replay_verify().unwrap();
}

#[tokio::test]
async fn tool_call_outside_an_allowlist_is_denied() {
    let daemon = team(&["lead", "smith"]).await;
    let (has, lacks) = (json!(["mcp:browser"]), json!(["mcp:files"]));
    put_card(&daemon, "ken", json!({})).await;
    let under = |id: &str, list: &Value| {
        let policy = json!({"policy": {"tool_allowlist": list}});
        envelope(
            id,
            "task.request",
            "agent:lead",
            json!({"task_id": id, "to": [{"agent_id": "person:anna"}], "security": policy}),
        )
    };
    send_ok(&daemon, &under("wide", &has)).await;
    send_ok(&daemon, &under("narrow", &lacks)).await;
    send_ok(&daemon, &under("open", &has)).await;
    let message = |list: &Value| json!({"policy": {"tool_allowlist": list}});
    for (number, (card, policy, task, by)) in [
        (&has, &has, "wide", None),
        (&lacks, &has, "wide", Some("card")),
        (&has, &lacks, "wide", Some("message")),
        (&has, &has, "narrow", Some("task")),
        (&has, &json!([]), "wide", Some("message")),
        // From here on ken holds the narrow task, and calls name other tasks.
        (&has, &has, "ghost", Some("held_task")),
        (&has, &has, "open", Some("held_task")),
        (&has, &has, "wide", None),
    ]
    .into_iter()
    .enumerate()
    {
        if number == 5 {
            send_ok(&daemon, &envelope("a1", "task.accept", "agent:ken", json!({"task_id": "narrow"}))).await;
        }
        if number == 7 {
            send_ok(&daemon, &envelope("a2", "task.accept", "agent:ken", json!({"task_id": "wide"}))).await;
        }
        put_card(&daemon, "ken", json!({"tool_allowlist": card})).await;
        let id = format!("c{number}");
        let before = count_incoming(&daemon);
        send_ok(&daemon, &tool_call(&id, "agent:smith", json!({"task_id": task, "security": message(policy)}))).await;
        let errors = errors_for(&daemon, &id).await;
        let codes: Vec<_> = errors
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
            None => assert_eq!((codes.len(), count_incoming(&daemon)), (0, before + 1), "{number}"),
        }
        let row = crate::sending::rows(&daemon).into_iter().find(|row| row["fact"]["message"] == id).unwrap();
        let reached = if by.is_some() { json!(null) } else { json!(["smith"]) };
        assert_eq!(
            row["fact"].get("delivered").cloned().unwrap_or_default(),
            reached,
            "a denied call is not delivered"
        );
    }
    daemon.replay_verify().unwrap();
}
