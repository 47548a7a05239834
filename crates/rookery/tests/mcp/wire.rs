//! The exact form of answers in a session, the same for every kind of call.

use reqwest::Method;
use rookery_testkit::daemon::Daemon;
use serde_json::{Value, json};

use crate::support::setup;

struct Session<'a> {
    daemon: &'a Daemon,
    id: String,
}

impl Session<'_> {
    async fn begin(daemon: &Daemon) -> Session<'_> {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}});
        let opened = post(daemon, None, &hello).await;
        let session = Session { daemon, id: opened.headers()["mcp-session-id"].to_str().unwrap().to_owned() };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(post(daemon, Some(&session.id), &initialized).await.status(), 202);
        session
    }

    /// Calls a tool and returns the only event of its stream that has data.
    async fn call(&self, id: &str, tool: &str, arguments: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let reply = post(self.daemon, Some(&self.id), &call).await;
        assert_eq!(reply.headers()["content-type"], "text/event-stream", "{tool}");
        let events = reply.text().await.unwrap();
        let mut events_with_data =
            events.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
        let answer = serde_json::from_str(events_with_data.next().unwrap()).unwrap();
        assert_eq!(events_with_data.next(), None, "{tool}");
        answer
    }
}

async fn post(daemon: &Daemon, session: Option<&str>, body: &Value) -> reqwest::Response {
    let mut request = daemon.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
    }
    request.header("x-agent-id", "ada").json(body).send().await.unwrap()
}

#[tokio::test]
async fn read_and_write_tools_answer_in_one_form() {
    let daemon = setup().start().unwrap();
    let session = Session::begin(&daemon).await;
    let changed = session.call("a", "agent_register", json!({"name": "Ada", "runtime": "codex"})).await;
    let looked_up = session.call("b", "agent_get", json!({"id": "ada"})).await;
    for (id, answer) in [("a", &changed), ("b", &looked_up)] {
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)));
        let mut fields: Vec<_> = answer["result"].as_object().unwrap().keys().collect();
        fields.retain(|field| *field != "_meta");
        assert_eq!(fields, ["content", "isError", "structuredContent"]);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let content: Value = serde_json::from_str(text).unwrap();
        assert_eq!(content["name"], "Ada");
    }
    let rejected = [
        session.call("c", "agent_get", json!({"id": "nobody"})).await,
        session.call("d", "agent_heartbeat", json!({"agent_id": "nobody"})).await,
    ];
    for answer in rejected {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    let unknown = session.call("e", "agent_gets", json!({})).await;
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!("e"), &json!(-32602)));
}
