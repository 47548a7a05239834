//! A stand-in for a daemon in tests: answers every request with the same text, and remembers the requests.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::client::{Client, Proof};
use crate::project::DaemonFile;

pub(crate) struct StandIn {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl StandIn {
    /// Serves `answer` (status line, headers, an empty line, body); an empty one closes the connection unanswered.
    pub(crate) async fn answering(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), answer.to_owned());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let request = answer_one(stream, &answer).await;
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            }
        });
        Self { url, requests, serving }
    }

    pub(crate) fn file(&self) -> DaemonFile {
        DaemonFile {
            pid: std::process::id(),
            url: self.url.clone(),
            socket: None,
            version: "0.1.0".into(),
            project: "prj_1".into(),
            store: None,
            started_at: 0,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.file(), Proof::Bearer("secret".into())).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer_one(mut stream: TcpStream, answer: &str) -> String {
    let mut request = Vec::new();
    let mut chunk = [0_u8; 4096];
    while !is_complete(&request) {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(length) => request.extend_from_slice(&chunk[..length]),
        }
    }
    if let Some((head, body)) = answer.split_once("\r\n\r\n") {
        let text = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).await.unwrap();
    }
    String::from_utf8_lossy(&request).into_owned()
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|n| n.parse().ok());
    body.len() >= length.unwrap_or(0)
}
