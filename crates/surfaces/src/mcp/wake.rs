//! Telling an agent's connected clients what waits for it, again and again until it has read that.
//!
//! Only a client that could hear it is told: one with an open stream. Its agent joins the team by that, if it was not part
//! of it, and lives while the stream is open. The engine keeps the turns and bounds what waits for a listener; nobody who
//! sends ever waits for one.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CustomNotification, ServerNotification};
use rmcp::service::{Peer, RoleServer};
use rookery_core::kernel::instance::bare;
use rookery_core::kernel::time::iso;
use rookery_core::model::LifeSource;
use rookery_core::{AgentId, Caller};
use rookery_engine::{Wake, WakeListener};
use serde_json::json;
use tokio::sync::{OnceCell, watch};

use super::auto_join;
use super::call::Bound;
use super::subscriptions::SEND_TIME;
use crate::http::App;
use crate::http::identity::Sender;

/// The name of the notification.
const MENTION: &str = "notifications/mention";

/// An agent that is told through one client.
#[derive(Clone, Debug)]
pub struct NotifiedAgent {
    app: App,
    sender: Sender,
    bound: Bound,
    agent: AgentId,
    /// Set once the agent is part of the team. One that leaves while it listens is not brought back by that.
    joined: Arc<OnceCell<()>>,
}

impl NotifiedAgent {
    /// The agent that a client speaks as; `None` if it is nobody.
    pub fn of(app: &App, sender: Sender, bound: Bound) -> Option<NotifiedAgent> {
        let (agent, joined) = (AgentId::from(""), Arc::default());
        let addressee = NotifiedAgent { app: app.clone(), sender, bound, agent, joined };
        let agent = addressee.caller()?.actor.agent()?.clone();
        Some(NotifiedAgent { agent, ..addressee })
    }

    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The client as it is known now: its token may have ended, and a session may have become another agent.
    fn caller(&self) -> Option<Caller> {
        let bound = self.bound.last();
        self.sender.caller(&self.app, bound.as_ref().map(AgentId::as_str)).ok()
    }

    /// Whether the client still speaks for the agent.
    fn holds(&self) -> Option<Caller> {
        self.caller().filter(|caller| caller.actor.agent() == Some(&self.agent))
    }

    /// Whoever listens can be mentioned, also before its first call.
    async fn join(&self, caller: &Caller) {
        let joined = self.joined.get_or_try_init(|| auto_join::arrive(&self.app, caller)).await;
        if let Err(error) = joined {
            tracing::debug!(%error, agent = %self.agent, "an agent that listens could not join yet");
        }
    }

    /// Listens from now on; whoever opens a stream is back, if it was gone.
    pub async fn listen(&self) -> WakeStream {
        if let Some(caller) = self.holds()
            && let Err(error) = self.app.engine().liveness().touch(&caller).await
        {
            tracing::debug!(%error, agent = %self.agent, "an agent that listens could not be brought back");
        }
        WakeStream { listener: self.app.engine().dispatcher().wakes().listen(&self.agent), addressee: self.clone() }
    }
}

/// An open stream of an agent.
#[derive(Debug)]
pub struct WakeStream {
    listener: WakeListener,
    addressee: NotifiedAgent,
}

impl WakeStream {
    /// The next thing that waits for the agent, which lives meanwhile; `None` if the client may not be told any more.
    pub async fn next(&mut self) -> Option<Wake> {
        let every = beat(self.addressee.app.engine().settings().connection_offline_after);
        loop {
            let caller = self.addressee.holds()?;
            self.addressee.join(&caller).await;
            if let Some(agent) = caller.itself() {
                self.addressee.app.engine().liveness().record_presence(&caller, agent, LifeSource::Connection).ok()?;
            }
            tokio::select! {
                notice = self.listener.next() => return self.addressee.holds().map(|_| notice),
                () = tokio::time::sleep(every) => {}
            }
        }
    }
}

/// Often enough that an open stream never looks closed.
fn beat(allowed: Duration) -> Duration {
    (allowed / 4).max(Duration::from_millis(20))
}

/// Tells a session's client whenever it has a stream open, until the session ends.
pub async fn tell(
    addressee: NotifiedAgent,
    peer: Peer<RoleServer>,
    mut streams: watch::Receiver<usize>,
    remind: impl Fn(&AgentId),
) {
    while streams.wait_for(|open| *open > 0).await.is_ok() {
        let mut hearing = addressee.listen().await;
        loop {
            let notice = tokio::select! {
                closed = streams.wait_for(|open| *open == 0) => match closed {
                    Ok(_) => break,
                    Err(_) => return,
                },
                notice = hearing.next() => notice,
            };
            let Some(notice) = notice else { return };
            remind(&notice.agent);
            send(&peer, &notice).await;
        }
    }
}

/// Sends a mention. A client that does not take it is left out this once.
pub async fn send(peer: &Peer<RoleServer>, notice: &Wake) {
    let params = json!({
        "from": notice.from,
        "target": bare(&notice.agent),
        "message": notice.excerpt,
        "timestamp": iso(notice.at),
        "id": notice.message,
        "attempt": notice.attempt,
    });
    let mention = ServerNotification::CustomNotification(CustomNotification::new(MENTION, Some(params)));
    match tokio::time::timeout(SEND_TIME, peer.send_notification(mention)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a mention could not be sent"),
        Err(_) => tracing::debug!(agent = %notice.agent, "a client does not take its mentions"),
    }
}
