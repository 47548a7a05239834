//! Message types from before the protocol: accepted, and shown everywhere as the current type.

use rookery_testkit::websocket::LoggedMessage;
use serde_json::{Value, json};

use crate::sending::{envelope, send_ok, team};
use crate::team::{follow, ok, pages};

#[tokio::test]
async fn legacy_types_are_shown_with_current_types_in_every_listing() {
    let daemon = team(&["lead", "ken"]).await;
    let mut socket = follow(&daemon, "?run_id=run_old&after=0").await;
    let old = |id: &str, kind: &str, task: &str, payload: Value| {
        envelope(
            id,
            kind,
            "agent:ken",
            json!({"task_id": task, "run_id": "run_old", "thread_id": "thr_old", "payload": payload}),
        )
    };
    let plan = |id: &str, task: &str| {
        let mut plan = old(id, "PLAN", task, json!({"title": "do it"}));
        plan["to"] = json!([{"agent_id": "person:anna"}]);
        plan
    };
    let ready = async |number: usize| {
        let task = format!("t{number}");
        send_ok(&daemon, &plan(&format!("plan{number}"), &task)).await;
        send_ok(&daemon, &old(&format!("acc{number}"), "task.accept", &task, json!({}))).await;
        task
    };
    let (progress, report, review, failed) = (ready(1).await, ready(2).await, ready(3).await, ready(4).await);
    let expected = [
        ("PLAN", "task.request", plan("m0", "t0"), json!({"domain": "planning"})),
        ("PROPOSAL", "task.progress", old("m1", "PROPOSAL", &progress, json!({"text": "perhaps so"})), json!({})),
        ("EXEC_REPORT", "task.result", old("m2", "EXEC_REPORT", &report, json!({"summary": "done"})), json!({})),
        (
            "REVIEW",
            "task.result",
            old("m3", "REVIEW", &review, json!({"decision": "approve", "comments": "good", "blocking_issues": []})),
            json!({"payload_type": "review.feedback.v1"}),
        ),
        ("BLOCKER", "chat.system", old("m4", "BLOCKER", "t5", json!({"text": "stuck"})), json!({})),
        (
            "BLOCKER",
            "task.error",
            old("m5", "BLOCKER", &failed, json!({"code": "NO_NETWORK", "message": "none"})),
            json!({}),
        ),
    ];
    for (.., original, _) in &expected {
        send_ok(&daemon, original).await;
    }
    let listed = pages(&daemon, "/messages?limit=1000").await.0;
    let of_run = pages(&daemon, "/messages?run_id=run_old&limit=3").await.0;
    let of_thread = pages(&daemon, "/messages?thread_id=thr_old&limit=1000").await.0;
    let by_ken = pages(&daemon, "/messages?agent_id=ken&limit=1000").await.0;
    let replayed = pages(&daemon, "/runs/run_old/replay?limit=4").await.0;
    let streamed = socket.take(of_run.len()).await.unwrap();
    assert_eq!((&of_run, &of_run), (&streamed, &replayed));
    for (word, today, original, implied) in &expected {
        let id = original["id"].as_str().unwrap();
        let of_type = pages(&daemon, &format!("/messages?type={today}&limit=1000")).await.0;
        let of_task =
            pages(&daemon, &format!("/messages?task_id={}&limit=1000", original["task_id"].as_str().unwrap())).await.0;
        let alone =
            LoggedMessage { seq: find(&listed, id).seq, message: ok(&daemon, &format!("/messages/{id}")).await };
        for (list, shown) in [
            ("all", find(&listed, id)),
            ("of the run", find(&of_run, id)),
            ("of the thread", find(&of_thread, id)),
            ("by its sender", find(&by_ken, id)),
            ("of the task", find(&of_task, id)),
            ("of the type", find(&of_type, id)),
            ("alone", &alone),
        ] {
            let message = &shown.message;
            assert_eq!((&message["type"], &message["meta"]["legacy_type"]), (&json!(today), &json!(word)), "{list}");
            assert_eq!(message["payload"], original["payload"], "{list}");
            for (field, value) in implied.as_object().unwrap() {
                assert_eq!(message[field], *value, "{list}: {word}");
            }
        }
        let by_legacy_type = pages(&daemon, &format!("/messages?type=x.{word}&limit=10")).await.0;
        assert_eq!(by_legacy_type, []);
    }
    let body = crate::sending::rows(&daemon).into_iter().find(|row| row["fact"]["message"] == "m3").unwrap();
    assert_eq!(body["fact"]["type"], "task.result", "the event has the current type too");
}

fn find<'a>(list: &'a [LoggedMessage], id: &str) -> &'a LoggedMessage {
    let mut found = list.iter().filter(|placed| placed.message["id"] == id);
    let first = found.next().unwrap_or_else(|| panic!("{id} is not listed"));
    assert!(found.next().is_none(), "{id} is listed twice");
    first
}
