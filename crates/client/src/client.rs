//! Calls of the REST face. Turns every way in which a call can fail into one [`ClientError`].

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use rookery_core::AgentId;
use rookery_core::kernel::session_key::TeamSession;
use serde::Serialize;
use serde_json::Value;

use crate::address::{Address, Whereabouts};
use crate::credentials::{Proof, SessionIssuer};
use crate::error::ClientError;
use crate::idempotency_key::Keys;
use crate::retry::{Repeat, RetryBudget};

/// The header with the key of a session.
pub const SESSION: &str = "x-rookery-session";
/// The header that says where somebody looks around who gave no name.
pub const INSTANCE: &str = "x-rookery-instance";
/// The header of answers that come from the gate of a sandbox because no daemon answered it.
pub const GATE: &str = "x-rookery-gate";
/// The header under which a call is done once, however often it is sent.
pub(crate) const KEY: &str = "idempotency-key";
/// Loopback answers at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Above the daemon's own limit, so that its answer wins.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);
/// A health check must not make a command feel slow.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// An answer and the position in the log that it is true at.
#[derive(Debug)]
pub struct Answer {
    pub body: Value,
    pub position: Option<String>,
}

/// Calls one project's daemon. Clones share the way to it, and find it again together.
#[derive(Clone, Debug)]
pub struct Client {
    link: Arc<RwLock<Arc<Link>>>,
    whereabouts: Option<Arc<dyn Whereabouts>>,
    retry_timeout: Duration,
    proof: Proof,
    keys: Keys,
}

/// The way to a daemon.
#[derive(Debug)]
struct Link {
    http: reqwest::Client,
    base: Url,
    address: Address,
    by_socket: bool,
}

impl Client {
    /// A client of the daemon at this address, which asks once.
    pub fn new(address: Address, proof: Proof) -> Result<Self, ClientError> {
        let link = Arc::new(RwLock::new(Arc::new(Link::to(address)?)));
        Ok(Self { link, whereabouts: None, retry_timeout: Duration::ZERO, proof, keys: Keys::new()? })
    }

    /// One that looks for the daemon where this says, when it does not answer where it was.
    #[must_use]
    pub fn found_by(self, whereabouts: Arc<dyn Whereabouts>) -> Self {
        Self { whereabouts: Some(whereabouts), ..self }
    }

    /// One that asks again while the daemon is away, about that long, with a key for what changes something.
    #[must_use]
    pub fn with_retry_timeout(self, retry_timeout: Duration) -> Self {
        Self { retry_timeout, ..self }
    }

    /// The same daemon, shown something else.
    #[must_use]
    pub fn with_proof(self, proof: Proof) -> Self {
        Self { proof, ..self }
    }

    /// The same daemon, spoken to as an agent. Only the project's owner can do that.
    pub fn as_agent(&self, agent: &str) -> Result<Self, ClientError> {
        let proof = Proof::Agent { person_key: self.person_key()?.to_owned(), agent: agent.to_owned() };
        Ok(self.clone().with_proof(proof))
    }

    /// Makes the keys by which programs that are started for the agent prove it. They name no other agent, open nothing
    /// else, and end with the generation of the team.
    pub fn session_issuer(&self, agent: &AgentId, team: TeamSession) -> Result<SessionIssuer, ClientError> {
        Ok(SessionIssuer::new(self.person_key()?, agent.clone(), Some(team)))
    }

    fn person_key(&self) -> Result<&str, ClientError> {
        match &self.proof {
            Proof::Person(person_key) | Proof::Agent { person_key, .. } => Ok(person_key),
            Proof::Token(_) | Proof::Session(_) | Proof::Nothing => Err(ClientError::NotAPerson),
        }
    }

    /// Where the daemon is, or was when it was last found.
    pub fn address(&self) -> Address {
        self.link().address.clone()
    }

    /// Whether this project's daemon answers at the address at all.
    pub async fn check_health(&self) -> Result<(), ClientError> {
        let link = self.link();
        let request = self.request(Method::GET, &["healthz"], &[]).timeout(HEALTH_TIMEOUT);
        // A question that changes nothing has no unknown outcome: silence means that nobody is there.
        let response = request.send().await.map_err(|source| link.unreachable(source))?;
        let serves = response.headers().get("x-rookery-project").and_then(|id| id.to_str().ok());
        if serves.is_some_and(|id| id != link.address.project) {
            return Err(ClientError::OtherProject { url: link.shown() });
        }
        link.accept(response).await.map(|_| ())
    }

    pub async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, ClientError> {
        Ok(self.get_at(path, query).await?.body)
    }

    pub async fn get_at(&self, path: &[&str], query: &[(&str, String)]) -> Result<Answer, ClientError> {
        self.ask(Repeat::Freely, || self.request(Method::GET, path, query)).await
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

    /// Sends what changes something: under a key if it may be sent again.
    async fn change(&self, request: impl Fn() -> RequestBuilder) -> Result<Value, ClientError> {
        let answer = match self.key() {
            Some(key) => self.ask(Repeat::Freely, || request().header(KEY, &key)).await?,
            None => self.ask(Repeat::IfNotSent, request).await?,
        };
        Ok(answer.body)
    }

    async fn ask(&self, repeat: Repeat, request: impl Fn() -> RequestBuilder) -> Result<Answer, ClientError> {
        let mut budget = self.retry_budget();
        loop {
            let error = match self.answer_to(request().timeout(CALL_TIMEOUT)).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            budget.wait_or_give_up(error, repeat).await?;
            self.look_again();
        }
    }

    async fn answer_to(&self, request: RequestBuilder) -> Result<Answer, ClientError> {
        let response = self.send(request).await?;
        let position = response.headers().get("x-rookery-seq").and_then(|seq| seq.to_str().ok()).map(str::to_owned);
        Ok(Answer { body: json(response).await?, position })
    }

    /// Stores bytes as an artifact, and tells what it is called: `sha256:` and its hash.
    pub async fn upload_artifact(&self, bytes: Vec<u8>) -> Result<String, ClientError> {
        let request = self.request(Method::POST, &["clutch", "v0", "artifacts"], &[]).timeout(CALL_TIMEOUT);
        let answer = self.json_of(request.header("content-type", "application/octet-stream").body(bytes)).await?;
        Ok(format!("sha256:{}", answer["sha256"].as_str().unwrap_or_default()))
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

    /// Sends a request that was made with [`Client::request`] once, and lets a success through.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let link = self.link();
        let response = request.send().await.map_err(|source| link.not_sent(source))?;
        link.accept(response).await
    }

    /// The same, and reads its answer.
    pub async fn json_of(&self, request: RequestBuilder) -> Result<Value, ClientError> {
        Ok(self.answer_to(request).await?.body)
    }

    /// A request to the daemon that the caller completes and sends itself.
    pub fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let link = self.link();
        let mut url = link.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.proof.shown_with(link.http.request(method, url).header("x-rookery-project", &link.address.project))
    }

    pub(crate) fn retry_budget(&self) -> RetryBudget {
        RetryBudget::new(self.retry_timeout)
    }

    /// A key for a call that may be sent again.
    pub(crate) fn key(&self) -> Option<String> {
        (!self.retry_timeout.is_zero()).then(|| self.keys.next())
    }

    /// Goes to where the daemon is now, if that is elsewhere.
    pub(crate) fn look_again(&self) {
        let old = self.link();
        let address = self.whereabouts.as_ref().and_then(|whereabouts| whereabouts.now());
        let address = address.unwrap_or_else(|| old.address.clone());
        if address == old.address && old.by_socket == has_socket(&address) {
            return;
        }
        if let Ok(link) = Link::to(address) {
            *self.link.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(link);
        }
    }

    fn link(&self) -> Arc<Link> {
        self.link.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Link {
    fn to(address: Address) -> Result<Self, ClientError> {
        // Fails only if another part of this process was first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wrong = || ClientError::Address { url: address.url.clone() };
        let mut base = Url::parse(&address.url).ok().filter(|url| !url.cannot_be_a_base()).ok_or_else(wrong)?;
        // The daemon is this machine's own: no proxy may stand between, and no public authority vouches for it.
        let mut http = reqwest::Client::builder().no_proxy().tls_certs_only([]).connect_timeout(CONNECT_TIMEOUT);
        let by_socket = has_socket(&address);
        if let Some(socket) = address.socket.as_ref().filter(|_| by_socket) {
            // The socket is this user's own: nobody has to vouch for a certificate, and whatever address the daemon is
            // bound to, it takes calls here by any name.
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

    /// The address as the daemon tells it, for messages.
    fn shown(&self) -> String {
        self.address.url.trim_end_matches('/').to_owned()
    }

    /// Tells "never reached it" from "reached it, and then silence".
    fn not_sent(&self, source: reqwest::Error) -> ClientError {
        if source.is_connect() || source.is_builder() { self.unreachable(source) } else { unknown(source) }
    }

    fn unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable { url: self.shown(), source: source.without_url() }
    }

    /// Lets a success through and reads what a refusal says.
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
            return Err(ClientError::OtherProject { url: self.shown() });
        }
        let bytes = response.bytes().await.map_err(unknown)?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        // A refused claim has a reason where other refusals have an error, and Clutch has a message.
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
    async fn a_call_carries_the_key_and_the_project() {
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
    async fn a_refusal_keeps_error_code_and_hint() {
        let answer = "409 Conflict\r\n\r\n{\"error\":\"Held by b\",\"code\":\"ALREADY_CLAIMED\",\"hint\":\"wait\"}";
        let error = refused(answer).await;
        assert_eq!(error.to_string(), "Held by b");
        assert_eq!((error.code(), error.hint().as_str()), (Some("ALREADY_CLAIMED"), "wait"));
        assert_eq!((error.exit_code(), error.status()), (1, Some(409)));
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
        assert_eq!(error.exit_code(), 3);
        let daemon = StubServer::start("200 OK\r\nX-Rookery-Project: prj_2\r\n\r\n{}").await.unwrap();
        let error = client_of(&daemon).check_health().await.unwrap_err();
        assert!(matches!(error, ClientError::OtherProject { .. }), "{error}");
    }

    #[tokio::test]
    async fn silence_after_a_request_is_an_unknown_outcome() {
        let error = refused("").await;
        assert!(matches!(error, ClientError::Unknown(_)), "{error:?}");
        assert!(error.hint().contains("rookery log"));
        let silent = StubServer::start("").await.unwrap();
        let error = client_of(&silent).check_health().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_closed_port_is_not_reachable() {
        let daemon = StubServer::start("200 OK\r\n\r\n{}").await.unwrap();
        let client = client_of(&daemon);
        drop(daemon);
        let error = client.get(&["status"], &[]).await.unwrap_err();
        assert_eq!(error.exit_code(), 3, "{error:?}");
    }

    #[tokio::test]
    async fn an_answer_that_is_no_json_is_garbled() {
        let daemon = StubServer::start("200 OK\r\n\r\nhello").await.unwrap();
        let error = client_of(&daemon).get(&["status"], &[]).await.unwrap_err();
        assert!(matches!(error, ClientError::Garbled(_)), "{error}");
    }

    /// Where a daemon is that moves.
    #[derive(Debug)]
    struct Moved(Address);

    impl Whereabouts for Moved {
        fn now(&self) -> Option<Address> {
            Some(self.0.clone())
        }
    }

    #[tokio::test]
    async fn a_patient_client_finds_the_daemon_where_it_went() {
        let (old, new) =
            (StubServer::start("").await.unwrap(), StubServer::start("200 OK\r\n\r\n{\"ok\":true}").await.unwrap());
        let client =
            client_of(&old).found_by(Arc::new(Moved(address_of(&new)))).with_retry_timeout(Duration::from_secs(60));
        let clone = client.clone();
        assert_eq!(client.post(&["tasks"], &json!({})).await.unwrap(), json!({"ok": true}));
        let key = |daemon: &StubServer| {
            let requests = daemon.requests().join("");
            requests.lines().find(|line| line.starts_with("idempotency-key: ")).map(str::to_owned)
        };
        assert!(key(&old).is_some());
        assert_eq!(key(&old), key(&new), "what may have arrived is sent again under its key");
        assert_eq!(clone.address(), address_of(&new));
    }

    #[tokio::test]
    async fn an_agent_is_spoken_for_by_the_projects_owner_alone() {
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
