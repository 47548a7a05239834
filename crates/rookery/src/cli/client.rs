//! The client of a running daemon: the REST face, spoken as the person who owns the project.
//!
//! Turns every way in which a call can fail into one [`ClientError`] with a hint and an exit code. Prints nothing.

use std::fmt;
use std::time::Duration;

use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde_json::Value;

use super::failure::Exit;
use crate::project::DaemonFile;

/// The header with the key of a session.
pub const SESSION: &str = "x-rookery-session";
/// The header that says where somebody looks around who gave no name.
pub const INSTANCE: &str = "x-rookery-instance";
/// Loopback answers at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Above the daemon's own limit, so that its answer wins.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);
/// A health check must not make a command feel slow.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// How a call to the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    #[error("the daemon's address `{url}` is not one")]
    Address { url: String },
    #[error("no daemon answers at {url}")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("the daemon did not finish its answer; whether it did what was asked is unknown")]
    Unknown(#[source] reqwest::Error),
    #[error("the daemon did not finish its answer; whether it did what was asked is unknown")]
    Cut,
    #[error("the daemon at {url} serves another project")]
    OtherProject { url: String },
    #[error("{error}")]
    Refused {
        status: u16,
        error: String,
        code: Option<String>,
        hint: Option<String>,
        /// What else the daemon told, such as the newer text of a document.
        detail: Option<Value>,
    },
    #[error("the daemon's answer is not what this program understands")]
    Garbled(#[source] serde_json::Error),
}

impl ClientError {
    /// What the person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Setup(_) | Self::Address { .. } => "`rookery doctor` checks the set-up".into(),
            Self::Unreachable { .. } => "start it with `rookery up`".into(),
            Self::Unknown(_) | Self::Cut => "look with `rookery log` before you try again".into(),
            Self::OtherProject { .. } => "start this project's own daemon with `rookery up`".into(),
            Self::Refused { hint: Some(hint), .. } => hint.clone(),
            Self::Refused { status, .. } => refusal_hint(*status).into(),
            Self::Garbled(_) => "the daemon may be of another version: `rookery down`, then `rookery up`".into(),
        }
    }

    /// The daemon's own code for its refusal.
    pub fn code(&self) -> Option<String> {
        match self {
            Self::Refused { code, .. } => code.clone(),
            _ => None,
        }
    }

    /// What else the daemon told, for scripts.
    pub fn detail(&self) -> Option<Value> {
        match self {
            Self::Refused { detail, .. } => detail.clone(),
            _ => None,
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Unreachable { .. } | Self::OtherProject { .. } => Exit::Unreachable,
            _ => Exit::Failed,
        }
    }

    /// The status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// What to do about a refusal that brought no hint of its own.
fn refusal_hint(status: u16) -> &'static str {
    match status {
        401 | 403 => "the person's key of this project (.rookery/person.key) is needed for this",
        404 => "check the name; `rookery status` and its neighbours list what there is",
        409 => "look at the current state, then decide again",
        413 => "nothing was done: shorten it, or put the long part into a file and name that",
        410 => "start again from the current state",
        429 | 503 => "wait a moment and try again; `rookery status` shows how busy the daemon is",
        500.. => "`rookery doctor` checks the daemon; its log is .rookery/log/daemon.log",
        _ => "check the arguments",
    }
}

/// An answer and the position in the log that it is true at.
#[derive(Debug)]
pub struct Answer {
    pub body: Value,
    pub position: Option<String>,
}

/// What a client shows of itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// A token, or the person's key.
    Bearer(String),
    /// The key of a session, which names its agent.
    Session(String),
    Nothing,
}

impl Proof {
    /// What this process was given by whoever started it for an agent.
    pub fn inherited() -> Proof {
        match std::env::var("ROOKERY_SESSION") {
            Ok(key) if !key.is_empty() => Proof::Session(key),
            _ => Proof::Nothing,
        }
    }
}

impl fmt::Debug for Proof {
    /// A secret is never written to a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::Bearer(_) => "Bearer(…)",
            Proof::Session(_) => "Session(…)",
            Proof::Nothing => "Nothing",
        })
    }
}

/// Calls one daemon.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    /// The address as the daemon tells it, for messages.
    shown: String,
    proof: Proof,
    project: String,
}

impl Client {
    /// A client for the daemon that `file` describes.
    pub fn new(file: &DaemonFile, proof: Proof) -> Result<Self, ClientError> {
        // Fails only if another part of this process was first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = Url::parse(&file.url).ok().filter(|url| !url.cannot_be_a_base());
        let base = base.ok_or_else(|| ClientError::Address { url: file.url.clone() })?;
        // The daemon is this machine's own: no proxy may stand between, and no public authority vouches for it.
        let mut http = reqwest::Client::builder().no_proxy().tls_certs_only([]).connect_timeout(CONNECT_TIMEOUT);
        let mut base = base;
        if let Some(socket) = file.socket.as_ref().filter(|socket| socket.exists()) {
            // The socket is this user's own: nobody has to vouch for a certificate, and whatever address the daemon is
            // bound to, it takes calls here by any name.
            http = http.unix_socket(socket.clone());
            base = Url::parse("http://localhost").map_err(|_| ClientError::Address { url: file.url.clone() })?;
        }
        let http = http
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("rookery-cli/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ClientError::Setup)?;
        let shown = file.url.trim_end_matches('/').to_owned();
        Ok(Self { http, base, shown, proof, project: file.project.clone() })
    }

    /// The same daemon, shown something else.
    #[must_use]
    pub fn with_proof(self, proof: Proof) -> Self {
        Self { proof, ..self }
    }

    pub fn url(&self) -> &str {
        &self.shown
    }

    /// Whether this project's daemon answers at the address at all.
    pub async fn check_health(&self) -> Result<(), ClientError> {
        let request = self.request(Method::GET, &["healthz"], &[]).timeout(HEALTH_TIMEOUT);
        // A question that changes nothing has no unknown outcome: silence means that nobody is there.
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        let serves = response.headers().get("x-rookery-project").and_then(|id| id.to_str().ok());
        if serves.is_some_and(|id| id != self.project) {
            return Err(ClientError::OtherProject { url: self.url().into() });
        }
        self.accept(response).await.map(|_| ())
    }

    pub async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, ClientError> {
        Ok(self.get_at(path, query).await?.body)
    }

    pub async fn get_at(&self, path: &[&str], query: &[(&str, String)]) -> Result<Answer, ClientError> {
        let request = self.request(Method::GET, path, query).timeout(CALL_TIMEOUT);
        let response = request.send().await.map_err(|source| self.not_sent(source))?;
        let position = response.headers().get("x-rookery-seq").and_then(|seq| seq.to_str().ok()).map(str::to_owned);
        Ok(Answer { body: self.json(response).await?, position })
    }

    pub async fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Value, ClientError> {
        let request = self.request(Method::POST, path, &[]).timeout(CALL_TIMEOUT).json(body);
        self.json(request.send().await.map_err(|source| self.not_sent(source))?).await
    }

    pub async fn put(&self, path: &[&str], body: &impl Serialize) -> Result<Value, ClientError> {
        let request = self.request(Method::PUT, path, &[]).timeout(CALL_TIMEOUT).json(body);
        self.json(request.send().await.map_err(|source| self.not_sent(source))?).await
    }

    pub async fn delete(&self, path: &[&str]) -> Result<Value, ClientError> {
        let request = self.request(Method::DELETE, path, &[]).timeout(CALL_TIMEOUT);
        self.json(request.send().await.map_err(|source| self.not_sent(source))?).await
    }

    /// Opens an endless answer; `last` resumes after a position.
    pub async fn stream(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        last: Option<&str>,
    ) -> Result<Response, ClientError> {
        let mut request = self.request(Method::GET, path, query).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        self.send(request).await
    }

    /// Sends a request that was made with [`Client::request`], and lets a success through.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|source| self.not_sent(source))?;
        self.accept(response).await
    }

    /// The same, and reads its answer.
    pub async fn json_of(&self, request: reqwest::RequestBuilder) -> Result<Value, ClientError> {
        self.json(request.send().await.map_err(|source| self.not_sent(source))?).await
    }

    /// A request to the daemon that the caller completes and sends itself.
    pub fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> reqwest::RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url).header("x-rookery-project", &self.project);
        match &self.proof {
            Proof::Bearer(secret) => request.bearer_auth(secret),
            Proof::Session(key) => request.header(SESSION, key),
            Proof::Nothing => request,
        }
    }

    /// Tells "never reached it" from "reached it, and then silence".
    fn not_sent(&self, source: reqwest::Error) -> ClientError {
        if source.is_connect() || source.is_builder() {
            self.unreachable(source)
        } else {
            ClientError::Unknown(source.without_url())
        }
    }

    fn unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.url().into(), source: source.without_url() }
    }

    async fn json(&self, response: Response) -> Result<Value, ClientError> {
        let bytes = self.accept(response).await?.bytes().await;
        let bytes = bytes.map_err(|source| ClientError::Unknown(source.without_url()))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(ClientError::Garbled)
    }

    /// Lets a success through and reads what a refusal says.
    async fn accept(&self, response: Response) -> Result<Response, ClientError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::MISDIRECTED_REQUEST {
            return Err(ClientError::OtherProject { url: self.url().into() });
        }
        let body: Value = match response.bytes().await {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            Err(source) => return Err(ClientError::Unknown(source.without_url())),
        };
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        // A refused claim has a reason where other refusals have an error, and Clutch has a message.
        let error = text("error").or_else(|| text("reason")).or_else(|| text("message"));
        let error = error.unwrap_or_else(|| format!("the daemon answered {status}"));
        let hint = text("hint").or_else(|| body["details"]["hint"].as_str().map(str::to_owned));
        Err(ClientError::Refused { status: status.as_u16(), error, code: text("code"), hint, detail: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::StandIn;
    use super::*;
    use serde_json::json;

    async fn refused(answer: &str) -> ClientError {
        let daemon = StandIn::answering(answer).await;
        daemon.client().post(&["tasks", "t/1", "assign"], &json!({"agent_id": "a"})).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_call_carries_the_key_and_the_project() {
        let daemon = StandIn::answering("200 OK\r\nX-Rookery-Seq: log_1:7\r\n\r\n{\"ok\":true}").await;
        let query = [("agent_id", "a b".to_owned())];
        let answer = daemon.client().get_at(&["resources", "src", "ä b.rs"], &query).await.unwrap();
        assert_eq!((answer.body, answer.position.as_deref()), (json!({"ok": true}), Some("log_1:7")));
        let request = daemon.requests().join("");
        assert!(request.starts_with("GET /resources/src/%C3%A4%20b.rs?agent_id=a+b HTTP/1.1"), "{request}");
        assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
        assert!(request.contains("x-rookery-project: prj_1\r\n"), "{request}");
    }

    #[tokio::test]
    async fn a_refusal_keeps_error_code_and_hint() {
        let answer = "409 Conflict\r\n\r\n{\"error\":\"Held by b\",\"code\":\"ALREADY_CLAIMED\",\"hint\":\"wait\"}";
        let error = refused(answer).await;
        assert_eq!(error.to_string(), "Held by b");
        assert_eq!((error.code().as_deref(), error.hint().as_str()), (Some("ALREADY_CLAIMED"), "wait"));
        assert_eq!((error.exit(), error.status()), (Exit::Failed, Some(409)));
    }

    #[tokio::test]
    async fn a_refusal_of_clutch_is_read_too() {
        let answer = "404 Not Found\r\n\r\n{\"message\":\"no such\",\"code\":\"X\",\"retryable\":false,\"details\":{\"hint\":\"look\"}}";
        let error = refused(answer).await;
        assert_eq!((error.to_string().as_str(), error.hint().as_str()), ("no such", "look"));
    }

    #[tokio::test]
    async fn a_refusal_without_words_still_says_what_to_do() {
        let error = refused("503 Service Unavailable\r\n\r\n<html>").await;
        assert_eq!(error.to_string(), "the daemon answered 503 Service Unavailable");
        assert!(error.hint().starts_with("wait a moment"), "{}", error.hint());
    }

    #[tokio::test]
    async fn another_projects_daemon_counts_as_not_reachable() {
        let error = refused("421 Misdirected Request\r\n\r\n{}").await;
        assert_eq!(error.exit(), Exit::Unreachable);
        let daemon = StandIn::answering("200 OK\r\nX-Rookery-Project: prj_2\r\n\r\n{}").await;
        let error = daemon.client().check_health().await.unwrap_err();
        assert!(matches!(error, ClientError::OtherProject { .. }), "{error}");
    }

    #[tokio::test]
    async fn silence_after_a_request_is_an_unknown_outcome() {
        let error = refused("").await;
        assert!(matches!(error, ClientError::Unknown(_)), "{error:?}");
        assert!(error.hint().contains("rookery log"));
        let silent = StandIn::answering("").await;
        let error = silent.client().check_health().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_closed_port_is_not_reachable() {
        let daemon = StandIn::answering("200 OK\r\n\r\n{}").await;
        let client = daemon.client();
        drop(daemon);
        let error = client.get(&["status"], &[]).await.unwrap_err();
        assert_eq!(error.exit(), Exit::Unreachable, "{error:?}");
    }

    #[tokio::test]
    async fn an_answer_that_is_no_json_is_garbled() {
        let daemon = StandIn::answering("200 OK\r\n\r\nhello").await;
        let error = daemon.client().get(&["status"], &[]).await.unwrap_err();
        assert!(matches!(error, ClientError::Garbled(_)), "{error}");
    }
}
