//! Follows the event stream across restarts of the daemon. Positions ensure that every event arrives once and in order.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::{Client, unknown};
use crate::error::ClientError;
use crate::sse::Parser;

/// Keep-alives come every 15 seconds; a stream that is silent for three of them is dead.
const SILENCE: Duration = Duration::from_secs(45);
/// Maximum number of events that wait for the subscriber. Beyond, reading from the daemon pauses.
const CAPACITY: usize = 256;
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// An item of a followed stream.
#[derive(Clone, PartialEq, Debug)]
pub enum StreamItem {
    Event {
        event: Value,
        /// The position from which to resume after it.
        position: Option<String>,
    },
    /// The connection was lost and could not be restored at once. The stream resumes by itself.
    Lost,
    /// The position is of another log, or expired. Events since then are missing, and the stream continues with new ones.
    Replaced,
}

/// Follows the event stream until it is dropped.
#[derive(Debug)]
pub struct EventFollower {
    items: mpsc::Receiver<Result<StreamItem, ClientError>>,
    task: JoinHandle<()>,
}

impl Client {
    /// Follows events after `from`, or new ones. When the connection is lost, retries for `retry_timeout`; `Duration::MAX` retries
    /// forever.
    pub fn follow(
        &self,
        filters: Vec<(&'static str, String)>,
        from: Option<String>,
        retry_timeout: Duration,
    ) -> EventFollower {
        let (sender, items) = mpsc::channel(CAPACITY);
        let stream = FollowedStream { client: self.clone(), filters, position: from, sender };
        let task = tokio::spawn(stream.follow(retry_timeout));
        EventFollower { items, task }
    }
}

impl EventFollower {
    /// Returns the next item, or `None` after an error. Cancel safe: dropping the future loses no item.
    pub async fn next(&mut self) -> Option<Result<StreamItem, ClientError>> {
        self.items.recv().await
    }
}

impl Drop for EventFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The follower was dropped.
struct FollowerDropped;

struct FollowedStream {
    client: Client,
    filters: Vec<(&'static str, String)>,
    position: Option<String>,
    sender: mpsc::Sender<Result<StreamItem, ClientError>>,
}

impl FollowedStream {
    async fn follow(mut self, retry_timeout: Duration) {
        let mut backoff = FollowBackoff::default();
        loop {
            let before = self.position.clone();
            let error = match self.forward_events().await {
                Ok(error) => error,
                Err(FollowerDropped) => return,
            };
            if self.position != before {
                backoff = FollowBackoff::default();
            }
            let sent = match &error {
                ClientError::Refused { status: 410, .. } => {
                    self.position = None;
                    self.send(StreamItem::Replaced).await
                }
                cause if is_final(cause) || backoff.waited >= retry_timeout => {
                    drop(self.sender.send(Err(error)).await);
                    return;
                }
                _ if backoff.count == 1 => self.send(StreamItem::Lost).await,
                _ => Ok(()),
            };
            if sent.is_err() {
                return;
            }
            tokio::time::sleep(backoff.next()).await;
            self.client.refresh_address();
        }
    }

    /// Forwards the events of one connection. Returns the error that ended it.
    async fn forward_events(&mut self) -> Result<ClientError, FollowerDropped> {
        let opened = self.client.stream(&["events", "stream"], &self.filters, self.position.as_deref()).await;
        let mut response = match opened {
            Ok(response) => response,
            Err(error) => return Ok(error),
        };
        let mut parser = Parser::default();
        loop {
            let chunk = match tokio::time::timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) | Err(_) => return Ok(ClientError::Cut),
                Ok(Err(source)) => return Ok(unknown(source)),
            };
            let events = match parser.feed(&chunk) {
                Ok(events) => events,
                Err(error) => return Ok(ClientError::Stream(error)),
            };
            for event in events {
                let value = match serde_json::from_str(&event.data) {
                    Ok(value) => value,
                    Err(error) => return Ok(ClientError::Garbled(error)),
                };
                self.send(StreamItem::Event { event: value, position: event.id.clone() }).await?;
                self.position = event.id.or_else(|| self.position.take());
            }
        }
    }

    async fn send(&self, followed: StreamItem) -> Result<(), FollowerDropped> {
        self.sender.send(Ok(followed)).await.map_err(|_| FollowerDropped)
    }
}

/// Whether a retry would fail in the same way.
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { status, .. } => *status < 500 && *status != 429,
        ClientError::Stream(_) | ClientError::Garbled(_) | ClientError::OtherProject { .. } => true,
        _ => false,
    }
}

/// Delays between connection attempts, which grow while no event arrives.
#[derive(Debug, Default)]
struct FollowBackoff {
    count: u32,
    waited: Duration,
}

impl FollowBackoff {
    fn next(&mut self) -> Duration {
        let delay = (INITIAL_BACKOFF * (1 << self.count.min(8))).min(MAX_BACKOFF);
        self.count += 1;
        self.waited = self.waited.saturating_add(delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use rookery_testkit::stub_server::StubServer;
    use serde_json::json;

    use super::*;
    use crate::client::tests::client_of;

    const TWO: &str = "200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: log_1:1\ndata: {\"n\":1}\n\n\
                       id: log_1:2\ndata: {\"n\":2}\n\n";

    #[tokio::test]
    async fn ended_stream_is_resumed_after_the_last_event() {
        let daemon = StubServer::start(TWO).await.unwrap();
        let mut follower = client_of(&daemon).follow(vec![("run", "run_x".to_owned())], None, Duration::MAX);
        for n in [1, 2, 1] {
            let event = json!({"n": n});
            let position = Some(format!("log_1:{n}"));
            assert_eq!(follower.next().await.unwrap().unwrap(), StreamItem::Event { event, position });
        }
        drop(follower);
        let requests = daemon.requests();
        assert!(requests[0].starts_with("GET /events/stream?run=run_x HTTP/1.1"), "{}", requests[0]);
        assert!(!requests[0].contains("last-event-id") && requests[1].contains("last-event-id: log_1:2\r\n"));
    }

    #[tokio::test]
    async fn expired_position_is_reported_and_dropped() {
        let daemon = StubServer::start("410 Gone\r\n\r\n{}").await.unwrap();
        let mut follower = client_of(&daemon).follow(vec![], Some("log_0:9".to_owned()), Duration::MAX);
        assert_eq!(follower.next().await.unwrap().unwrap(), StreamItem::Replaced);
        assert_eq!(follower.next().await.unwrap().unwrap(), StreamItem::Replaced);
        let requests = daemon.requests();
        assert!(requests[0].contains("last-event-id: log_0:9\r\n") && !requests[1].contains("last-event-id"));
    }

    #[tokio::test]
    async fn rejection_ends_the_stream_at_once_and_lost_connection_after_the_timeout() {
        let daemon = StubServer::start("403 Forbidden\r\n\r\n{}").await.unwrap();
        let mut follower = client_of(&daemon).follow(vec![], None, Duration::MAX);
        assert_eq!(follower.next().await.unwrap().unwrap_err().status(), Some(403));
        assert!(follower.next().await.is_none());
        let silent = StubServer::start("").await.unwrap();
        let mut follower = client_of(&silent).follow(vec![], None, Duration::from_millis(300));
        assert_eq!(follower.next().await.unwrap().unwrap(), StreamItem::Lost);
        assert!(matches!(follower.next().await, Some(Err(ClientError::Unknown(_)))));
    }

    #[test]
    fn backoff_grows_to_a_limit() {
        let mut backoff = FollowBackoff::default();
        let delays: Vec<u128> = (0..9).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(delays, [200, 400, 800, 1_600, 3_200, 6_400, 8_000, 8_000, 8_000]);
    }
}
