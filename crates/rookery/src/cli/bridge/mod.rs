//! MCP on stdin and stdout, carried to the daemon's MCP face and back.
//!
//! Messages are passed on as they are: only what the way needs is read from them (`message`). Calls run side by side, and
//! one that the daemon's restart cut off is sent again under its key, so that it is done once (`upstream`). Meanwhile the
//! agent at the other end is shown to be alive. Nothing but messages is written to stdout.

mod home;
mod message;
mod stdio;
mod upstream;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rookery_client::McpMessage;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

pub use home::Home;
use upstream::Upstream;

/// How long calls may go on after the client has closed its side.
const LAST_CALLS: Duration = Duration::from_secs(5);
/// How often to look whether whoever started this process is still there.
const PARENT_CHECK: Duration = Duration::from_secs(2);
/// Messages in either direction that may wait.
const WAITING: usize = 256;

/// What the bridge is told.
#[derive(Debug)]
pub struct Options {
    /// The path of the toolset.
    pub path: &'static [&'static str],
    pub agent: Option<String>,
    /// Where it looks around as long as it has no name.
    pub instance: Option<String>,
    pub heartbeat: Duration,
    /// Names this bridge among those of its agent: the session of the program at the other end.
    pub session_id: String,
}

/// Carries messages until the client closes stdin or is gone.
pub async fn run(home: Home, options: Options) -> anyhow::Result<()> {
    let (out, written) = stdio::writer(WAITING);
    let upstream = Arc::new(Upstream::open(home, &options, out.clone()).await?);
    // Before anything the client says: it may be that it leaves.
    let arrived = upstream.arrive().await;
    let beating = tokio::spawn(beat(upstream.clone(), options.heartbeat, arrived));
    let mut calls = Calls::default();
    let mut lines = stdio::reader(WAITING);
    let orphaned = orphaned();
    tokio::pin!(orphaned);
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => take(&upstream, &mut calls, &out, &line).await,
                None => break,
            },
            () = &mut orphaned => break,
            Some(_) = calls.running.join_next() => calls.forget_ended(),
        }
    }
    let finished = async { while calls.running.join_next().await.is_some() {} };
    drop(tokio::time::timeout(LAST_CALLS, finished).await);
    calls.running.shutdown().await;
    calls.listening.take().iter().for_each(AbortHandle::abort);
    beating.abort();
    upstream.close().await;
    drop((upstream, calls, out));
    drop(tokio::time::timeout(LAST_CALLS, written).await);
    Ok(())
}

/// Calls under way, by the id that the client gave them.
#[derive(Default)]
struct Calls {
    running: JoinSet<()>,
    by_id: HashMap<String, AbortHandle>,
    /// What passes on what the daemon says by itself. It never ends, so nobody waits for it.
    listening: Option<AbortHandle>,
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.listening.iter().for_each(AbortHandle::abort);
    }
}

impl Calls {
    fn start(&mut self, upstream: &Arc<Upstream>, message: McpMessage) {
        let id = message.id().map(Value::to_string);
        let upstream = upstream.clone();
        let handle = self.running.spawn(async move { upstream.carry(&message).await });
        if let Some(id) = id {
            self.by_id.insert(id, handle);
        }
    }

    fn listen(&mut self, upstream: &Arc<Upstream>) {
        if self.listening.is_none() {
            self.listening = Some(tokio::spawn(upstream.clone().listen()).abort_handle());
        }
    }

    fn forget_ended(&mut self) {
        self.by_id.retain(|_, handle| !handle.is_finished());
    }

    /// Where there is no session, a call is cancelled by hanging up.
    fn cancel(&mut self, id: &Value) {
        if let Some(handle) = self.by_id.remove(&id.to_string()) {
            handle.abort();
        }
    }
}

/// Takes one line from the client. What others depend on is done before the next line is read.
async fn take(upstream: &Arc<Upstream>, calls: &mut Calls, out: &mpsc::Sender<Value>, line: &[u8]) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            drop(out.send(message::not_json(&error)).await);
            return;
        }
    };
    let all = if let Value::Array(batch) = value { batch } else { vec![value] };
    for message in all.into_iter().map(McpMessage::new) {
        match message.method() {
            Some("initialize") => upstream.initialize(&message).await,
            Some("notifications/cancelled") if !upstream.has_session() => {
                calls.cancel(&message.params()["requestId"]);
            }
            Some("notifications/initialized") => {
                upstream.carry(&message).await;
                calls.listen(upstream);
            }
            _ if message.id().is_some() && message.method().is_some() => calls.start(upstream, message),
            _ => upstream.carry(&message).await,
        }
    }
}

/// Shows that the agent lives, while this process does. One that could not join yet does so first, and only once: if it
/// leaves, it has left.
async fn beat(upstream: Arc<Upstream>, every: Duration, mut arrived: bool) {
    loop {
        tokio::time::sleep(every).await;
        if arrived {
            upstream.heartbeat().await;
        } else {
            arrived = upstream.arrive().await;
        }
    }
}

/// Returns when whoever started this process is gone: its agent is too, whoever still holds our stdin.
async fn orphaned() {
    let parent = rustix::process::getppid();
    while rustix::process::getppid() == parent {
        tokio::time::sleep(PARENT_CHECK).await;
    }
}
