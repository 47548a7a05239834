//! A server on loopback that records everything it receives. An agent that reaches it without being allowed to has escaped.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[derive(Clone, Debug)]
pub struct Sink {
    port: u16,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Sink {
    /// Starts a sink on a free port. It answers every connection with an empty `200 OK`.
    pub async fn open() -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let record = received.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let record = record.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 8192];
                    while let Ok(read) = client.read(&mut buffer).await {
                        if read == 0 {
                            break;
                        }
                        record.lock().unwrap().extend_from_slice(&buffer[..read]);
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                        client.write_all(answer).await.ok();
                    }
                });
            }
        });
        Sink { port, received }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Everything that arrived so far, as text.
    pub fn received(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned()
    }
}
