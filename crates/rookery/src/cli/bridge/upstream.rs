//! The way to the daemon and back: sessions, streams, and what happens when the daemon goes away.
//!
//! Every tool call has an idempotency key. When an answer is lost it is therefore safe to send the call again: the daemon
//! remembers what it did under that key, also across a restart.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rookery_client::sse::Parser;
use rookery_client::{Client, INSTANCE, McpMessage, Proof, SESSION, tools};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Options;
use super::home::Home;
use super::message::{self, Failed};

/// How long a call waits for a daemon that is away.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a call whose answer was lost is sent again.
const ATTEMPTS: u32 = 6;
/// Keep-alives come every 15 seconds; a stream that is silent for three of them is dead.
const SILENCE: Duration = Duration::from_secs(45);
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// A heartbeat that takes longer is of no use.
const HEARTBEAT_TIME: Duration = Duration::from_secs(5);

pub struct Upstream {
    home: Home,
    path: &'static [&'static str],
    out: mpsc::Sender<Value>,
    /// Who the client is: as it was told, or as it registered.
    agent: Mutex<Option<String>>,
    told: bool,
    /// The session of the program at the other end, and the agent that the daemon knows it of.
    session_id: String,
    session_known_for: Mutex<Option<String>>,
    /// Where it looks around as long as it has no name.
    instance: Option<String>,
    /// Makes keys that nobody else uses.
    prefix: String,
    keys: AtomicU64,
    link: Mutex<Arc<Link>>,
    /// Only one at a time looks for the daemon.
    linking: tokio::sync::Mutex<()>,
    session: Mutex<Session>,
}

/// A daemon that answered, and the session that it gave us.
struct Link {
    client: Client,
    session: Option<String>,
    version: Option<String>,
    /// Counts up with every new link.
    number: u64,
}

/// What a new session must be told to be as the old one was.
#[derive(Default)]
struct Session {
    initialize: Option<Value>,
    followed: BTreeSet<String>,
}

/// Why a message got no answer.
enum SendFailure {
    /// It never reached a daemon, or one that did not know our session.
    Before,
    /// It was sent, and then the answer broke off.
    Underway,
    /// The daemon answered that it will not.
    Refused(Failed),
}

struct UpstreamAnswer {
    value: Option<Value>,
    session: Option<String>,
}

impl Upstream {
    pub async fn open(home: Home, options: &Options, out: mpsc::Sender<Value>) -> anyhow::Result<Upstream> {
        let client = home.find_or_start().await?;
        let link = Link { client, session: None, version: None, number: 0 };
        Ok(Upstream {
            home,
            path: options.path,
            out,
            agent: Mutex::new(options.agent.clone()),
            told: options.agent.is_some(),
            session_id: options.session_id.clone(),
            session_known_for: Mutex::default(),
            instance: options.instance.clone(),
            prefix: rookery_engine::ports::secret(),
            keys: AtomicU64::new(0),
            link: Mutex::new(Arc::new(link)),
            linking: tokio::sync::Mutex::new(()),
            session: Mutex::default(),
        })
    }

    /// The client opens its session. What it said is kept, to say it again to a daemon that was restarted.
    pub async fn initialize(&self, message: &McpMessage) {
        self.session().initialize = Some(message.value().clone());
        let mut old = self.link();
        for _ in 0..ATTEMPTS {
            let bare = Link { client: old.client.clone(), session: None, version: None, number: old.number };
            match self.send(&bare, message, None, 0).await {
                Ok(answered) => return self.opened(bare, answered).await,
                Err(SendFailure::Refused(failed)) => return self.write(message::failed(message, &failed)).await,
                Err(SendFailure::Before | SendFailure::Underway) => {
                    match tokio::time::timeout(RECONNECT_TIMEOUT, self.home.find_again()).await {
                        Ok(Ok(client)) => {
                            old = Arc::new(Link { client, session: None, version: None, number: old.number + 1 });
                        }
                        Ok(Err(error)) => {
                            return self.write(message::failed(message, &Failed::unreachable(error.to_string()))).await;
                        }
                        Err(_) => break,
                    }
                }
            }
        }
        self.write(message::failed(message, &Failed::unreachable("the daemon does not answer".to_owned()))).await;
    }

    async fn opened(&self, bare: Link, answered: UpstreamAnswer) {
        let version = answered.value.as_ref().and_then(|value| value["result"]["protocolVersion"].as_str());
        let link =
            Link { session: answered.session, version: version.map(str::to_owned), number: bare.number + 1, ..bare };
        self.set_link(link);
        if let Some(value) = answered.value {
            self.write(value).await;
        }
    }

    pub fn has_session(&self) -> bool {
        self.link().session.is_some()
    }

    /// Brings a message to the daemon and its answer back, however often the daemon goes away meanwhile.
    pub async fn carry(&self, message: &McpMessage) {
        let answer = self.answer(message).await;
        if message.id().is_none() || message.method().is_none() {
            return;
        }
        self.learn(message, &answer);
        self.write(answer).await;
    }

    async fn answer(&self, message: &McpMessage) -> Value {
        let key = message.tool().map(|_| self.next_key());
        let mut link = self.link();
        for attempt in 0..ATTEMPTS {
            let lost = match self.send(&link, message, key.as_deref(), attempt).await {
                Ok(answered) => return answered.value.unwrap_or(Value::Null),
                Err(lost) => lost,
            };
            if let SendFailure::Refused(failed) = lost {
                return message::failed(message, &failed);
            }
            tokio::time::sleep(RETRY_DELAY * attempt).await;
            match tokio::time::timeout(RECONNECT_TIMEOUT, self.relink(link.number)).await {
                Ok(Ok(new)) => link = new,
                Ok(Err(error)) => return message::failed(message, &given_up(&lost, error.to_string())),
                Err(_) => return message::failed(message, &given_up(&lost, "the daemon does not answer".to_owned())),
            }
        }
        message::failed(message, &Failed::unknown())
    }

    /// A link that is newer than `number`: whoever comes first makes it, with a session like the one before.
    async fn relink(&self, number: u64) -> anyhow::Result<Arc<Link>> {
        let _one = self.linking.lock().await;
        loop {
            let link = self.link();
            if link.number > number {
                return Ok(link);
            }
            let client = self.home.find_again().await?;
            let bare = Link { client, session: None, version: None, number: link.number };
            match self.resume(bare).await {
                Ok(()) => {}
                Err(SendFailure::Refused(failed)) => anyhow::bail!(failed.message),
                // It went away again.
                Err(SendFailure::Before | SendFailure::Underway) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Opens a session as the client did, and follows what it followed.
    async fn resume(&self, bare: Link) -> Result<(), SendFailure> {
        let (initialize, followed) = {
            let session = self.session();
            (session.initialize.clone(), session.followed.clone())
        };
        let Some(initialize) = initialize else {
            self.set_link(Link { number: bare.number + 1, ..bare });
            return Ok(());
        };
        let answered = self.send(&bare, &McpMessage::new(initialize), None, 0).await?;
        let version = answered.value.as_ref().and_then(|value| value["result"]["protocolVersion"].as_str());
        let version = version.map(str::to_owned);
        let link = Link { session: answered.session, version, number: bare.number + 1, ..bare };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.send(&link, &McpMessage::new(initialized), None, 0).await?;
        for (number, uri) in followed.iter().enumerate() {
            let id = format!("rookery-{number}");
            let again = json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri}});
            self.send(&link, &McpMessage::new(again), None, 0).await?;
        }
        tracing::info!("connected to the daemon again");
        self.set_link(link);
        for uri in &followed {
            self.write(message::updated(uri, None)).await;
        }
        Ok(())
    }

    /// Passes on what the daemon sends by itself, for as long as this runs.
    pub async fn listen(self: Arc<Self>) {
        let mut link = self.link();
        while let Some(session) = link.session.clone() {
            let request = self.request(&link, Method::GET).header("accept", "text/event-stream");
            let open = match request.header("mcp-session-id", session).send().await {
                Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                Ok(response) if response.status().is_success() => Some(response),
                Ok(_) | Err(_) => None,
            };
            match open {
                Some(response) => drop(self.read(response, None, 0).await),
                None => {
                    // Nobody waits for this: it goes on when there is a daemon, and starts none.
                    self.home.appear().await;
                    if let Ok(new) = self.relink(link.number).await {
                        link = new;
                    }
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
            link = if self.link().number > link.number { self.link() } else { link };
        }
    }

    /// Makes the agent part of the team, so that whoever mentions it before its first call reaches it. Tells whether there
    /// is nothing left to do: nobody in particular does not join, and a daemon that is away hears of it later.
    pub async fn arrive(&self) -> bool {
        if self.agent().is_none() && self.home.proof == Proof::Nothing {
            return true;
        }
        let message = tools::call("coord_send_heartbeat", &json!({ "session_id": self.session_id }));
        let request = self.named(self.link().client.request(Method::POST, &["mcp", "coord"], &[]));
        let request = message.headers().into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let Ok(response) = request.json(message.value()).timeout(HEARTBEAT_TIME).send().await else { return false };
        let answer = self.read(response, message.id(), 0).await;
        let arrived = matches!(answer, Ok(Some(answer)) if answer["result"]["isError"] == false);
        if arrived {
            self.session_known_for().clone_from(&self.agent());
        }
        arrived
    }

    pub async fn heartbeat(&self) {
        let Some(agent) = self.agent().clone() else { return };
        let link = self.link();
        let request = link.client.request(Method::POST, &["agents", &agent, "heartbeat"], &[]);
        // Once for each agent: heartbeats of several bridges of one agent do not contradict each other again and again.
        let is_known = self.session_known_for().as_ref() == Some(&agent);
        let request = if is_known { request } else { request.json(&json!({ "session_id": self.session_id })) };
        // The agent may not be registered yet, or the daemon away: the next one will tell.
        let sent = self.named(request).timeout(HEARTBEAT_TIME).send().await;
        if sent.is_ok_and(|response| response.status().is_success()) {
            *self.session_known_for() = Some(agent);
        }
    }

    /// Ends the session, so that the daemon need not find out by itself.
    pub async fn close(&self) {
        let link = self.link();
        if let Some(session) = &link.session {
            let request = self.request(&link, Method::DELETE).header("mcp-session-id", session);
            drop(request.timeout(HEARTBEAT_TIME).send().await);
        }
    }

    /// Sends a message once and reads the answer to its end.
    async fn send(
        &self,
        link: &Link,
        message: &McpMessage,
        key: Option<&str>,
        attempt: u32,
    ) -> Result<UpstreamAnswer, SendFailure> {
        let mut request = self.request(link, Method::POST);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if message.is_stateless() {
            request = message.headers().into_iter().fold(request, |request, (name, value)| request.header(name, value));
        } else {
            request = request.header("accept", "application/json, text/event-stream");
            request = link.session.iter().fold(request, |request, id| request.header("mcp-session-id", id));
            request = link.version.iter().fold(request, |request, told| request.header("mcp-protocol-version", told));
        }
        let response = match request.json(message.value()).send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() || error.is_builder() => return Err(SendFailure::Before),
            Err(_) => return Err(SendFailure::Underway),
        };
        let session = response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let value = self.accept(link, message, response, attempt).await?;
        Ok(UpstreamAnswer { value, session })
    }

    async fn accept(
        &self,
        link: &Link,
        message: &McpMessage,
        response: Response,
        attempt: u32,
    ) -> Result<Option<Value>, SendFailure> {
        let status = response.status();
        let asked = message.id().filter(|_| message.method().is_some());
        if status == StatusCode::NOT_FOUND && link.session.is_some() && !message.is_stateless() {
            return Err(SendFailure::Before);
        }
        if status.is_success() {
            let Some(id) = asked else { return Ok(None) };
            return self.read(response, Some(id), attempt).await;
        }
        if status.is_server_error() {
            // It stops, or is too busy: nothing that was answered so is lost by asking again under the same key.
            return Err(SendFailure::Underway);
        }
        let text = response.text().await.map_err(|_| SendFailure::Underway)?;
        let mut body: Value = serde_json::from_str(&text).unwrap_or_default();
        if body.get("jsonrpc").is_some() {
            body["id"] = asked.cloned().unwrap_or_default();
            return Ok(Some(body));
        }
        let said = body["error"].as_str().map_or(text.trim().to_owned(), str::to_owned);
        Err(SendFailure::Refused(Failed::refused(if said.is_empty() { status.to_string() } else { said })))
    }

    /// Reads an answer, be it one message or a stream of them; what is not the answer to `id` is passed on.
    async fn read(
        &self,
        mut response: Response,
        id: Option<&Value>,
        attempt: u32,
    ) -> Result<Option<Value>, SendFailure> {
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let bytes = response.bytes().await.map_err(|_| SendFailure::Underway)?;
            return serde_json::from_slice(&bytes).map(Some).map_err(|_| SendFailure::Underway);
        }
        let mut parser = Parser::default();
        while let Ok(Ok(Some(bytes))) = tokio::time::timeout(SILENCE, response.chunk()).await {
            for event in parser.feed(&bytes).map_err(|_| SendFailure::Underway)? {
                let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
                if id.is_some() && message.get("method").is_none() && message.get("id") == id {
                    return Ok(Some(message));
                }
                self.pass(message, attempt).await;
            }
        }
        Err(SendFailure::Underway)
    }

    /// Passes on what the daemon said besides the answer.
    async fn pass(&self, message: Value, attempt: u32) {
        let again = attempt > 0 && message["method"] == "notifications/subscriptions/acknowledged";
        if !again {
            return self.write(message).await;
        }
        // The client was told already. What it missed meanwhile is not known, so everything may have changed.
        let params = &message["params"];
        for uri in params["notifications"]["resourceSubscriptions"].as_array().into_iter().flatten() {
            self.write(message::updated(uri.as_str().unwrap_or_default(), params.get("_meta"))).await;
        }
    }

    /// Takes note of what a new session would not know: who this is, and what it follows.
    fn learn(&self, message: &McpMessage, answer: &Value) {
        if answer.get("error").is_some() || answer["result"]["isError"] == true {
            return;
        }
        let uri = || message.params()["uri"].as_str().unwrap_or_default().to_owned();
        match (message.method(), message.tool()) {
            (_, Some("agent_register")) if !self.told => {
                if let Some(id) = answer["result"]["structuredContent"]["id"].as_str() {
                    *self.agent() = Some(id.to_owned());
                }
            }
            (Some("resources/subscribe"), _) => drop(self.session().followed.insert(uri())),
            (Some("resources/unsubscribe"), _) => drop(self.session().followed.remove(&uri())),
            _ => {}
        }
    }

    fn request(&self, link: &Link, method: Method) -> RequestBuilder {
        self.named(link.client.request(method, self.path, &[]))
    }

    /// Says who sends a request.
    fn named(&self, request: RequestBuilder) -> RequestBuilder {
        let place = self.instance.as_ref().and_then(|instance| HeaderValue::from_bytes(instance.as_bytes()).ok());
        let request = place.into_iter().fold(request, |request, place| request.header(INSTANCE, place));
        let Some(agent) = self.agent().clone() else { return request };
        let Ok(name) = HeaderValue::from_bytes(agent.as_bytes()) else { return request };
        let request = request.header("x-agent-id", name);
        match self.home.session(&agent) {
            Some(key) => request.header(SESSION, key),
            None => request,
        }
    }

    fn next_key(&self) -> String {
        format!("{}-{}", self.prefix, self.keys.fetch_add(1, Ordering::Relaxed))
    }

    /// A client that is gone needs no answers.
    async fn write(&self, message: Value) {
        drop(self.out.send(message).await);
    }

    fn link(&self) -> Arc<Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_link(&self, link: Link) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(link);
    }

    fn session_known_for(&self) -> MutexGuard<'_, Option<String>> {
        self.session_known_for.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn agent(&self) -> MutexGuard<'_, Option<String>> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to say of a message when the daemon does not come back.
fn given_up(lost: &SendFailure, reason: String) -> Failed {
    match lost {
        SendFailure::Underway => Failed::unknown(),
        SendFailure::Before | SendFailure::Refused(_) => Failed::unreachable(reason),
    }
}
