//! Restarts of the daemon between and during calls, with many clients at work.

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use rookery_testkit::daemon::{Daemon, read};
use rookery_testkit::event_log::{check_single_holder, read_log};
use serde_json::{Value, json};

use crate::support::{Client, Transport, connect, create_task, rows_of_kind, setup, text};

const BRIDGES: usize = 6;
const TASKS: usize = 10;
const RESTARTS: usize = 3;

/// Claims and completes tasks one after the other.
async fn complete_tasks(client: &Client, agent: &str, tasks: &[String]) {
    for task in tasks {
        let claim = client.call("task_claim", json!({"task_id": task})).await;
        assert_eq!(claim["success"], true, "{agent}: {claim}");
        client.call("task_update_status", json!({"id": task, "status": "in_progress"})).await;
        let done = json!({"id": task, "status": "completed", "outcome": "done"});
        client.call("task_update_status", done).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_under_many_bridges_lose_and_duplicate_nothing() {
    let mut daemon = setup().start().unwrap();
    let mut agents = Vec::new();
    for number in 0..BRIDGES {
        let (name, transport) =
            (format!("agent-{number}"), if number % 2 == 0 { Transport::Bridge } else { Transport::StatelessBridge });
        let client = connect(&daemon, transport, Some(&name)).await;
        client.register(&name).await;
        let mut tasks = Vec::new();
        for _ in 0..TASKS {
            tasks.push(create_task(&daemon, None).await);
        }
        agents.push((client, name, tasks));
    }
    let work = join_all(agents.iter().map(|(client, name, tasks)| complete_tasks(client, name, tasks)));
    let restarts = async {
        for number in 1..=RESTARTS {
            // Each restart happens during their work.
            while count_completed(&daemon) < number * BRIDGES * TASKS / (RESTARTS + 2) {
                tokio::task::yield_now().await;
            }
            tokio::task::block_in_place(|| daemon.restart()).unwrap();
        }
    };
    tokio::join!(work, restarts);
    for kind in ["task.claimed", "task.started", "task.completed"] {
        assert_eq!(rows_of_kind(&daemon, kind).len(), BRIDGES * TASKS, "{kind}");
    }
    check_single_holder(&read_log(&daemon).await.unwrap()).unwrap();
    daemon.replay_verify().unwrap();
}

/// The number of completed tasks in the log, which is read beside the daemon.
fn count_completed(daemon: &Daemon) -> usize {
    tokio::task::block_in_place(|| rows_of_kind(daemon, "task.completed").len())
}

async fn post(daemon: &Daemon, session: Option<&str>, body: Value) -> rookery_testkit::daemon::HttpReply {
    let mut request = daemon.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    read(request.header("x-agent-id", "a").json(&body)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_ended_by_a_restart_is_not_found_and_a_new_one_works() {
    let mut daemon = setup().start().unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let session = post(&daemon, None, hello).await.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let client = connect(&daemon, Transport::Session, Some("a")).await;
    client.register("a").await;
    let task = create_task(&daemon, None).await;
    client.call("task_claim", json!({"task_id": task})).await;
    tokio::task::block_in_place(|| daemon.restart()).unwrap();
    // 404 tells a client to start a new session.
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    assert_eq!(post(&daemon, Some(&session), list).await.status, StatusCode::NOT_FOUND);
    let reconnected = connect(&daemon, Transport::Session, Some("a")).await;
    let held = reconnected.call("task_get", json!({"id": task})).await;
    assert_eq!(text(&held["assigned_agent_id"]), "a");
    assert_eq!(reconnected.call("task_claim", json!({"task_id": task})).await["success"], true);
    assert_eq!(rows_of_kind(&daemon, "task.claimed").len(), 1);
}
