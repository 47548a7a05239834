//! `rookery mcp`: behaviour of the bridge alone.

use futures_util::future::join_all;
use rmcp::model::SubscribeRequestParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{
    DEADLINE, Transport, connect, create_task, export_log, inbox_uri, rows_of_kind, setup, start_bridge,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_restart_loses_no_bridge_call() {
    let mut daemon = setup().start().unwrap();
    for transport in [Transport::Bridge, Transport::StatelessBridge] {
        let client = connect(&daemon, transport, None).await;
        let id = client.register(&format!("{transport:?}")).await;
        let before = rows_of_kind(&daemon, "task.claimed").len();
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(create_task(&daemon, None).await);
        }
        let claims = join_all(tasks.iter().map(|task| client.call("task_claim", json!({"task_id": task}))));
        let restart = async {
            tokio::task::yield_now().await;
            tokio::task::block_in_place(|| daemon.restart()).unwrap();
        };
        let (answers, ()) = tokio::join!(claims, restart);
        assert!(answers.iter().all(|answer| answer["success"] == true), "{transport:?}: {answers:?}");
        assert_eq!(rows_of_kind(&daemon, "task.claimed").len(), before + 20, "{transport:?}");
        // The client is still the same agent.
        let held = client.call("task_get", json!({"id": tasks[0]})).await;
        assert_eq!(held["assigned_agent_id"], Value::from(id.as_str()), "{transport:?}");
        let offer = json!({"task_id": tasks[0], "summary": "take it"});
        assert_eq!(client.call("handoff_create", offer).await["status"], "pending", "{transport:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bridge_subscription_survives_a_restart() {
    let mut daemon = setup().start().unwrap();
    let mut client = connect(&daemon, Transport::Bridge, Some("a")).await;
    client.register("a").await;
    #[expect(deprecated, reason = "older clients subscribe this way")]
    client.service.subscribe(SubscribeRequestParams::new(inbox_uri("a"))).await.unwrap();
    tokio::task::block_in_place(|| daemon.restart()).unwrap();
    // The inbox may have changed during the restart, so the client is notified.
    assert_eq!(client.next_resource_update().await, inbox_uri("a"));
    create_task(&daemon, Some("a")).await;
    assert_eq!(client.next_resource_update().await, inbox_uri("a"));
}

#[tokio::test]
async fn bridge_agent_cannot_be_asserted_without_its_credential() {
    let daemon = setup().start().unwrap();
    let bridge = connect(&daemon, Transport::Bridge, Some("a")).await;
    bridge.register("a").await;
    let task = create_task(&daemon, None).await;
    let asserted = connect(&daemon, Transport::Session, Some("a")).await;
    assert_eq!(asserted.call_rejected("task_claim", json!({"task_id": task})).await["code"], "CREDENTIAL_REQUIRED");
    // Another bridge of the same owner is the same agent; its key proves it and is never written to the log.
    let again = connect(&daemon, Transport::Bridge, Some("a")).await;
    let claimed = again.call("task_claim", json!({"task_id": task})).await;
    assert_eq!(claimed["success"], true);
    assert!(export_log(&daemon).iter().all(|row| !row.to_string().contains("rks.")), "a key is in the log");
    assert_eq!(rows_of_kind(&daemon, "task.claimed")[0]["auth"], "session");
}

#[tokio::test]
async fn bridge_heartbeats_keep_its_agent_online() {
    let setup = setup().env("ROOKERY_OFFLINE_AFTER", "2s").env("ROOKERY_HEARTBEAT_INTERVAL", "1s");
    let daemon = setup.start().unwrap();
    std::fs::write(daemon.root().join("rookery.toml"), "heartbeat_interval = \"1s\"\n").unwrap();
    let client = connect(&daemon, Transport::Bridge, Some("a")).await;
    client.register("a").await;
    let seen = async || daemon.get("/agents/a").await.unwrap().body["last_heartbeat"].as_i64().unwrap();
    let first = seen().await;
    let heartbeats = async {
        while seen().await < first + 3_000 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(DEADLINE, heartbeats).await.expect("no heartbeat arrives");
    assert_ne!(daemon.get("/agents/a").await.unwrap().body["status"], "offline");
}

#[tokio::test]
async fn bridge_starts_the_daemon_and_answers_malformed_requests() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".rookery")).unwrap();
    let mut bridge = start_bridge(folder.path(), "team", Some("a"));
    let (mut stdin, stdout) = (bridge.stdin.take().unwrap(), bridge.stdout.take().unwrap());
    let mut lines = BufReader::new(stdout).lines();
    let mut ask = async |line: &str| {
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(DEADLINE, lines.next_line()).await.expect("no answer").unwrap();
        serde_json::from_str::<Value>(&answer.unwrap()).unwrap()
    };
    assert_eq!(ask("this is no message").await["error"]["code"], -32700);
    let early = ask(r#"{"jsonrpc":"2.0","id":"x","method":"no/such/thing"}"#).await;
    assert!(early["id"] == "x" && early["error"].is_object(), "{early}");
    let hello = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let hello = ask(&hello.to_string()).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "rookery", "{hello}");
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await.unwrap();
    // The bridge ends promptly with its client.
    drop(stdin);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(4), bridge.wait()).await;
    assert!(ended.expect("the bridge keeps running without a client").unwrap().success());
    let down = assert_cmd::Command::new(env!("CARGO_BIN_EXE_rookery")).arg("down").current_dir(folder.path()).ok();
    down.unwrap();
}

#[tokio::test]
async fn agent_unregistered_by_the_bridge_needs_no_credential() {
    let daemon = setup().start().unwrap();
    let client = connect(&daemon, Transport::Bridge, None).await;
    let id = client.register("a").await;
    client.call("agent_unregister", json!({})).await;
    assert_eq!(client.call("agent_unregister", json!({"id": id})).await["success"], true, "it has left already");
    assert_eq!(client.call_rejected("agent_heartbeat", json!({"agent_id": id})).await["code"], "AGENT_NOT_FOUND");
    assert_eq!(client.register("a").await, id, "a bridge is one agent");
}

#[tokio::test]
async fn session_of_the_bridge_is_shown_with_its_agent() {
    let daemon = setup().start().unwrap();
    let client = connect(&daemon, Transport::Bridge, Some("a")).await;
    let shown = daemon.get("/agents/a").await.unwrap().body;
    assert!(shown["session_id"].as_str().unwrap().starts_with("session-"), "{shown}");
    drop(client);
}
