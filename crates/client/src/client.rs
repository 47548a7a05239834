//! Calls of the REST surface. Every failure becomes a [`ClientError`].

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use rookery_core::AgentId;
use rookery_core::kernel::session_key::TeamSession;
use serde::Serialize;
use serde_json::Value;

use crate::address::{Address, Locate};
use crate::credentials::{Proof, SessionIssuer};
use crate::error::ClientError;
use crate::idempotency_key::Keys;
use crate::retry::{RetryBudget, RetrySafety};

/// The header with the key of a session.
pub const SESSION: &str = "x-rookery-session";
/// The header with the instance of a caller without an agent id.
pub const INSTANCE: &str = "x-rookery-instance";
/// The header of errors from the gate of a sandbox, when no daemon answered it.
pub const GATE: &str = "x-rookery-gate";
/// The header with the idempotency key.
pub(crate) const KEY: &str = "idempotency-key";
/// Short, since the daemon is on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than the daemon's own limit, so that its answer arrives first.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);
/// Short, since many commands begin with a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The body of an answer, with the position in the log that it reflects.
#[derive(Debug)]
pub struct RestAnswer {
    pub body: Value,
    pub position: Option<String>,
}

/// Calls the daemon of one project. Clones share the connection and its address.
#[derive(Clone, Debug)]
pub struct Client {
    link: Arc<RwLock<Arc<DaemonConnection>>>,
    locator: Option<Arc<dyn Locate>>,
    retry_timeout: Duration,
    proof: Proof,
    keys: Keys,
}

/// The connection to a daemon.
#[derive(Debug)]
struct DaemonConnection {
    http: reqwest::Client,
    base: Url,
    address: Address,
    by_socket: bool,
}

impl Client {
    /// Creates a client of the daemon at this address, without retries.
    pub fn new(address: Address, proof: Proof) -> Result<Self, ClientError> {
        let link = Arc::new(RwLock::new(Arc::new(DaemonConnection::to(address)?)));
        Ok(Self { link, locator: None, retry_timeout: Duration::ZERO, proof, keys: Keys::new()? })
    }

    /// Sets the locator, which finds the daemon when it does not answer at the last address.
    #[must_use]
    pub fn with_locator(self, locator: Arc<dyn Locate>) -> Self {
        Self { locator: Some(locator), ..self }
    }

    /// Retries calls for about this long while the daemon is unavailable. Calls that change something get an idempotency key.
    #[must_use]
    pub fn with_retry_timeout(self, retry_timeout: Duration) -> Self {
        Self { retry_timeout, ..self }
    }

    /// Sets other credentials.
    #[must_use]
    pub fn with_proof(self, proof: Proof) -> Self {
        Self { proof, ..self }
    }

    /// Returns a client that acts as an agent. Only the project's owner can do that.
    pub fn as_agent(&self, agent: &str) -> Result<Self, ClientError> {
        let proof = Proof::Agent { person_key: self.person_key()?.to_owned(), agent: agent.to_owned() };
        Ok(self.clone().with_proof(proof))
    }

    /// Creates the issuer of session keys for programs of the agent. The keys are valid only for this agent, and end with the
    /// generation of the team.
    pub fn session_issuer(&self, agent: &AgentId, team: TeamSession) -> Result<SessionIssuer, ClientError> {
        Ok(SessionIssuer::new(self.person_key()?, agent.clone(), Some(team)))
    }

    fn person_key(&self) -> Result<&str, ClientError> {
        match &self.proof {
            Proof::Person(person_key) | Proof::Agent { person_key, .. } => Ok(person_key),
            Proof::Token(_) | Proof::Session(_) | Proof::Nothing => Err(ClientError::NotAPerson),
        }
    }

    /// The last known address of the daemon.
    pub fn address(&self) -> Address {
        self.link().address.clone()
    }

    /// Fails unless the daemon of this project answers at the address.
    pub async fn check_health(&self) -> Result<(), ClientError> {
        let link = self.link();
        let request = self.request(Method::GET, &["healthz"], &[]).timeout(HEALTH_TIMEOUT);
        // A request without effects has no unknown outcome: no answer means that there is no daemon.
        let response = request.send().await.map_err(|source| link.unreachable(source))?;
        let serves = response.headers().get("x-rookery-project").and_then(|id| id.to_str().ok());
        if serves.is_some_and(|id| id != link.address.project) {
            return Err(ClientError::OtherProject { url: link.display_url() });
        }
        link.accept(response).await.map(|_| ())
    }

    pub async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, ClientError> {
        Ok(self.get_at(path, query).await?.body)
    }

    pub async fn get_at(&self, path: &[&str], query: &[(&str, String)]) -> Result<RestAnswer, ClientError> {
        self.send_with_retry(RetrySafety::Always, || self.request(Method::GET, path, query)).await
    }

    pub async fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Value, ClientError> {
        self.change(|| self.request(Method::POST, path, &[]).json(body)).await
    }

    pub async fn put(&self, path: &[&str], body: &impl Serialize) -> Result<Value, ClientError> {
        self.change(|| self.request(Method::PUT, path, &[]).json(body)).await
    }

    pub async fn delete(&self, path: &[&str]) -> Result<Value, ClientError> {
        self.change(|| self.request(Method::DELETE, path, &[])).await
    }

    /// Sends a request that changes something, with an idempotency key if it may be retried.
    async fn change(&self, request: impl Fn() -> RequestBuilder) -> Result<Value, ClientError> {
        let answer = match self.key() {
            Some(key) => self.send_with_retry(RetrySafety::Always, || request().header(KEY, &key)).await?,
            None => self.send_with_retry(RetrySafety::IfNotSent, request).await?,
        };
        Ok(answer.body)
    }

    async fn send_with_retry(
        &self,
        safety: RetrySafety,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<RestAnswer, ClientError> {
        let mut budget = self.retry_budget();
        loop {
            let error = match self.answer_to(request().timeout(CALL_TIMEOUT)).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            budget.wait_or_give_up(error, safety).await?;
            self.refresh_address();
        }
    }

    async fn answer_to(&self, request: RequestBuilder) -> Result<RestAnswer, ClientError> {
        let response = self.send(request).await?;
        let position = response.headers().get("x-rookery-seq").and_then(|seq| seq.to_str().ok()).map(str::to_owned);
        Ok(RestAnswer { body: json(response).await?, position })
    }

    /// Stores bytes as an artifact. Returns its name, `sha256:` and the hash.
    pub async fn upload_artifact(&self, bytes: Vec<u8>) -> Result<String, ClientError> {
        let request = self.request(Method::POST, &["clutch", "v0", "artifacts"], &[]).timeout(CALL_TIMEOUT);
        let answer = self.json_of(request.header("content-type", "application/octet-stream").body(bytes)).await?;
        Ok(format!("sha256:{}", answer["sha256"].as_str().unwrap_or_default()))
    }

    /// Opens an event stream; `last` resumes after a position.
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

    /// Sends a request of [`Client::request`] once. Returns an error unless its status is a success.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let link = self.link();
        let response = request.send().await.map_err(|source| link.not_sent(source))?;
        link.accept(response).await
    }

    /// As [`Client::send`], and parses the body.
    pub async fn json_of(&self, request: RequestBuilder) -> Result<Value, ClientError> {
        Ok(self.answer_to(request).await?.body)
    }

    /// Creates a request that the caller completes and sends.
    pub fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let link = self.link();
        let mut url = link.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.proof.authenticate(link.http.request(method, url).header("x-rookery-project", &link.address.project))
    }

    pub(crate) fn retry_budget(&self) -> RetryBudget {
        RetryBudget::new(self.retry_timeout)
    }

    /// Returns an idempotency key, if calls are retried.
    pub(crate) fn key(&self) -> Option<String> {
        (!self.retry_timeout.is_zero()).then(|| self.keys.next())
    }

    /// Connects to the current address of the daemon, if it has changed.
    pub(crate) fn refresh_address(&self) {
        let old = self.link();
        let address = self.locator.as_ref().and_then(|locator| locator.locate());
        let address = address.unwrap_or_else(|| old.address.clone());
        if address == old.address && old.by_socket == has_socket(&address) {
            return;
        }
        if let Ok(link) = DaemonConnection::to(address) {
            *self.link.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(link);
        }
    }

    fn link(&self) -> Arc<DaemonConnection> {
        self.link.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl DaemonConnection {
    fn to(address: Address) -> Result<Self, ClientError> {
        // Fails only if a provider is installed already.
        rustls::crypto::ring::default_provider().install_default().ok();
        let wrong = || ClientError::Address { url: address.url.clone() };
        let mut base = Url::parse(&address.url).ok().filter(|url| !url.cannot_be_a_base()).ok_or_else(wrong)?;
        // The daemon is on this machine: no proxy is used, and no public certificate authority is trusted.
        let mut http = reqwest::Client::builder().no_proxy().tls_certs_only([]).connect_timeout(CONNECT_TIMEOUT);
        let by_socket = has_socket(&address);
        if let Some(socket) = address.socket.as_ref().filter(|_| by_socket) {
            // Only this user can access the socket, so it needs no certificate. The daemon accepts any host name on it.
            http = http.unix_socket(socket.clone());
            base = Url::parse("http://localhost").map_err(|_| wrong())?;
        }
        let http = http
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("rookery-client/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(ClientError::Setup)?;
        Ok(Self { http, base, address, by_socket })
    }

    /// The address for messages.
    fn display_url(&self) -> String {
        self.address.url.trim_end_matches('/').to_owned()
    }

    /// Distinguishes a failure to connect from an unknown outcome.
    fn not_sent(&self, source: reqwest::Error) -> ClientError {
        if source.is_connect() || source.is_builder() { self.unreachable(source) } else { unknown(source) }
    }

    fn unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.display_url(), source: source.without_url() }
    }

    /// Returns a success, and parses a rejection into an error.
    async fn accept(&self, response: Response) -> Result<Response, ClientError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::BAD_GATEWAY
            && response.headers().contains_key(GATE)
            && let Err(source) = response.error_for_status_ref()
        {
            return Err(self.unreachable(source));
        }
        if status == StatusCode::MISDIRECTED_REQUEST {
            return Err(ClientError::OtherProject { url: self.display_url() });
        }
        let bytes = response.bytes().await.map_err(unknown)?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        // A rejected claim has `reason` where other rejections have `error`, and Clutch has `message`.
        let error = text("error").or_else(|| text("reason")).or_else(|| text("message"));
        let error = error.unwrap_or_else(|| format!("the daemon answered {status}"));
        let hint = text("hint").or_else(|| body["details"]["hint"].as_str().map(str::to_owned));
        Err(ClientError::Refused { status: status.as_u16(), error, code: text("code"), hint, detail: None })
    }
}

fn has_socket(address: &Address) -> bool {
    address.socket.as_ref().is_some_and(|socket| socket.exists())
}

async fn json(response: Response) -> Result<Value, ClientError> {
    let bytes = response.bytes().await.map_err(unknown)?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(ClientError::Garbled)
}

/// It was sent, and then nothing whole came back.
pub(crate) fn unknown(source: reqwest::Error) -> ClientError {
    ClientError::Unknown(source.without_url())
}

#[cfg(test)]
pub(crate) mod tests {
    use rookery_testkit::stub_server::StubServer;
    use serde_json::json;

    use super::*;

    pub(crate) fn address_of(daemon: &StubServer) -> Address {
        Address { url: daemon.url().to_owned(), socket: None, project: "prj_1".into() }
    }

    pub(crate) fn client_of(daemon: &StubServer) -> Client {
        Client::new(address_of(daemon), Proof::Person("secret".into())).unwrap()
    }

    async fn refused(answer: &str) -> ClientError {
        let daemon = StubServer::start(answer).await.unwrap();
        client_of(&daemon).post(&["tasks", "t/1", "assign"], &json!({"agent_id": "a"})).await.unwrap_err()
    }

    #[tokio::test]
    async fn call_carries_credentials_and_project() {
        let daemon = StubServer::start("200 OK\r\nX-Rookery-Seq: log_1:7\r\n\r\n{\"ok\":true}").await.unwrap();
        let query = [("agent_id", "a b".to_owned())];
        let answer = client_of(&daemon).get_at(&["resources", "src", "ä b.rs"], &query).await.unwrap();
        assert_eq!((answer.body, answer.position.as_deref()), (json!({"ok": true}), Some("log_1:7")));
        let request = daemon.requests().join("");
        assert!(request.starts_with("GET /resources/src/%C3%A4%20b.rs?agent_id=a+b HTTP/1.1"), "{request}");
        assert!(request.contains("authorization: Bearer secret\r\n"), "{request}");
        assert!(request.contains("x-rookery-project: prj_1\r\n"), "{request}");
    }

    #[tokio::test]
    async fn rejection_keeps_error_code_and_hint() {
        let answer = "409 Conflict\r\n\r\n{\"error\":\"Held by b\",\"code\":\"ALREADY_CLAIMED\",\"hint\":\"wait\"}";
        let error = refused(answer).await;
        assert_eq!(error.to_string(), "Held by b");
        assert_eq!((error.code(), error.hint().as_str()), (Some("ALREADY_CLAIMED"), "wait"));
        assert_eq!((error.exit_code(), error.status()), (1, Some(409)));
    }

    #[tokio::test]
    async fn clutch_rejection_is_parsed() {
        let answer = "404 Not Found\r\n\r\n{\"message\":\"no such\",\"code\":\"X\",\"retryable\":false,\"details\":{\"hint\":\"look\"}}";
        let error = refused(answer).await;
        assert_eq!((error.to_string().as_str(), error.hint().as_str()), ("no such", "look"));
    }

    #[tokio::test]
    async fn rejection_without_body_has_a_hint() {
        let error = refused("503 Service Unavailable\r\n\r\n<html>").await;
        assert_eq!(error.to_string(), "the daemon answered 503 Service Unavailable");
        assert!(error.hint().starts_with("wait a moment"), "{}", error.hint());
    }

    #[tokio::test]
    async fn daemon_of_another_project_counts_as_unreachable() {
        let error = refused("421 Misdirected Request\r\n\r\n{}").await;
        assert_eq!(error.exit_code(), 3);
        let daemon = StubServer::start("200 OK\r\nX-Rookery-Project: prj_2\r\n\r\n{}").await.unwrap();
        let error = client_of(&daemon).check_health().await.unwrap_err();
        assert!(matches!(error, ClientError::OtherProject { .. }), "{error}");
    }

    #[tokio::test]
    async fn missing_answer_is_an_unknown_outcome() {
        let error = refused("").await;
        assert!(matches!(error, ClientError::Unknown(_)), "{error:?}");
        assert!(error.hint().contains("rookery log"));
        let silent = StubServer::start("").await.unwrap();
        let error = client_of(&silent).check_health().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn closed_port_is_unreachable() {
        let daemon = StubServer::start("200 OK\r\n\r\n{}").await.unwrap();
        let client = client_of(&daemon);
        drop(daemon);
        let error = client.get(&["status"], &[]).await.unwrap_err();
        assert_eq!(error.exit_code(), 3, "{error:?}");
    }

    #[tokio::test]
    async fn answer_that_is_not_json_is_garbled() {
        let daemon = StubServer::start("200 OK\r\n\r\nhello").await.unwrap();
        let error = client_of(&daemon).get(&["status"], &[]).await.unwrap_err();
        assert!(matches!(error, ClientError::Garbled(_)), "{error}");
    }

    /// Locates a daemon that moved.
    #[derive(Debug)]
    struct Moved(Address);

    impl Locate for Moved {
        fn locate(&self) -> Option<Address> {
            Some(self.0.clone())
        }
    }

    #[tokio::test]
    async fn retrying_client_finds_a_moved_daemon() {
        let (old, new) =
            (StubServer::start("").await.unwrap(), StubServer::start("200 OK\r\n\r\n{\"ok\":true}").await.unwrap());
        let client =
            client_of(&old).with_locator(Arc::new(Moved(address_of(&new)))).with_retry_timeout(Duration::from_secs(60));
        let clone = client.clone();
        assert_eq!(client.post(&["tasks"], &json!({})).await.unwrap(), json!({"ok": true}));
        let key = |daemon: &StubServer| {
            let requests = daemon.requests().join("");
            requests.lines().find(|line| line.starts_with("idempotency-key: ")).map(str::to_owned)
        };
        assert!(key(&old).is_some());
        assert_eq!(key(&old), key(&new), "a call that may have arrived is retried with its key");
        assert_eq!(clone.address(), address_of(&new));
    }

    #[tokio::test]
    async fn only_the_project_owner_can_act_as_an_agent() {
        let daemon = StubServer::start("200 OK\r\n\r\n{}").await.unwrap();
        let agent = client_of(&daemon).as_agent("ada@pr-1").unwrap();
        agent.get(&["status"], &[]).await.unwrap();
        let request = daemon.requests().join("");
        assert!(request.contains("x-rookery-session: rks."), "{request}");
        assert!(!request.contains("secret"), "{request}");
        let token = client_of(&daemon).with_proof(Proof::Token("t".into()));
        assert!(matches!(token.as_agent("ada"), Err(ClientError::NotAPerson)));
        let team = TeamSession { team: "ada".into(), generation: 1 };
        assert!(matches!(token.session_issuer(&"ada".into(), team), Err(ClientError::NotAPerson)));
    }
}
