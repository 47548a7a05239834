//! The OpenAPI description of the Clutch API: every call is described, and every answer matches its description.

use std::collections::BTreeSet;

use jsonschema::Validator;
use reqwest::{Method, Response, StatusCode};
use rookery_testkit::daemon::{Daemon, read};
use serde_json::{Value, json};

use crate::sending::{envelope, setup};

/// The daemon's description, and the operations that were called.
struct Description {
    document: Value,
    called: BTreeSet<String>,
}

impl Description {
    async fn of(daemon: &Daemon) -> Description {
        Description { document: daemon.get("/openapi.json").await.unwrap().body, called: BTreeSet::new() }
    }

    fn validator(&self, schema: &Value) -> Validator {
        let whole = json!({"components": self.document["components"], "allOf": [schema]});
        jsonschema::draft202012::options().build(&whole).unwrap()
    }

    fn assert_valid(&self, schema: &Value, value: &Value, what: &str) {
        if let Err(error) = self.validator(schema).validate(value) {
            panic!("{what}: {error} at {} of {value}", error.instance_path());
        }
    }

    /// Checks a response against the description of its operation, and returns its body.
    async fn check_response(&mut self, method: &Method, template: &str, response: Response) -> Value {
        let status = response.status();
        let media = response.headers().get("content-type").map(|media| media.to_str().unwrap().to_owned());
        let text = response.text().await.unwrap();
        let operation = &self.document["paths"][template][method.as_str().to_ascii_lowercase()];
        let what = format!("{method} {template} {status}: {text}");
        let described =
            operation["responses"].get(status.as_str()).unwrap_or_else(|| panic!("{what} is not described"));
        if status.is_success() {
            self.called.insert(operation["operationId"].as_str().unwrap().to_owned());
        }
        if *method == Method::HEAD {
            assert!(described["content"].is_null(), "{what}");
            return Value::Null;
        }
        let media = media.unwrap_or_else(|| panic!("{what} has no type"));
        let schema = &described["content"][&media]["schema"];
        assert!(schema.is_object(), "{what}: {media} is not described");
        let lines = if media == "application/x-ndjson" { text.lines().collect() } else { vec![text.as_str()] };
        let mut body = Value::Null;
        for line in lines.into_iter().filter(|_| media.contains("json")) {
            body = serde_json::from_str(line).unwrap();
            self.assert_valid(schema, &body, &what);
        }
        if !status.is_success() {
            let code = format!("`{}`", body["code"].as_str().unwrap());
            assert!(
                described["description"].as_str().unwrap().contains(&code),
                "{what}: not among {}",
                described["description"]
            );
        }
        body
    }

    /// Operations of the Clutch API that were not called successfully.
    fn missing_operations(&self) -> Vec<&str> {
        let paths = self.document["paths"].as_object().unwrap();
        let paths = paths.iter().filter(|(path, _)| path.starts_with("/clutch/v0"));
        let operations = paths.flat_map(|(_, item)| item.as_object().unwrap().values());
        let all = operations.map(|operation| operation["operationId"].as_str().unwrap());
        all.filter(|operation| !self.called.contains(*operation)).collect()
    }
}

/// Fills in the parameter of a path template.
fn fill_template(template: &str, value: &str) -> String {
    match (template.find('{'), template.find('}')) {
        (Some(begin), Some(end)) => format!("{}{value}{}", &template[..begin], &template[end + 1..]),
        _ => template.to_owned(),
    }
}

struct Caller<'a> {
    daemon: &'a Daemon,
    described: Description,
}

impl Caller<'_> {
    async fn call(&mut self, method: &str, template: &str, value: &str, body: Option<Value>) -> (StatusCode, Value) {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let (template, query) = template.split_once('?').unwrap_or((template, ""));
        let template = format!("/clutch/v0{template}");
        let mut request = self.daemon.request(method.clone(), &format!("{}?{query}", fill_template(&template, value)));
        if let Some(body) = &body {
            let content = &self.described.document["paths"][&template][method.as_str().to_ascii_lowercase()];
            let schema = &content["requestBody"]["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{method} {template} takes no JSON");
            request = request.json(body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        (status, self.described.check_response(&method, &template, response).await)
    }

    /// Makes a call that must succeed, with a body that matches the description.
    async fn ok(&mut self, method: &str, template: &str, value: &str, body: Option<Value>) -> Value {
        if let Some(body) = &body {
            let path = format!("/clutch/v0{}", template.split('?').next().unwrap());
            let content =
                &self.described.document["paths"][&path][method.to_ascii_lowercase()]["requestBody"]["content"];
            self.described.assert_valid(&content["application/json"]["schema"], body, template);
        }
        let (status, answer) = self.call(method, template, value, body).await;
        assert!(status.is_success(), "{method} {template}: {status} {answer}");
        answer
    }

    async fn rejected(&mut self, method: &str, template: &str, value: &str, body: Option<Value>, expected: u16) {
        let (status, answer) = self.call(method, template, value, body).await;
        assert_eq!(status.as_u16(), expected, "{method} {template}: {answer}");
    }
}

/// A card with a field of every kind.
fn card() -> Value {
    json!({
        "v": "clutch/0.1", "agent_id": "agent:mia", "display": {"name": "Mia", "desc": "Reads contracts"},
        "capabilities": [{"id": "skill:law", "version": "2.1", "tags": ["contracts"], "tools": ["mcp:files"],
                          "trust_level": "prod", "cost_hint": "low"}, {"id": "tool:mcp", "servers": ["mcp:files"]}],
        "limits": {"max_concurrency": 3, "max_runtime_sec": 900}, "security": {"sandbox": false, "network": "none"},
        "meta": {"framework": "crewai", "role": "specialist"},
    })
}

fn request(id: &str) -> Value {
    envelope(
        id,
        "task.request",
        "agent:ui",
        json!({"deadline": "2126-01-01T00:00:00Z", "limits": {"max_runtime_sec": 60, "max_attempts": 2},
               "requires": ["skill:law"], "payload": {"query": "May we?"}}),
    )
}

#[tokio::test]
async fn every_clutch_call_matches_its_openapi_description() {
    let daemon = setup().start().unwrap();
    let described = Description::of(&daemon).await;
    let mut caller = Caller { daemon: &daemon, described };

    caller.ok("PUT", "/agents/{id}", "mia", Some(card())).await;
    caller.ok("GET", "/agents/{id}", "agent:mia", None).await;
    caller.ok("GET", "/agents", "", None).await;
    caller.ok("POST", "/agents/{id}/heartbeat", "mia", None).await;
    caller.rejected("GET", "/agents/{id}", "ghost", None, 404).await;
    caller.rejected("PUT", "/agents/{id}", "mia", Some(json!({"v": "clutch/9"})), 400).await;
    caller.rejected("POST", "/agents/{id}/heartbeat", "ghost", None, 404).await;

    caller.ok("POST", "/router/explain", "", Some(json!({"requires": ["skill:law"], "prefers": ["domain:tax"]}))).await;
    caller.ok("POST", "/router/explain", "", Some(json!({"requires": ["skill:flying"]}))).await;
    caller.rejected("POST", "/router/explain", "", Some(json!({"limits": {"max_attempts": 0}})), 400).await;
    caller.rejected("POST", "/router/explain", "", Some(json!({"to": [{"agent_id": "group:none"}]})), 400).await;

    caller.ok("POST", "/messages", "", Some(request("m1"))).await;
    let two =
        json!([envelope("m2", "task.accept", "mia", json!({})), envelope("m3", "task.progress", "mia", json!({}))]);
    caller.ok("POST", "/messages", "", Some(two)).await;
    let lines: String = ["m4", "m5"].map(|id| format!("{}\n", envelope(id, "x.note", "mia", json!({})))).concat();
    let sent = daemon.request(Method::POST, "/clutch/v0/messages").header("content-type", "application/x-ndjson");
    let answer = sent.body(lines).send().await.unwrap();
    let results = caller.described.check_response(&Method::POST, "/clutch/v0/messages", answer).await;
    assert_eq!(results["results"][1]["id"], "m5", "{results}");
    assert!(caller.described.document["paths"]["/clutch/v0/messages"]["post"]["requestBody"]["content"]
        ["application/x-ndjson"].is_object());
    let mut limits = request("m6");
    limits["limits"] = json!({"max_attempts": 0});
    for (body, status) in [
        (json!([]), 400),
        (json!({"v": "clutch/0.1"}), 400),
        (limits, 400),
        (envelope("m7", "x.note", "mia", json!({"to": [{"agent_id": "agent:ghost"}]})), 400),
        (envelope("m8", "task.result", "ada", json!({})), 403),
        (envelope("m9", "task.accept", "mia", json!({"task_id": "nothing"})), 404),
        (envelope("m1", "x.note", "mia", json!({})), 409),
    ] {
        caller.rejected("POST", "/messages", "", Some(body), status).await;
    }
    caller.ok("GET", "/messages/{id}", "m1", None).await;
    caller.rejected("GET", "/messages/{id}", "nothing", None, 404).await;
    let page = caller.ok("GET", "/messages?limit=1000", "", None).await;
    assert!(page["messages"].as_array().unwrap().len() > 8, "{page}");
    caller.rejected("GET", "/messages?after=log_other:1", "", None, 410).await;
    caller.rejected("GET", "/messages?type=nothing", "", None, 400).await;

    caller.ok("GET", "/runs", "", None).await;
    caller.ok("GET", "/runs/{id}", "run_work", None).await;
    caller.ok("GET", "/runs/{id}/replay", "run_work", None).await;
    caller.ok("GET", "/runs/{id}/replay?speed=1000000", "run_work", None).await;
    caller.rejected("GET", "/runs/{id}", "nowhere", None, 404).await;
    caller.rejected("GET", "/runs/{id}/replay?speed=0", "run_work", None, 400).await;
    caller.rejected("POST", "/runs/{id}/retry", "run_work", Some(json!({"task_id": "task_one"})), 409).await;
    caller.ok("POST", "/messages", "", Some(envelope("m10", "task.result", "mia", json!({})))).await;
    caller.ok("POST", "/runs/{id}/retry", "run_work", Some(json!({"task_id": "task_one"}))).await;

    caller
        .ok("POST", "/messages", "", Some(envelope("m11", "x.note", "ui", json!({"to": [{"agent_id": "mia"}]}))))
        .await;
    caller.ok("GET", "/agents/{id}/inbox", "mia", None).await;
    caller.rejected("GET", "/agents/{id}/inbox?after=9999999", "mia", None, 410).await;
    caller.ok("POST", "/agents/{id}/inbox/ack", "mia", Some(json!({"ids": ["m11"]}))).await;
    caller.rejected("POST", "/agents/{id}/inbox/ack", "mia", Some(json!({"ids": ["m1"]})), 404).await;
    caller.ok("GET", "/deliveries", "", None).await;
    caller.rejected("GET", "/deliveries?state=lost", "", None, 400).await;
    caller.rejected("POST", "/deliveries/{id}/retry", "nothing", None, 404).await;

    caller.ok("PUT", "/groups/{name}", "law", Some(json!({"members": ["agent:mia"]}))).await;
    caller.ok("GET", "/groups/{name}", "law", None).await;
    caller.ok("GET", "/groups", "", None).await;
    caller.ok("DELETE", "/groups/{name}", "law", None).await;
    caller.rejected("GET", "/groups/{name}", "law", None, 404).await;
    caller.rejected("PUT", "/groups/{name}", "law", Some(json!({"members": ["mcp:x"]})), 400).await;

    caller.ok("PUT", "/schemas/{payload_type}", "law.brief.v1", Some(json!({"type": "object"}))).await;
    caller.ok("GET", "/schemas/{payload_type}", "law.brief.v1", None).await;
    caller.ok("GET", "/schemas", "", None).await;
    caller.rejected("PUT", "/schemas/{payload_type}", "law.brief.v1", Some(json!({"type": "array"})), 409).await;
    caller.rejected("PUT", "/schemas/{payload_type}", "law.brief.v2", Some(json!({"type": "thing"})), 400).await;
    caller.rejected("GET", "/schemas/{payload_type}", "law.brief.v9", None, 404).await;
    let rules = |payload_type: &str| {
        json!({"workflow": "law", "steps": [{"id": "brief", "expects": {
        "type": "task.result", "payload_type": payload_type, "required": ["text"]}}]})
    };
    caller.ok("PUT", "/step-contracts/{name}", "law", Some(rules("law.brief.v1"))).await;
    caller.ok("GET", "/step-contracts/{name}", "law", None).await;
    caller.ok("GET", "/step-contracts", "", None).await;
    caller.rejected("PUT", "/step-contracts/{name}", "law", Some(rules("law.brief.v9")), 400).await;
    caller.rejected("PUT", "/step-contracts/{name}", "law", Some(json!({"workflow": "law"})), 400).await;
    caller.rejected("GET", "/step-contracts/{name}", "nothing", None, 404).await;

    let upload = daemon.request(Method::POST, "/clutch/v0/artifacts").body("content").send().await.unwrap();
    let uploaded = caller.described.check_response(&Method::POST, "/clutch/v0/artifacts", upload).await;
    let name = uploaded["ref"].as_str().unwrap().trim_start_matches("artifact:").to_owned();
    caller.ok("GET", "/artifacts", "", None).await;
    caller.ok("GET", "/artifacts/{id}", &name, None).await;
    caller.ok("HEAD", "/artifacts/{id}", &name, None).await;
    let nothing = format!("sha256-{}", "0".repeat(64));
    caller.rejected("GET", "/artifacts/{id}", &nothing, None, 404).await;
    caller.rejected("HEAD", "/artifacts/{id}", &nothing, None, 404).await;
    caller.rejected("GET", "/stream", "", None, 426).await;
    caller.ok("GET", "/endpoints", "", None).await;
    for template in ["/clutch/v0/endpoints/{name}/discard", "/clutch/v0/endpoints/{name}/retry"] {
        let by_person = daemon.request(Method::POST, &fill_template(template, "http:none"));
        let answer = by_person.bearer_auth(daemon.person_key().unwrap()).send().await.unwrap();
        assert_eq!(answer.status(), 404);
        caller.described.check_response(&Method::POST, template, answer).await;
    }
    caller.rejected("POST", "/endpoints/{name}/retry", "http:none", None, 403).await;
    caller.ok("DELETE", "/agents/{id}", "mia", None).await;

    // Rejections by earlier layers have the protocol's form too.
    for (header, value, status) in [("host", "evil.example", 403), ("x-rookery-project", "other", 421)] {
        let request = daemon.request(Method::GET, "/clutch/v0/runs").header(header, value);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status);
        caller.described.check_response(&Method::GET, "/clutch/v0/runs", answer).await;
    }
    let error = json!({"$ref": "#/components/schemas/ClutchErrorBody"});
    for (method, path) in [(Method::GET, "/clutch/v0/nothing"), (Method::PATCH, "/clutch/v0/runs")] {
        let reply = read(daemon.request(method, path)).await.unwrap();
        caller.described.assert_valid(&error, &reply.body, path);
    }

    // The remaining operations need a WebSocket or a dead letter.
    let uncalled = ["clutch_delivery_retry", "clutch_endpoint_discard", "clutch_endpoint_retry", "clutch_stream"];
    assert_eq!(caller.described.missing_operations(), uncalled);
}
