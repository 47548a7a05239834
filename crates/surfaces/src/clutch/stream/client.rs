//! One connection, until either side has enough of it.

use std::pin::pin;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::SinkExt;
use rookery_core::clutch::Shape;
use rookery_core::model::LifeSource;
use rookery_core::model::addressee::Address;
use rookery_core::{Actor, AgentId, Caller};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::frame::{self, Ack, Asked, Subscribe};
use super::source::{Followed, Portion};
use crate::clutch::call::Call;
use crate::clutch::envelopes::IngestResults;
use crate::clutch::{ClutchError, inbox};
use crate::http::App;
use crate::http::limits::RequestPermit;

/// After so many pings without a word the client is gone.
const PINGS: u32 = 3;
/// How long saying goodbye may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// How much a close frame can say.
const REASON_BYTES: usize = 123;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// A frame for each message.
    Single,
    /// A frame for as many as there are at a time.
    Batch,
}

pub(super) struct Client {
    pub(super) peer: Peer,
    pub(super) followed: Followed,
}

/// Who is at the other end, and how it is spoken to.
pub(super) struct Peer {
    pub(super) app: App,
    pub(super) call: Call,
    /// Whose open connection this is.
    pub(super) caller: Caller,
    /// The agent whose inbox this connection was opened for.
    pub(super) inbox: Option<AgentId>,
    pub(super) framing: Framing,
    pub(super) _place: RequestPermit,
}

/// Why a connection ends.
enum StreamEnd {
    /// The other side closed it, or cannot be reached.
    Gone,
    Stopping,
    /// It may not be told any more what it follows, for this reason.
    NotAllowed(String),
    /// It cannot be served any longer, for a reason that it was told.
    Failed(ClutchError),
}

/// What ends a turn of listening.
enum Turn {
    Came(Portion),
    Subscribe(Subscribe),
}

/// What a client is answered.
enum Answer {
    Frames(Vec<Message>),
    /// By following something else.
    Subscribe(Subscribe),
}

/// When the client was last heard, by the pings that it left without an answer.
struct Pulse {
    ticks: Interval,
    silent: u32,
}

impl Client {
    pub(super) async fn serve(mut self, mut socket: WebSocket) {
        let Err(end) = self.converse(&mut socket).await;
        // Whoever does not read cannot be told, and is not waited for.
        drop(tokio::time::timeout(FAREWELL, farewell(&mut socket, end)).await);
    }

    async fn converse(&mut self, socket: &mut WebSocket) -> Result<std::convert::Infallible, StreamEnd> {
        let Client { peer, followed } = self;
        let mut pulse = Pulse::new(peer.sign_every());
        loop {
            let inbox = peer.inbox.as_ref().filter(|_| followed.is_inbox()).cloned();
            let turn = peer.listen(socket, &mut pulse, inbox.as_ref(), followed.next(&peer.app)).await?;
            let frames = match turn {
                Turn::Came(portion) => {
                    peer.may_be_told(inbox.as_ref()).await?;
                    peer.frames(&portion)
                }
                Turn::Subscribe(wanted) => vec![match followed.change(&peer.app, &wanted).await {
                    Ok(after) => frame::subscribed(after),
                    Err(error) => frame::error(&error),
                }],
            };
            peer.send(socket, frames).await?;
        }
    }
}

impl Pulse {
    fn new(every: Duration) -> Pulse {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Pulse { ticks, silent: 0 }
    }

    fn heard(&mut self) {
        self.silent = 0;
    }

    /// The next time to ping.
    async fn beat(&mut self) -> Result<(), StreamEnd> {
        self.ticks.tick().await;
        if self.silent >= PINGS {
            return Err(StreamEnd::Gone);
        }
        self.silent += 1;
        Ok(())
    }
}

impl Peer {
    /// Converses until there is something to show, or something else is to be followed. However much the client says,
    /// what is being read for it is read on: both have their turns.
    async fn listen(
        &self,
        socket: &mut WebSocket,
        pulse: &mut Pulse,
        inbox: Option<&AgentId>,
        next: impl Future<Output = Result<Portion, ClutchError>>,
    ) -> Result<Turn, StreamEnd> {
        let mut next = pin!(next);
        loop {
            let frames = tokio::select! {
                () = self.app.stopping().cancelled() => return Err(StreamEnd::Stopping),
                portion = &mut next => return portion.map(Turn::Came).map_err(StreamEnd::Failed),
                heard = socket.recv() => {
                    pulse.heard();
                    match self.answer(heard).await? {
                        Answer::Frames(frames) => frames,
                        Answer::Subscribe(wanted) => return Ok(Turn::Subscribe(wanted)),
                    }
                }
                beat = pulse.beat() => {
                    beat?;
                    self.still_here(inbox).await?;
                    vec![Message::Ping(axum::body::Bytes::new())]
                }
            };
            self.send(socket, frames).await?;
        }
    }

    async fn send(&self, socket: &mut WebSocket, frames: Vec<Message>) -> Result<(), StreamEnd> {
        tokio::select! {
            () = self.app.stopping().cancelled() => Err(StreamEnd::Stopping),
            sent = send(socket, frames) => sent.map_err(|_| StreamEnd::Gone),
        }
    }

    /// How often an open connection counts as a sign of life: well within the silence that is allowed.
    fn sign_every(&self) -> Duration {
        self.app.limits().keep_alive.min(self.app.engine().settings().connection_offline_after / 3)
    }

    async fn still_here(&self, inbox: Option<&AgentId>) -> Result<(), StreamEnd> {
        match self.may_be_told(inbox).await {
            // What cannot be looked up just now is asked again with the next message, before anything is told.
            Ok(()) | Err(StreamEnd::Failed(_)) => {}
            Err(end) => return Err(end),
        }
        match self.caller.actor.agent() {
            // Bound to a credential meanwhile: a stream that was opened on a word ends.
            Some(agent) => {
                let lives = self.app.engine().liveness().record_presence(&self.caller, agent, LifeSource::Connection);
                lives.map_err(|refusal| StreamEnd::NotAllowed(refusal.message))
            }
            None => Ok(()),
        }
    }

    /// Whether it may still be told what it follows. That of an inbox goes with the agent, and with who may look into it.
    async fn may_be_told(&self, inbox: Option<&AgentId>) -> Result<(), StreamEnd> {
        if !self.call.is_still_allowed() {
            return Err(StreamEnd::NotAllowed("the credential is not valid any more".to_owned()));
        }
        let Some(agent) = inbox else { return Ok(()) };
        match inbox::may_open(&self.app, &self.call, agent).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_refusal() => Err(StreamEnd::NotAllowed(error.body().message.clone())),
            Err(error) => Err(StreamEnd::Failed(error)),
        }
    }

    fn frames(&self, portion: &Portion) -> Vec<Message> {
        match self.framing {
            Framing::Single => frame::single(portion),
            Framing::Batch => frame::batch(portion).into_iter().collect(),
        }
    }

    async fn answer(&self, heard: Option<Result<Message, axum::Error>>) -> Result<Answer, StreamEnd> {
        let text = match heard {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(Answer::Frames(vec![])),
            Some(Ok(Message::Binary(_))) => {
                let refused = rookery_core::Rejection::new(rookery_core::Code::Invalid, "frames must be text, in JSON");
                return Ok(Answer::Frames(vec![frame::error(&refused.into())]));
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(StreamEnd::Gone),
        };
        self.may_be_told(None).await?;
        let answered = match Asked::read(&text) {
            Ok(Asked::Subscribe(wanted)) => return Ok(Answer::Subscribe(wanted)),
            Ok(Asked::Ack(ack)) => self.ack(ack).await,
            Ok(Asked::Publish(message)) => self.publish(message.get()).await,
            Err(error) => Err(error),
        };
        Ok(Answer::Frames(vec![answered.unwrap_or_else(|error| frame::error(&error))]))
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

    /// Takes in what was sent as if it had been posted.
    async fn publish(&self, message: &str) -> Result<Message, ClutchError> {
        let sender = |from: &Actor| self.call.sending_as(from);
        let ingested = self.app.engine().intake().ingest(message.as_bytes(), Shape::Json, sender).await?;
        Ok(frame::published(IngestResults::from(ingested)))
    }
}

async fn send(socket: &mut WebSocket, frames: Vec<Message>) -> Result<(), axum::Error> {
    for frame in frames {
        socket.feed(frame).await?;
    }
    socket.flush().await
}

/// Says why a stream is not served, and closes it.
pub(super) async fn refuse(socket: &mut WebSocket, error: &ClutchError) {
    let said = async {
        socket.send(frame::error(error)).await?;
        close(socket, close_code::POLICY, &error.body().message).await
    };
    drop(tokio::time::timeout(FAREWELL, said).await);
}

async fn farewell(socket: &mut WebSocket, end: StreamEnd) -> Result<(), axum::Error> {
    match end {
        StreamEnd::Gone => socket.close().await,
        StreamEnd::Stopping => close(socket, close_code::AWAY, "the daemon is stopping").await,
        StreamEnd::NotAllowed(reason) => close(socket, close_code::POLICY, &reason).await,
        StreamEnd::Failed(error) => {
            socket.send(frame::error(&error)).await?;
            close(socket, close_code::ERROR, "the log cannot be followed from here").await
        }
    }
}

async fn close(socket: &mut WebSocket, code: u16, reason: &str) -> Result<(), axum::Error> {
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES)];
    socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
    // The other side answers; what it sent meanwhile is not read any more.
    while let Some(Ok(_)) = socket.recv().await {}
    Ok(())
}
