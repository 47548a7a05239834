//! A stand-in for a daemon in tests: answers every request with the same text, and remembers the requests.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct StandIn {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl StandIn {
    /// Serves `answer` (status line, headers, an empty line, body); an empty one closes the connection unanswered.
    pub async fn answering(answer: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), answer.to_owned());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let request = answer_one(stream, &answer).await;
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            }
        });
        Ok(Self { url, requests, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn requests(&self) -> Vec<String> {
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
        // One that hung up shows so by what it does next.
        drop(stream.write_all(text.as_bytes()).await);
    }
    String::from_utf8_lossy(&request).into_owned()
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|n| n.parse().ok());
    body.len() >= length.unwrap_or(0)
}
