//! An agent's HTTP endpoint that reacts as a test configures: accepts, fails, hangs, or answers late.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_testkit::daemon::Daemon;
use rookery_testkit::wait;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The reaction of an endpoint to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    Answer(u16),
    /// Redirects to itself.
    Redirect,
    /// Receives the message and never answers.
    Hang,
    /// Receives the message and closes the connection without an answer.
    Cut,
}

/// A request as received.
#[derive(Clone, PartialEq, Debug)]
pub struct ReceivedRequest {
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub bytes: Vec<u8>,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn id(&self) -> &str {
        self.body["id"].as_str().unwrap()
    }
}

#[derive(Debug)]
struct State {
    received: Vec<ReceivedRequest>,
    /// The reactions to the next requests, then the one to all others.
    next: VecDeque<Reaction>,
    then: Reaction,
}

/// Serves until the end of its test.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Endpoint {
    pub async fn start(then: Reaction) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/clutch", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { received: vec![], next: VecDeque::new(), then }));
        let endpoint = Endpoint { url, state };
        tokio::spawn(endpoint.clone().serve(listener));
        endpoint
    }

    async fn serve(self, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            tokio::spawn(self.clone().converse(stream));
        }
    }

    async fn converse(self, mut stream: TcpStream) {
        while let Some(received) = request(&mut stream).await {
            let manner = {
                let mut state = self.state.lock().unwrap();
                state.received.push(received);
                state.next.pop_front().unwrap_or(state.then)
            };
            let answer = match manner {
                Reaction::Answer(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok"),
                Reaction::Redirect => format!("HTTP/1.1 307 X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", self.url),
                Reaction::Hang => {
                    // Until the client closes the connection.
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                Reaction::Cut => return,
            };
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn set_reactions(&self, next: &[Reaction], then: Reaction) {
        let mut state = self.state.lock().unwrap();
        (state.next, state.then) = (next.iter().copied().collect(), then);
    }

    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.state.lock().unwrap().received.clone()
    }

    pub fn ids(&self) -> Vec<String> {
        self.received().iter().map(|got| got.id().to_owned()).collect()
    }

    /// Waits for this many requests and returns all so far.
    pub async fn wait_for(&self, count: usize) -> Vec<ReceivedRequest> {
        let enough = || async { Ok(Some(self.received()).filter(|got| got.len() >= count)) };
        wait::eventually(&format!("{count} messages"), enough).await.unwrap_or_else(|error| {
            panic!("{error}: {:?}", self.ids());
        })
    }

    /// Registers an agent with this endpoint.
    pub async fn register_for(&self, daemon: &Daemon, agent: &str, more: Value) {
        let mut card = json!({"v": "clutch/0.1", "agent_id": agent, "endpoints": {"clutch": {"url": self.url}}});
        for (field, value) in more.as_object().unwrap() {
            card[field] = value.clone();
        }
        let request = daemon.request(reqwest::Method::PUT, &format!("/clutch/v0/agents/{agent}")).json(&card);
        let reply = rookery_testkit::daemon::read(request).await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

/// Reads the next request of a connection; `None` at its end.
async fn request(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut read = Vec::new();
    let head = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut chunk = [0; 4096];
        match tokio::time::timeout(Duration::from_secs(60), stream.read(&mut chunk)).await {
            Ok(Ok(count)) if count > 0 => read.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    };
    let text = String::from_utf8_lossy(&read[..head]).into_owned();
    let headers: Vec<(String, String)> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse().unwrap());
    let mut bytes = read[head..].to_vec();
    while bytes.len() < length.unwrap_or(0) {
        let mut chunk = [0; 65536];
        match stream.read(&mut chunk).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
    Some(ReceivedRequest { headers, body: serde_json::from_slice(&bytes).unwrap(), bytes })
}
