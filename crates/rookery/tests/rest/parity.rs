//! One scenario by every way in leaves the same facts: a surface adds nothing and keeps nothing.

use std::collections::HashMap;

use reqwest::Method;
use rookery_testkit::daemon::read;
use rookery_testkit::postgres::Schema;
use serde_json::{Value, json};

use crate::cli::with_store;
use crate::support::{Team, setup};

/// How a call reaches the daemon.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// TCP, the agent named in the body as the contract's examples do.
    Tcp,
    /// TCP, the agent named by the header.
    Header,
    /// The Unix socket.
    Socket,
}

#[tokio::test]
async fn the_same_scenario_by_any_way_leaves_the_same_facts() {
    let by_tcp = facts(Way::Tcp).await;
    assert!(by_tcp.len() > 12, "{by_tcp:?}");
    for way in [Way::Header, Way::Socket] {
        assert_eq!(facts(way).await, by_tcp, "{way:?}");
    }
}

/// Plays the scenario and reads the log back from an export, with ids replaced by the order they came up in.
async fn facts(way: Way) -> Vec<Value> {
    let team = Team(setup().arg("--no-watch").start().unwrap());
    let person = team.person_key().unwrap();
    let call = async |method: Method, path: &str, agent: &str, body: Value| {
        let socket = team.root().join(".rookery/rookery.sock");
        let (http, url) = match way {
            Way::Socket => (reqwest::Client::builder().unix_socket(socket).build().unwrap(), "http://localhost"),
            Way::Tcp | Way::Header => (team.http().clone(), team.url()),
        };
        let mut request = http.request(method, format!("{url}{path}")).json(&body);
        match (way, agent) {
            (_, "person") => request = request.bearer_auth(&person),
            (Way::Header, agent) => request = request.header("X-Agent-Id", agent),
            (Way::Tcp | Way::Socket, _) => {}
        }
        let reply = read(request).await.unwrap();
        assert!(reply.status.is_success(), "{way:?} {path}: {}", reply.body);
        reply.body
    };
    for id in ["a", "b"] {
        call(Method::POST, "/agents/announce", id, json!({"id": id, "tool": "test"})).await;
    }
    let task = call(Method::POST, "/tasks", "a", json!({"title": "t", "assigned_by": "a", "assigned_to": "b"})).await;
    let task = task["id"].as_str().unwrap().to_owned();
    let place = format!("/tasks/{task}");
    call(Method::PATCH, &place, "b", json!({"status": "in_progress", "agent_id": "b"})).await;
    call(Method::POST, "/resources/claim", "b", json!({"path": "./src//x", "agent_id": "b", "task_id": task})).await;
    let offer = json!({"from_agent": "b", "to_agent": "a", "task_id": task, "summary": "half done"});
    let handoff = call(Method::POST, "/handoffs", "b", offer).await["id"].as_str().unwrap().to_owned();
    call(Method::PATCH, &format!("/handoffs/{handoff}/accept"), "a", json!({"agent_id": "a"})).await;
    call(Method::POST, "/events", "a", json!({"agent_id": "a", "action": "x.note", "metadata": {"n": 1}})).await;
    call(Method::POST, &format!("{place}/assign"), "person", json!({"agent_id": "b"})).await;
    call(Method::POST, &format!("{place}/cancel"), "person", json!({"reason": "enough"})).await;
    call(Method::DELETE, "/agents/b", "b", json!(null)).await;
    let (code, exported, stderr) = with_store(team.root(), team.schema().map(Schema::url), &["export"]);
    assert_eq!(code, 0, "{stderr}");
    normalised(&exported)
}

fn normalised(exported: &str) -> Vec<Value> {
    let mut ids: HashMap<String, String> = HashMap::new();
    let rows = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row.get("seq").is_some())
        .map(|row| {
            let mut kept =
                json!({"kind": row["kind"], "actor": row["actor"], "auth": row["auth"], "fact": row["fact"]});
            rename(&mut kept, &mut ids);
            kept
        })
        .collect()
}

/// Minted ids become their number; everything else stays.
fn rename(value: &mut Value, ids: &mut HashMap<String, String>) {
    match value {
        Value::String(text) if ["task_", "hoff_", "site_"].iter().any(|kind| text.starts_with(kind)) => {
            let next = format!("id{}", ids.len());
            *text = ids.entry(text.clone()).or_insert(next).clone();
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| rename(entry, ids)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, ids)),
        _ => {}
    }
}
