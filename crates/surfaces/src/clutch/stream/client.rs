//! One connection, until either side has enough of it.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::SinkExt;
use rookery_core::clutch::{Address, Shape};
use rookery_core::view::LifeSource;
use rookery_core::{Actor, AgentId, Caller};
use rookery_engine::clutch::MessageFilter;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{MissedTickBehavior, interval};

use super::frame::{self, Ack, Asked, Subscribe};
use super::source::{Portion, Source};
use crate::app::App;
use crate::clutch::call::Call;
use crate::clutch::envelopes::IngestResults;
use crate::clutch::{ClutchError, inbox};

/// After so many pings without a word the client is gone.
const PINGS: u32 = 3;
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// A frame for each message.
    Single,
    /// A frame for as many as there are at a time.
    Batch,
}

pub(super) struct Client {
    pub(super) app: App,
    pub(super) call: Call,
    /// Whose open connection this is.
    pub(super) caller: Caller,
    /// The agent whose inbox this connection streams.
    pub(super) inbox: Option<AgentId>,
    pub(super) filter: MessageFilter,
    pub(super) framing: Framing,
    pub(super) source: Source,
    pub(super) _permit: OwnedSemaphorePermit,
}

/// Why a connection ends.
enum End {
    /// The other side closed it, or cannot be reached.
    Gone,
    Stopping,
    /// Its credential is not valid any more.
    NotAllowed,
    /// It cannot be served any longer, for a reason that it was told.
    Failed(ClutchError),
}

enum Event {
    Heard(Option<Result<Message, axum::Error>>),
    Came(Result<Portion, ClutchError>),
    Tick,
}

impl Client {
    pub(super) async fn serve(mut self, mut socket: WebSocket) {
        let Err(end) = self.converse(&mut socket).await;
        // Whoever does not read cannot be told, and is not waited for.
        drop(tokio::time::timeout(FAREWELL, farewell(&mut socket, end)).await);
    }

    async fn converse(&mut self, socket: &mut WebSocket) -> Result<std::convert::Infallible, End> {
        let stopping = self.app.stopping().clone();
        let mut ticks = interval(self.sign_every());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent = 0;
        loop {
            let event = tokio::select! {
                () = stopping.cancelled() => return Err(End::Stopping),
                heard = socket.recv() => Event::Heard(heard),
                came = self.source.next(&self.app, &self.filter) => Event::Came(came),
                _ = ticks.tick() => Event::Tick,
            };
            let frames = match event {
                Event::Heard(heard) => {
                    silent = 0;
                    self.answer(heard).await?
                }
                Event::Came(portion) => self.frames(&portion.map_err(End::Failed)?),
                Event::Tick if silent >= PINGS => return Err(End::Gone),
                Event::Tick => {
                    silent += 1;
                    self.still_here()?;
                    vec![Message::Ping(axum::body::Bytes::new())]
                }
            };
            tokio::select! {
                () = stopping.cancelled() => return Err(End::Stopping),
                sent = send(socket, frames) => sent.map_err(|_| End::Gone)?,
            }
        }
    }

    /// How often an open connection counts as a sign of life: well within the silence that is allowed.
    fn sign_every(&self) -> Duration {
        self.app.limits().keep_alive.min(self.app.engine().settings().connection_after / 3)
    }

    fn still_here(&self) -> Result<(), End> {
        if !self.call.is_still_allowed() {
            return Err(End::NotAllowed);
        }
        match self.caller.actor.agent() {
            // Bound to a credential meanwhile: a stream that was opened on a word ends.
            Some(agent) => {
                self.app.engine().sign_of_life(&self.caller, agent, LifeSource::Connection).map_err(|_| End::NotAllowed)
            }
            None => Ok(()),
        }
    }

    fn frames(&self, portion: &Portion) -> Vec<Message> {
        match self.framing {
            Framing::Single => frame::single(portion),
            Framing::Batch => frame::batch(portion).into_iter().collect(),
        }
    }

    async fn answer(&mut self, heard: Option<Result<Message, axum::Error>>) -> Result<Vec<Message>, End> {
        let text = match heard {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(vec![]),
            Some(Ok(Message::Binary(_))) => {
                let refused = rookery_core::Refusal::new(rookery_core::Code::Invalid, "frames must be text, in JSON");
                return Ok(vec![frame::error(&refused.into())]);
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Gone),
        };
        if !self.call.is_still_allowed() {
            return Err(End::NotAllowed);
        }
        let answered = match Asked::read(&text) {
            Ok(Asked::Subscribe(wanted)) => self.subscribe(&wanted).await,
            Ok(Asked::Ack(ack)) => self.ack(ack).await,
            Ok(Asked::Publish(message)) => self.publish(message.get()).await,
            Err(error) => Err(error),
        };
        Ok(vec![answered.unwrap_or_else(|error| frame::error(&error))])
    }

    async fn ack(&self, ack: Ack) -> Result<Message, ClutchError> {
        let named = match ack.agent_id.as_deref().map(Address::parse) {
            Some(Some(Address::Agent(agent))) => Some(agent),
            Some(_) => return Err(ClutchError::parameter("agent_id", "must be an agent with or without 'agent:'")),
            None => self.inbox.clone().or_else(|| self.caller.actor.agent().cloned()),
        };
        let Some(agent) = named else {
            return Err(ClutchError::parameter("agent_id", "must say whose messages these are"));
        };
        let caller = inbox::owner(&self.app, &self.call, &agent).await?;
        Ok(frame::acked(&inbox::acknowledge(&self.app, &caller, &agent, ack.ids).await?))
    }

    /// Follows something else. What cannot be followed changes nothing.
    async fn subscribe(&mut self, wanted: &Subscribe) -> Result<Message, ClutchError> {
        let filter = wanted.wanted().filter()?;
        let position = wanted.position()?.unwrap_or_else(|| self.source.position());
        self.source = Source::open(&self.app, &filter, Some(position)).await?;
        self.filter = filter;
        Ok(frame::subscribed(self.source.position().seq))
    }

    /// Takes in what was sent as if it had been posted.
    async fn publish(&self, message: &str) -> Result<Message, ClutchError> {
        let sender = |from: &Actor| self.call.sending_as(from);
        let ingested = self.app.engine().ingest(message.as_bytes(), Shape::Json, sender).await?;
        Ok(frame::published(IngestResults::from(ingested)))
    }
}

async fn send(socket: &mut WebSocket, frames: Vec<Message>) -> Result<(), axum::Error> {
    for frame in frames {
        socket.feed(frame).await?;
    }
    socket.flush().await
}

async fn farewell(socket: &mut WebSocket, end: End) -> Result<(), axum::Error> {
    let (code, reason) = match end {
        End::Gone => return socket.close().await,
        End::Stopping => (close_code::AWAY, "the daemon is stopping"),
        End::NotAllowed => (close_code::POLICY, "the credential is not valid any more"),
        End::Failed(error) => {
            socket.send(frame::error(&error)).await?;
            (close_code::ERROR, "the log cannot be followed from here")
        }
    };
    socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
    // The other side answers; what it sent meanwhile is not read any more.
    while let Some(Ok(_)) = socket.recv().await {}
    Ok(())
}
