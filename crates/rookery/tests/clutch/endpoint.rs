//! An agent's own HTTP endpoint, which behaves as a test says: takes messages, fails, hangs, answers late.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_testkit::daemon::Daemon;
use rookery_testkit::wait;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What an endpoint does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    Answer(u16),
    /// Redirects to itself.
    Redirect,
    /// Takes it and never answers.
    Hang,
    /// Closes the connection without an answer, though it has the message.
    Cut,
}

/// A request as it came in.
#[derive(Clone, PartialEq, Debug)]
pub struct Got {
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub bytes: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn id(&self) -> &str {
        self.body["id"].as_str().unwrap()
    }
}

#[derive(Debug)]
struct State {
    got: Vec<Got>,
    /// What is done with the next ones, then with all others.
    next: VecDeque<Manner>,
    then: Manner,
}

/// Serves as long as its test lasts.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Endpoint {
    pub async fn start(then: Manner) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/clutch", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { got: vec![], next: VecDeque::new(), then }));
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
        while let Some(got) = request(&mut stream).await {
            let manner = {
                let mut state = self.state.lock().unwrap();
                state.got.push(got);
                state.next.pop_front().unwrap_or(state.then)
            };
            let answer = match manner {
                Manner::Answer(status) => format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok"),
                Manner::Redirect => format!("HTTP/1.1 307 X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", self.url),
                Manner::Hang => {
                    // Until the other side has enough of it.
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                Manner::Cut => return,
            };
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn does(&self, next: &[Manner], then: Manner) {
        let mut state = self.state.lock().unwrap();
        (state.next, state.then) = (next.iter().copied().collect(), then);
    }

    pub fn got(&self) -> Vec<Got> {
        self.state.lock().unwrap().got.clone()
    }

    pub fn ids(&self) -> Vec<String> {
        self.got().iter().map(|got| got.id().to_owned()).collect()
    }

    /// What it got once these were so many.
    pub async fn has(&self, count: usize) -> Vec<Got> {
        let enough = || async { Ok(Some(self.got()).filter(|got| got.len() >= count)) };
        wait::eventually(&format!("{count} messages"), enough).await.unwrap_or_else(|error| {
            panic!("{error}: {:?}", self.ids());
        })
    }

    /// Registers an agent that takes messages here.
    pub async fn is_of(&self, daemon: &Daemon, agent: &str, more: Value) {
        let mut card = json!({"v": "clutch/0.1", "agent_id": agent, "endpoints": {"clutch": {"url": self.url}}});
        for (field, value) in more.as_object().unwrap() {
            card[field] = value.clone();
        }
        let request = daemon.request(reqwest::Method::PUT, &format!("/clutch/v0/agents/{agent}")).json(&card);
        let reply = rookery_testkit::daemon::read(request).await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

/// The next request of a connection; nothing if it ended.
async fn request(stream: &mut TcpStream) -> Option<Got> {
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
    Some(Got { headers, body: serde_json::from_slice(&bytes).unwrap(), bytes })
}
