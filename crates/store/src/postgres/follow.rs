//! Following the log: whatever any node commits is read once and handed to this node's subscribers, in order.
//!
//! A notification of another node is a hint to look, and so is a commit of our own that others' came before; a look every
//! second is what holds if hints are lost. What this node commits its writer publishes itself.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use rookery_core::{LogId, NodeId};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::connection::{Connector, Frame, HEAD, Question, ask, stored};
use super::error::Problem;
use super::{Shared, log};
use crate::query::{Bodies, LogQuery};
use crate::store::Health;

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a look may take before the connection counts as dead.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
const RECONNECT_AFTER: Duration = Duration::from_millis(250);
/// How much is published at once.
const ROWS: u32 = 512;
const BYTES: usize = 2 * 1024 * 1024;

pub(super) struct Follower {
    pub(super) connector: Connector,
    pub(super) shared: Arc<Shared>,
    pub(super) log: LogId,
    pub(super) node: NodeId,
}

impl Follower {
    /// Never ends; whoever started it stops it.
    pub(super) async fn run(self) {
        loop {
            let problem = match timeout(QUERY_TIMEOUT, self.connector.listener(&self.node)).await {
                Ok(Ok((client, hints))) => self.follow(client, hints).await,
                Ok(Err(error)) => Problem::Sql(error),
                Err(_) => Problem::Connection("the database does not answer".to_owned()),
            };
            metrics::counter!("rookery_store_listener_losses_total").increment(1);
            tracing::warn!(%problem, "the log cannot be followed right now");
            // The writer finds out when it is over.
            self.shared.set_health(Health::from_interruption(problem.to_string()));
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    /// Looks whenever there may be something to see, until the connection ends.
    async fn follow(&self, client: ClientWrapper, mut hints: mpsc::Receiver<()>) -> Problem {
        loop {
            // One page at a time: a log that grows while we read it is no server that does not answer.
            match timeout(QUERY_TIMEOUT, self.look(&client)).await {
                Ok(Ok(Looked::ThereIsMore)) => continue,
                Ok(Ok(Looked::ToTheEnd)) => {}
                Ok(Err(problem)) => return problem,
                Err(_) => return Problem::Connection("the database does not answer".to_owned()),
            }
            tokio::select! {
                hint = hints.recv() => {
                    if hint.is_none() {
                        return Problem::Connection("the connection to the database was lost".to_owned());
                    }
                }
                () = self.shared.look.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Publishes the next of what stands in the log and was not published yet.
    async fn look(&self, client: &ClientWrapper) -> Result<Looked, Problem> {
        let seen = self.shared.seen();
        let answers = ask(client, Frame::Bare, &[Question::new(HEAD, vec![])]).await?;
        let found = stored(&answers[0])?;
        if let Some(reason) = self.shared.objection(&found, &self.log, seen) {
            self.shared.close(reason);
            return Ok(Looked::ToTheEnd);
        }
        self.shared.has_seen(found.head.head);
        self.shared.tokens.send_if_modified(|known| {
            let changed = *known != found.tokens;
            *known = found.tokens;
            changed
        });
        let mut tail = self.shared.tail.lock().await;
        if found.head.head <= *tail {
            return Ok(Looked::ToTheEnd);
        }
        let query = LogQuery { bodies: Bodies::Read, bytes: BYTES, ..LogQuery::after(*tail, ROWS) };
        let rows = ask(client, Frame::Bare, &[log::read(&query)]).await?.pop().unwrap_or_default();
        let rows = log::found(&query, &rows)?;
        let Some(last) = rows.last() else {
            return Err(Problem::Unreadable(format!("the log ends before its head {}", found.head.head)));
        };
        *tail = last.seq;
        self.shared.published.publish(rows);
        Ok(Looked::ThereIsMore)
    }
}

enum Looked {
    ToTheEnd,
    ThereIsMore,
}
