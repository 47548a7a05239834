//! An HTTP server in place of a daemon: sends the same response to every request, and records the requests.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Serves until it is dropped.
#[derive(Debug)]
pub struct StubServer {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl StubServer {
    /// Serves `response`: status, headers, an empty line, body. An empty response closes the connection without an answer.
    pub async fn start(response: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (received, response) = (Arc::clone(&requests), response.to_owned());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let request = respond(stream, &response).await;
                received.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            }
        });
        Ok(Self { url, requests, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far, oldest first, as received.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for StubServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Reads one request, sends the response and returns the request.
async fn respond(mut stream: TcpStream, response: &str) -> String {
    let mut request = Vec::new();
    let mut chunk = [0_u8; 4096];
    while !is_complete(&request) {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(length) => request.extend_from_slice(&chunk[..length]),
        }
    }
    if let Some((head, body)) = response.split_once("\r\n\r\n") {
        let text = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        // A client that hung up shows it by its next step, which the test sees.
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
