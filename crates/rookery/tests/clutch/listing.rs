//! `GET /clutch/v0/messages`: every event as an envelope, by each of the five filters, in pages.

use rookery_testkit::wait::eventually;
use rookery_testkit::websocket::LoggedMessage;
use serde_json::{Value, json};

use crate::team::{Tools, create_task, envelope, follow, get_rejected, note, ok, pages, patch_task, team, text};

fn types(messages: &[LoggedMessage]) -> Vec<&str> {
    messages.iter().map(LoggedMessage::message_type).collect()
}

#[tokio::test]
async fn events_of_every_surface_are_listed_as_messages() {
    let team = team(&["ken", "mia"]).await;
    let work = create_task(&team, "find out").await;
    patch_task(&team, &work, json!({"status": "in_progress", "agent_id": "ken"})).await;
    patch_task(&team, &work, json!({"status": "done", "agent_id": "ken", "outcome": "found"})).await;
    let (all, _) = pages(&team, "/messages?limit=1000").await;
    let places: Vec<u64> = all.iter().map(|placed| placed.seq).collect();
    assert_eq!(places, (1..=places.len() as u64).collect::<Vec<_>>(), "in order, and all of them");
    for placed in &all {
        assert_eq!(placed.message["v"], "clutch/0.1");
        for field in ["id", "ts", "thread_id", "run_id", "from", "to", "payload"] {
            assert!(!placed.message[field].is_null(), "{field} of {}", placed.message);
        }
    }
    let of_task = pages(&team, &format!("/messages?task_id={work}")).await.0;
    let shown_types = types(&of_task);
    assert_eq!((shown_types[0], shown_types[shown_types.len() - 1]), ("task.request", "task.result"));
    assert!(shown_types.contains(&"task.accept"), "{shown_types:?}");
    assert_eq!(of_task[shown_types.len() - 1].message["from"]["agent_id"], "agent:ken");
}

#[tokio::test]
async fn message_filters_select_alone_and_combined() {
    let team = team(&["ken", "mia"]).await;
    let ken = Tools::connect(&team, "ken").await;
    let (run, tasks) = ken.plan(json!([{"name": "one"}, {"name": "two"}])).await;
    let one = &tasks["one"];
    ken.call("task_claim", json!({"task_id": one})).await;
    ken.call("channel_send", json!({"message": "@mia look"})).await;
    let other = create_task(&team, "elsewhere").await;
    patch_task(&team, &other, json!({"status": "in_progress", "agent_id": "mia"})).await;
    let (all, _) = pages(&team, "/messages?limit=1000").await;
    let thread = all.iter().find(|placed| placed.message_type() == "chat.message").unwrap();
    let thread = text(&thread.message["thread_id"]);

    let all = &all;
    let expect = async |query: String, fits: &dyn Fn(&Value) -> bool| {
        let found = pages(&team, &format!("/messages?limit=7&{query}")).await.0;
        let wanted: Vec<LoggedMessage> = all.iter().filter(|placed| fits(&placed.message)).cloned().collect();
        assert!(!wanted.is_empty(), "{query} would find nothing");
        assert_eq!(found, wanted, "{query}");
    };
    expect(format!("run_id={run}"), &|m| m["run_id"] == *run).await;
    expect(format!("run_id=run:{run}"), &|m| m["run_id"] == *run).await;
    expect("run_id=run_default".to_owned(), &|m| m["run_id"] == "run_default").await;
    expect(format!("thread_id={thread}"), &|m| m["thread_id"] == *thread).await;
    expect(format!("task_id=task:{one}"), &|m| m["task_id"] == **one).await;
    expect("agent_id=mia".to_owned(), &|m| m["from"]["agent_id"] == "agent:mia").await;
    expect("agent_id=agent:ken".to_owned(), &|m| m["from"]["agent_id"] == "agent:ken").await;
    for name in ["task.request", "task.accept", "chat.message", "agent.register", "x.task.claimed", "x.run.created"] {
        expect(format!("type={name}"), &|m| m["type"] == name).await;
    }
    expect(format!("type=task.request&run_id={run}"), &|m| m["type"] == "task.request" && m["run_id"] == *run).await;
    expect(format!("agent_id=ken&task_id={one}&type=task.claimed"), &|m| {
        m["from"]["agent_id"] == "agent:ken" && m["task_id"] == **one && m["type"] == "x.task.claimed"
    })
    .await;
    for nothing in ["type=tool.call", "type=x.mine", "run_id=run_unknown", "agent_id=person:anna", "agent_id=watcher"] {
        let found = ok(&team, &format!("/messages?{nothing}")).await;
        assert_eq!((&found["messages"], &found["next"]), (&json!([]), &Value::Null), "{nothing}");
    }
}

#[tokio::test]
async fn derived_message_type_is_found_across_pages() {
    let team = team(&["ken"]).await;
    let mut cancelled = Vec::new();
    for number in 0..12 {
        let id = create_task(&team, &format!("task {number}")).await;
        if number % 3 == 0 {
            let reply = team.post(&format!("/tasks/{id}/cancel"), json!({"agent_id": "ken"})).await.unwrap();
            assert_eq!(reply.status, 200, "{}", reply.body);
            cancelled.push(id);
        }
    }
    let (found, count) = pages(&team, "/messages?type=task.cancel&limit=1").await;
    let tasks: Vec<String> = found.iter().map(|placed| text(&placed.message["task_id"])).collect();
    assert_eq!((tasks, count), (cancelled, 4));
    let by_kind = ok(&team, "/messages?type=task.cancelled").await;
    assert_eq!(by_kind["messages"], json!([]), "they are shown with the protocol's type");
}

#[tokio::test]
async fn envelopes_and_events_are_found_by_one_type_filter() {
    let team = team(&["ken"]).await;
    let mut expected = Vec::new();
    for number in 0..6 {
        // One by envelope, one by REST.
        let mut sent =
            envelope(&format!("msg_{number}"), "task.request", &format!("task_{number}"), json!({"title": "t"}));
        if number > 0 {
            sent["parent_task_id"] = json!("task_0");
        }
        let reply = team.post("/clutch/v0/messages", sent).await.unwrap();
        assert_eq!(reply.status, 202, "{}", reply.body);
        expected.push(format!("task_{number}"));
        expected.push(create_task(&team, "by REST").await);
    }
    let large = "x".repeat(200_000);
    let sent = envelope("msg_large", "x.note", "task_0", json!({"note": large}));
    let reply = team.post("/clutch/v0/messages", sent.clone()).await.unwrap();
    assert_eq!(reply.status, 202, "{}", reply.body);
    for limit in [1, 5, 100] {
        let found = pages(&team, &format!("/messages?type=task.request&limit={limit}")).await.0;
        let tasks: Vec<String> = found.iter().map(|placed| text(&placed.message["task_id"])).collect();
        assert_eq!(tasks, expected, "pages of {limit}");
    }
    let created = pages(&team, "/messages?type=task.created&limit=2").await.0;
    assert_eq!(created.len(), 6, "effects of envelopes are shown under their own kind");
    let of_run = pages(&team, "/messages?run_id=run_1&type=task.request&limit=4").await.0;
    assert_eq!(of_run.len(), 6);
    let notes = pages(&team, "/messages?type=x.note").await.0;
    assert_eq!(notes.iter().map(|placed| placed.message.clone()).collect::<Vec<_>>(), [sent]);
    let failures = eventually("the router reports the failures", || async {
        let failures = pages(&team, "/messages?agent_id=agent:orchestrator&limit=4").await.0;
        Ok((failures.len() == 6).then_some(failures))
    });
    let failures = failures.await.unwrap();
    assert!(types(&failures).iter().all(|failures| *failures == "routing.failure"), "{failures:?}");
    assert_eq!(pages(&team, "/messages?agent_id=agent:orchestrator&type=routing.failure").await.0, failures);
    assert_eq!(pages(&team, "/messages?type=routing.failure&limit=5").await.0, failures);
    assert_eq!(pages(&team, "/messages?agent_id=agent:orchestrator&type=chat.message").await.0, []);
    assert!(pages(&team, "/messages?agent_id=system").await.0.iter().all(|placed| !failures.contains(placed)));

    let tree = ok(&team, "/runs/run_1").await;
    let root = &tree["tasks"][0];
    assert_eq!((&tree["tasks"].as_array().unwrap().len(), &root["task_id"]), (&1, &json!("task_0")));
    let children: Vec<&Value> =
        root["children"].as_array().unwrap().iter().map(|child| &child["parent_task_id"]).collect();
    assert_eq!(children, vec![&json!("task_0"); 5]);
    let replayed = pages(&team, "/runs/run_1/replay?limit=3").await.0;
    let mut stream = follow(&team, "?run_id=run_1&after=0").await;
    assert_eq!(stream.take(replayed.len()).await.unwrap(), replayed);
    let mut open = follow(&team, "?after=0").await;
    let (all, _) = pages(&team, "/messages?limit=1000").await;
    assert_eq!(open.take(all.len()).await.unwrap(), all);
}

#[tokio::test]
async fn pages_of_large_envelopes_are_short_and_complete() {
    let team = team(&["ken"]).await;
    let mut expected = Vec::new();
    // Some envelopes are kept in the log, some as artifacts.
    for (number, size) in [30_000, 230_000].into_iter().cycle().take(40).enumerate() {
        let sent = envelope(&format!("msg_{number}"), "x.note", "task_0", json!({"note": "x".repeat(size)}));
        let reply = team.post("/clutch/v0/messages", sent.clone()).await.unwrap();
        assert_eq!(reply.status, 202, "{}", reply.body);
        expected.push(sent);
    }
    for path in ["/messages?type=x.note", "/messages?task_id=task_0&type=x.note"] {
        let (found, turned) = pages(&team, path).await;
        assert_eq!(found.iter().map(|placed| placed.message.clone()).collect::<Vec<_>>(), expected);
        assert!(turned > 1, "{path}: not all at once");
    }
    let all = pages(&team, "/messages?limit=1000").await.0;
    let mut open = follow(&team, "?after=0").await;
    assert_eq!(open.take(all.len()).await.unwrap(), all);
}

#[tokio::test]
async fn message_pages_have_a_limit_and_a_next_position() {
    let team = team(&["ken"]).await;
    for number in 0..230 {
        note(&team, "ken", number).await;
    }
    let first = ok(&team, "/messages").await;
    assert_eq!(first["messages"].as_array().unwrap().len(), 100, "the default");
    assert_eq!(first["next"], first["messages"][99]["seq"]);
    let (all, count) = pages(&team, "/messages?limit=50").await;
    assert_eq!(count, all.len().div_ceil(50));
    let huge = ok(&team, "/messages?limit=99999999999999999999").await;
    assert_eq!((huge["messages"].as_array().unwrap().len(), &huge["next"]), (all.len(), &Value::Null), "clamped");
    let head = team.get("/status").await.unwrap();
    let log = head.headers["x-rookery-log"].to_str().unwrap().to_owned();
    let rest = ok(&team, &format!("/messages?after={log}:{}&limit=1000", all.len() - 3)).await;
    assert_eq!(rest["messages"].as_array().unwrap().len(), 3);
    let end = ok(&team, &format!("/messages?after={}", all.len())).await;
    assert_eq!((&end["messages"], &end["next"]), (&json!([]), &Value::Null));
}

#[tokio::test]
async fn invalid_query_parameter_is_named_in_the_error() {
    let team = team(&["ken"]).await;
    let long = "x".repeat(2_000);
    for (query, parameter) in [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("after=x", "after"),
        ("after=-1", "after"),
        ("run_id=", "run_id"),
        ("thread_id=", "thread_id"),
        ("task_id=%00", "task_id"),
        (&format!("task_id={long}"), "task_id"),
        ("agent_id=", "agent_id"),
        ("agent_id=group:workers", "agent_id"),
        ("agent_id=a%20b", "agent_id"),
        ("type=", "type"),
        ("type=task.requested", "type"),
        ("type=PLAN", "type"),
        ("runid=run_1", "runid"),
        ("run_id=run_1&agent=ken", "agent"),
        ("state=dead", "state"),
    ] {
        let (status, code, details) = get_rejected(&team, &format!("/messages?{query}")).await;
        assert_eq!((status, code.as_str(), &details["parameter"]), (400, "INVALID", &json!(parameter)), "{query}");
    }
    for (call, parameter, hint) in [
        ("/agents?role=worker", "role", "this path takes no query parameters"),
        ("/agents/ken/inbox?max=1&limit=1", "limit", "this path takes wait, max, after"),
        ("/deliveries?agent=ken", "agent", "this path takes state, agent_id, after, limit"),
        ("/runs?status=failed", "status", "this path takes after, limit"),
        (
            "/stream?thread=thr_1",
            "thread",
            "this path takes run_id, thread_id, task_id, agent_id, type, after, batch, inbox, authenticate",
        ),
        ("/groups?name=a", "name", "this path takes after, limit"),
        ("/artifacts?named=true", "named", "this path takes after, limit"),
    ] {
        let (status, code, details) = get_rejected(&team, call).await;
        assert_eq!((status, code.as_str(), &details["parameter"]), (400, "INVALID", &json!(parameter)), "{call}");
        assert_eq!(details["hint"], hint, "{call}");
    }
    for gone in ["999999", "log_other:1"] {
        let (status, code, _) = get_rejected(&team, &format!("/messages?after={gone}")).await;
        assert_eq!((status, code.as_str()), (410, "POSITION_GONE"), "{gone}");
    }
}
