//! One scenario by every transport appends the same events.

use std::collections::HashMap;

use reqwest::Method;
use rookery_testkit::daemon::read;
use rookery_testkit::postgres::Schema;
use serde_json::{Value, json};

use crate::cli::rookery_with_store;
use crate::support::{Team, setup};

/// How a call reaches the daemon.
#[derive(Clone, Copy, Debug)]
enum Transport {
    /// TCP; the body names the agent, as in the contract's examples.
    Tcp,
    /// TCP; a header names the agent.
    Header,
    /// The Unix socket.
    Socket,
}

#[tokio::test]
async fn same_scenario_by_any_transport_appends_the_same_events() {
    let by_tcp = logged_events(Transport::Tcp).await;
    assert!(by_tcp.len() > 12, "{by_tcp:?}");
    for transport in [Transport::Header, Transport::Socket] {
        assert_eq!(logged_events(transport).await, by_tcp, "{transport:?}");
    }
}

/// Plays the scenario and reads the log back from an export, with ids replaced by numbers in order of appearance.
async fn logged_events(transport: Transport) -> Vec<Value> {
    let team = Team(setup().arg("--no-watch").start().unwrap());
    let person = team.person_key().unwrap();
    let call = async |method: Method, path: &str, agent: &str, body: Value| {
        let socket = team.root().join(".rookery/rookery.sock");
        let (http, url) = match transport {
            Transport::Socket => (reqwest::Client::builder().unix_socket(socket).build().unwrap(), "http://localhost"),
            Transport::Tcp | Transport::Header => (team.http().clone(), team.url()),
        };
        let mut request = http.request(method, format!("{url}{path}")).json(&body);
        match (transport, agent) {
            (_, "person") => request = request.bearer_auth(&person),
            (Transport::Header, agent) => request = request.header("X-Agent-Id", agent),
            (Transport::Tcp | Transport::Socket, _) => {}
        }
        let reply = read(request).await.unwrap();
        assert!(reply.status.is_success(), "{transport:?} {path}: {}", reply.body);
        reply.body
    };
    for id in ["a", "b"] {
        call(Method::POST, "/agents/announce", id, json!({"id": id, "tool": "test"})).await;
    }
    let task = call(Method::POST, "/tasks", "a", json!({"title": "t", "assigned_by": "a", "assigned_to": "b"})).await;
    let task = task["id"].as_str().unwrap().to_owned();
    let path = format!("/tasks/{task}");
    call(Method::PATCH, &path, "b", json!({"status": "in_progress", "agent_id": "b"})).await;
    call(Method::POST, "/resources/claim", "b", json!({"path": "./src//x", "agent_id": "b", "task_id": task})).await;
    let offer = json!({"from_agent": "b", "to_agent": "a", "task_id": task, "summary": "half done"});
    let handoff = call(Method::POST, "/handoffs", "b", offer).await["id"].as_str().unwrap().to_owned();
    call(Method::PATCH, &format!("/handoffs/{handoff}/accept"), "a", json!({"agent_id": "a"})).await;
    call(Method::POST, "/events", "a", json!({"agent_id": "a", "action": "x.note", "metadata": {"n": 1}})).await;
    call(Method::POST, &format!("{path}/assign"), "person", json!({"agent_id": "b"})).await;
    call(Method::POST, &format!("{path}/cancel"), "person", json!({"reason": "enough"})).await;
    call(Method::DELETE, "/agents/b", "b", json!(null)).await;
    let (code, exported, stderr) = rookery_with_store(team.root(), team.schema().map(Schema::url), &["export"]);
    assert_eq!(code, 0, "{stderr}");
    normalized_rows(&exported)
}

fn normalized_rows(exported: &str) -> Vec<Value> {
    let mut ids: HashMap<String, String> = HashMap::new();
    let rows = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row.get("seq").is_some())
        .map(|row| {
            let mut kept =
                json!({"kind": row["kind"], "actor": row["actor"], "auth": row["auth"], "fact": row["fact"]});
            number_ids(&mut kept, &mut ids);
            kept
        })
        .collect()
}

/// Replaces generated ids by their number.
fn number_ids(value: &mut Value, ids: &mut HashMap<String, String>) {
    match value {
        Value::String(text) if ["task_", "hoff_", "site_"].iter().any(|kind| text.starts_with(kind)) => {
            let next = format!("id{}", ids.len());
            *text = ids.entry(text.clone()).or_insert(next).clone();
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| number_ids(entry, ids)),
        Value::Object(fields) => fields.values_mut().for_each(|field| number_ids(field, ids)),
        _ => {}
    }
}
