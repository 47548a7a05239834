//! A team for one test: a daemon, agents, and short calls for the requests of tests.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use reqwest::Method;
use rookery_testkit::daemon::{Daemon, HttpReply, Setup, read};
use serde_json::{Value, json};

/// Long enough for a loaded machine; nothing waits for it unless something is wrong.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub fn setup() -> Setup {
    Setup::new(env!("CARGO_BIN_EXE_rookery")).env("ROOKERY_LOG", "error")
}

/// A daemon with short calls for tests.
pub struct Team(pub Daemon);

impl Deref for Team {
    type Target = Daemon;
    fn deref(&self) -> &Daemon {
        &self.0
    }
}

impl DerefMut for Team {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.0
    }
}

/// A daemon without a file watcher, with these agents; the first of them leads.
pub async fn team(agents: &[&str]) -> Team {
    team_of(setup().arg("--no-watch"), agents).await
}

pub async fn team_of(setup: Setup, agents: &[&str]) -> Team {
    let team = Team(setup.start().unwrap());
    for agent in agents {
        team.announce(agent, "worker").await;
    }
    team
}

impl Team {
    pub async fn announce(&self, id: &str, role: &str) -> Value {
        let reply = self.post("/agents/announce", json!({"id": id, "tool": "test", "role": role})).await.unwrap();
        assert_eq!(reply.status, 201, "{}", reply.body);
        reply.body
    }

    pub async fn try_claim(&self, path: &str, agent: &str) -> HttpReply {
        self.post("/resources/claim", json!({"path": path, "agent_id": agent})).await.unwrap()
    }

    pub async fn claim(&self, path: &str, agent: &str) {
        let reply = self.try_claim(path, agent).await;
        assert_eq!((reply.status.as_u16(), reply.body), (200, json!({"granted": true})), "{path} by {agent}");
    }

    pub async fn release(&self, path: &str, agent: &str) -> HttpReply {
        self.post("/resources/release", json!({"path": path, "agent_id": agent})).await.unwrap()
    }

    pub async fn resource(&self, path: &str) -> Value {
        self.ok(&format!("/resources/{path}")).await
    }

    /// Creates a task with these fields beside title and assigned_by.
    pub async fn create_task_with(&self, fields: Value) -> Value {
        let mut body = json!({"title": "work", "assigned_by": "somebody"});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let reply = self.post("/tasks", body).await.unwrap();
        assert_eq!(reply.status, 201, "{}", reply.body);
        reply.body
    }

    /// Creates a task and returns its id.
    pub async fn create_task(&self) -> String {
        text(&self.create_task_with(json!({})).await["id"])
    }

    pub async fn try_move_task(&self, id: &str, status: &str, agent: &str) -> HttpReply {
        self.patch(&format!("/tasks/{id}"), json!({"status": status, "agent_id": agent})).await.unwrap()
    }

    pub async fn move_task(&self, id: &str, status: &str, agent: &str) {
        let reply = self.try_move_task(id, status, agent).await;
        assert_eq!((reply.status.as_u16(), reply.body), (200, json!({"ok": true})), "{status} by {agent}");
    }

    /// Returns the body of a GET that must succeed.
    pub async fn ok(&self, path: &str) -> Value {
        let reply = self.get(path).await.unwrap();
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    }

    /// Events of one action, oldest first.
    pub async fn events(&self, action: &str) -> Vec<Value> {
        let mut events = self.ok(&format!("/events?limit=1000&action={action}")).await.as_array().unwrap().clone();
        events.reverse();
        events
    }

    pub async fn actions(&self) -> Vec<String> {
        let events = self.ok("/events?limit=1000").await;
        events.as_array().unwrap().iter().rev().map(|event| text(&event["action"])).collect()
    }

    pub async fn head(&self) -> u64 {
        self.ok("/status").await["event_count"].as_u64().unwrap()
    }

    pub async fn lead(&self) -> Value {
        self.ok("/status").await["agents"]["lead"].clone()
    }

    /// A request with headers.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Value>) -> HttpReply {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        read(request).await.unwrap()
    }

    /// Sends a request as the project's owner.
    pub async fn as_person(&self, method: Method, path: &str, body: Option<Value>) -> HttpReply {
        let key = format!("Bearer {}", self.person_key().unwrap());
        self.send(method, path, &[("authorization", &key)], body).await
    }

    /// Repeats a GET until `seen` accepts its body.
    pub async fn wait_for<T>(&self, goal: &str, path: &str, seen: impl Fn(&Value) -> Option<T>) -> T {
        eventually(goal, || async { seen(&self.ok(path).await) }).await
    }
}

/// Repeats an attempt until it yields a value; panics at the deadline.
pub async fn eventually<T, F: Future<Output = Option<T>>>(goal: &str, mut attempt: impl FnMut() -> F) -> T {
    let trying = async {
        loop {
            if let Some(found) = attempt().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    tokio::time::timeout(DEADLINE, trying).await.unwrap_or_else(|_| panic!("timed out waiting for: {goal}"))
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text")).to_owned()
}

#[track_caller]
pub fn assert_reply(reply: &HttpReply, status: u16, body: Value) {
    assert_eq!((reply.status.as_u16(), &reply.body), (status, &body));
}

/// Asserts the exact error and its code.
#[track_caller]
pub fn assert_error(reply: &HttpReply, status: u16, code: &str, error: &str) {
    let found = (reply.status.as_u16(), reply.body["code"].as_str(), reply.body["error"].as_str());
    assert_eq!(found, (status, Some(code), Some(error)), "{}", reply.body);
    assert_json(reply);
}

/// Asserts the error's status and code, and a part of its text.
#[track_caller]
pub fn assert_rejected(reply: &HttpReply, status: u16, code: &str, part: &str) {
    assert_eq!((reply.status.as_u16(), reply.body["code"].as_str()), (status, Some(code)), "{}", reply.body);
    assert!(reply.body["error"].as_str().is_some_and(|error| error.contains(part)), "{part}: {}", reply.body);
    assert_json(reply);
}

#[track_caller]
pub fn assert_json(reply: &HttpReply) {
    let kind = reply.headers.get("content-type").map(|value| value.to_str().unwrap());
    assert_eq!(kind, Some("application/json"), "{}", reply.body);
}

/// The names of an object's fields, sorted.
pub fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Asserts a time of our era in milliseconds, not in seconds.
#[track_caller]
pub fn assert_time(value: &Value) {
    let millis = value.as_i64().unwrap_or_else(|| panic!("{value} is not a time"));
    assert!((1_600_000_000_000..10_000_000_000_000).contains(&millis), "{millis}");
}

/// An open event stream.
pub struct Sse {
    response: reqwest::Response,
    buffer: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Frame {
    /// The bytes between two empty lines.
    pub raw: String,
    pub id: String,
    pub event: Value,
}

impl Sse {
    pub async fn open(daemon: &Daemon, path: &str, last: Option<&str>) -> Sse {
        let last = last.map(|last| ("last-event-id", last));
        Sse::open_with(daemon, path, last.as_slice()).await
    }

    pub async fn open_with(daemon: &Daemon, path: &str, headers: &[(&str, &str)]) -> Sse {
        let mut request = daemon.request(Method::GET, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Sse { response, buffer: Vec::new() }
    }

    pub fn headers(&self) -> &reqwest::header::HeaderMap {
        self.response.headers()
    }

    /// The next event; comments are skipped.
    pub async fn next(&mut self) -> Frame {
        // Keep-alives must not keep a test alive.
        tokio::time::timeout(DEADLINE, self.event()).await.expect("the event never came")
    }

    async fn event(&mut self) -> Frame {
        loop {
            let raw = self.block().await.expect("the stream ended");
            if raw.starts_with(':') {
                continue;
            }
            let (id, data) = raw.split_once('\n').unwrap();
            let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("{raw:?}"));
            let event = serde_json::from_str(data).unwrap();
            return Frame { id: id.strip_prefix("id: ").unwrap().to_owned(), event, raw };
        }
    }

    /// The next event with this action; others before it are skipped.
    pub async fn next_of(&mut self, action: &str) -> Frame {
        loop {
            let frame = self.next().await;
            if frame.event["action"] == action {
                return frame;
            }
        }
    }

    pub async fn take(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.len() < count {
            frames.push(self.next().await);
        }
        frames
    }

    /// The text before the next empty line, or `None` at the end of the stream.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).take(end).collect();
                return Some(String::from_utf8(block).unwrap());
            }
            let chunk = tokio::time::timeout(DEADLINE, self.response.chunk()).await.expect("the stream is silent");
            match chunk {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}
