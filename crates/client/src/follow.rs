//! Following the event stream, across restarts of the daemon: every event once and in order, by position.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::{Client, unknown};
use crate::error::ClientError;
use crate::sse::Parser;

/// Keep-alives come every 15 seconds; a stream that is silent for three of them is dead.
const SILENCE: Duration = Duration::from_secs(45);
/// Events that may wait for whoever follows. Beyond, the daemon waits.
const WAITING: usize = 256;
const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// What a follower is told.
#[derive(Clone, PartialEq, Debug)]
pub enum Followed {
    Event {
        event: Value,
        /// To resume after it.
        position: Option<String>,
    },
    /// The stream is lost and was not found again at once. It goes on by itself.
    Lost,
    /// The position is of another log, or forgotten: what happened since then is not told. It goes on with what happens now.
    Replaced,
}

/// Follows until it is dropped.
#[derive(Debug)]
pub struct Follower {
    told: mpsc::Receiver<Result<Followed, ClientError>>,
    following: JoinHandle<()>,
}

impl Client {
    /// Follows what happens after `from`, or from now on. A daemon that is away is looked for that long, each time;
    /// `Duration::MAX` is for ever.
    pub fn follow(&self, filters: Vec<(&'static str, String)>, from: Option<String>, lasting: Duration) -> Follower {
        let (teller, told) = mpsc::channel(WAITING);
        let stream = Stream { client: self.clone(), filters, position: from, teller };
        let following = tokio::spawn(stream.follow(lasting));
        Follower { told, following }
    }
}

impl Follower {
    /// What comes next; none after an error, which is the last. Nothing is lost if the wait is given up.
    pub async fn next(&mut self) -> Option<Result<Followed, ClientError>> {
        self.told.recv().await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// Nobody follows any more.
struct Unheard;

struct Stream {
    client: Client,
    filters: Vec<(&'static str, String)>,
    position: Option<String>,
    teller: mpsc::Sender<Result<Followed, ClientError>>,
}

impl Stream {
    async fn follow(mut self, lasting: Duration) {
        let mut pauses = Pauses::default();
        loop {
            let before = self.position.clone();
            let lost = match self.connection().await {
                Ok(lost) => lost,
                Err(Unheard) => return,
            };
            if self.position != before {
                pauses = Pauses::default();
            }
            let told = match &lost {
                ClientError::Refused { status: 410, .. } => {
                    self.position = None;
                    self.tell(Followed::Replaced).await
                }
                error if is_final(error) || pauses.waited >= lasting => {
                    drop(self.teller.send(Err(lost)).await);
                    return;
                }
                _ if pauses.count == 1 => self.tell(Followed::Lost).await,
                _ => Ok(()),
            };
            if told.is_err() {
                return;
            }
            tokio::time::sleep(pauses.next()).await;
            self.client.look_again();
        }
    }

    /// Tells one connection's events, and how it was lost.
    async fn connection(&mut self) -> Result<ClientError, Unheard> {
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
                self.tell(Followed::Event { event: value, position: event.id.clone() }).await?;
                self.position = event.id.or_else(|| self.position.take());
            }
        }
    }

    async fn tell(&self, followed: Followed) -> Result<(), Unheard> {
        self.teller.send(Ok(followed)).await.map_err(|_| Unheard)
    }
}

/// Whether asking again can only fail the same way.
fn is_final(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { status, .. } => *status < 500 && *status != 429,
        ClientError::Stream(_) | ClientError::Garbled(_) | ClientError::OtherProject { .. } => true,
        _ => false,
    }
}

/// Pauses between attempts, which grow while nothing comes.
#[derive(Debug, Default)]
struct Pauses {
    count: u32,
    waited: Duration,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let pause = (INITIAL_BACKOFF * (1 << self.count.min(8))).min(MAX_BACKOFF);
        self.count += 1;
        self.waited = self.waited.saturating_add(pause);
        pause
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
    async fn a_stream_that_ends_is_resumed_after_the_last_event() {
        let daemon = StubServer::start(TWO).await.unwrap();
        let mut follower = client_of(&daemon).follow(vec![("run", "run_x".to_owned())], None, Duration::MAX);
        for n in [1, 2, 1] {
            let event = json!({"n": n});
            let position = Some(format!("log_1:{n}"));
            assert_eq!(follower.next().await.unwrap().unwrap(), Followed::Event { event, position });
        }
        drop(follower);
        let requests = daemon.requests();
        assert!(requests[0].starts_with("GET /events/stream?run=run_x HTTP/1.1"), "{}", requests[0]);
        assert!(!requests[0].contains("last-event-id") && requests[1].contains("last-event-id: log_1:2\r\n"));
    }

    #[tokio::test]
    async fn a_position_that_is_gone_is_told_and_left() {
        let daemon = StubServer::start("410 Gone\r\n\r\n{}").await.unwrap();
        let mut follower = client_of(&daemon).follow(vec![], Some("log_0:9".to_owned()), Duration::MAX);
        assert_eq!(follower.next().await.unwrap().unwrap(), Followed::Replaced);
        assert_eq!(follower.next().await.unwrap().unwrap(), Followed::Replaced);
        let requests = daemon.requests();
        assert!(requests[0].contains("last-event-id: log_0:9\r\n") && !requests[1].contains("last-event-id"));
    }

    #[tokio::test]
    async fn a_refusal_is_the_end_and_silence_is_after_a_while() {
        let daemon = StubServer::start("403 Forbidden\r\n\r\n{}").await.unwrap();
        let mut follower = client_of(&daemon).follow(vec![], None, Duration::MAX);
        assert_eq!(follower.next().await.unwrap().unwrap_err().status(), Some(403));
        assert!(follower.next().await.is_none());
        let silent = StubServer::start("").await.unwrap();
        let mut follower = client_of(&silent).follow(vec![], None, Duration::from_millis(300));
        assert_eq!(follower.next().await.unwrap().unwrap(), Followed::Lost);
        assert!(matches!(follower.next().await, Some(Err(ClientError::Unknown(_)))));
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut pauses = Pauses::default();
        let taken: Vec<u128> = (0..9).map(|_| pauses.next().as_millis()).collect();
        assert_eq!(taken, [200, 400, 800, 1_600, 3_200, 6_400, 8_000, 8_000, 8_000]);
    }
}
