//! Lines from stdin and messages to stdout, each by a thread of its own: a read that nobody answers must not keep the
//! process from ending.

use std::io::{BufRead, Write};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// Lines as they come in, until the end of stdin.
pub fn reader(waiting: usize) -> mpsc::Receiver<Vec<u8>> {
    let (lines, received) = mpsc::channel(waiting);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { return };
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    received
}

/// Takes messages to write, one a line; the second part tells when the last one is written.
pub fn writer(waiting: usize) -> (mpsc::Sender<Value>, oneshot::Receiver<()>) {
    let (messages, mut received) = mpsc::channel::<Value>(waiting);
    let (done, written) = oneshot::channel();
    std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        while let Some(message) = received.blocking_recv() {
            let mut line = message.to_string();
            line.push('\n');
            if stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                return;
            }
        }
        let _ = done.send(());
    });
    (messages, written)
}
