//! Messages of the Clutch protocol as an inbox shows them: where each comes from, how a request stands, and its words.
//!
//! Whatever a delivery in this form was opened for is found by the delivery alone: its place in the log says what it is.

use rookery_core::model::DeliveryId;
use std::collections::BTreeMap;

use rookery_core::kernel::caller::Actor;
use rookery_core::model::message::{Form, Standing};
use rookery_core::model::task::{AlarmKind, Task};
use rookery_core::traits::LogRow;
use rookery_core::{AgentId, EventRef, Key, MessageId, Row, RunId, Seq, TaskId, Timestamp, envelope};
use rookery_store::LogQuery;
use serde_json::Value;

use super::place::InboxDelivery;
use super::{LARGEST_PAGE, delivery_of};
use crate::error::EngineError;
use crate::messages::InboxHandle;

/// How much of envelopes is read for one page: it may have fewer of them than were asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How many tasks that were given to an agent are told of at a time.
const GIVEN_TOLD: usize = 3;
/// Who sends what the daemon itself says.
const ORCHESTRATOR: &str = "orchestrator";
const REQUEST: &str = "task.request";

/// A message of the Clutch protocol that waits for an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct Mail {
    pub id: MessageId,
    pub standing: Standing,
    /// Given up on.
    pub dead: bool,
    /// The place at which it was queued for the agent, and when that was.
    pub sent: Seq,
    pub at: Timestamp,
    pub from: AgentId,
    pub message_type: String,
    pub task: Option<TaskId>,
    /// If it asks the agent for a task.
    pub request: Option<Request>,
    /// As it is delivered; nothing if it cannot be read any more.
    pub envelope: Option<Value>,
}

/// A request that the router passed on, and the task as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub task: TaskId,
    pub run: RunId,
    pub title: String,
    pub asked_by: String,
    pub offer: Offer,
}

/// How it stands with a task that an agent was asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// It is kept for the agent, until then if there is such a time.
    Open { accept_by: Option<Timestamp> },
    /// The agent has taken it.
    Taken,
    /// Somebody else may have it, or it has ended.
    Over,
}

/// What is known of such a message without its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) message: MessageId,
    pub(crate) from: AgentId,
    pub(crate) message_type: String,
    pub(crate) task: Option<TaskId>,
    pub(crate) request: Option<Request>,
    pub(crate) at: Timestamp,
    standing: Standing,
    dead: bool,
    sent: Seq,
}

impl Offer {
    fn of(task: &Task, request: &MessageId, agent: &AgentId) -> Offer {
        if task.routing.offered_in.as_ref() != Some(request) || !task.state.is_open() {
            return Offer::Over;
        }
        match (task.holder(), &task.reserved_for) {
            (Some(holder), _) if holder == agent => Offer::Taken,
            (None, Some(kept_for)) if kept_for == agent => {
                Offer::Open { accept_by: task.clocks.get(AlarmKind::Accept).map(|alarm| alarm.due) }
            }
            _ => Offer::Over,
        }
    }
}

impl Request {
    fn of(task: &Task, request: &MessageId, agent: &AgentId) -> Request {
        Request {
            task: task.id.clone(),
            run: task.run.clone(),
            title: task.title.clone(),
            asked_by: task.assigned_by.clone(),
            offer: Offer::of(task, request, agent),
        }
    }
}

impl InboxHandle<'_> {
    /// A message of the Clutch protocol that was sent to an agent, acknowledged or not.
    pub async fn message(&self, agent: &AgentId, message: &MessageId) -> Result<Option<Mail>, EngineError> {
        let delivery = Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() });
        let (mut rows, _) = self.engine.store().rows(vec![delivery]).await?;
        let known = self.engine.query().agent(agent).await?.value;
        let place = rows.pop().flatten().and_then(delivery_of);
        let place = place.and_then(|delivery| InboxDelivery::of(delivery, known.as_ref(), self.engine.clock().now()));
        match place.filter(|place| place.form == Form::Envelope) {
            Some(place) => Ok(self.read_messages(agent, vec![place]).await?.pop()),
            None => Ok(None),
        }
    }

    /// Those of some places that ask the agent for a task that it has not taken: the tasks.
    pub(super) async fn offered_tasks(
        &self,
        agent: &AgentId,
        places: &[InboxDelivery],
    ) -> Result<Vec<TaskId>, EngineError> {
        if places.iter().all(|place| place.form != Form::Envelope) {
            return Ok(vec![]);
        }
        let waits = |request: &MessageId| places.iter().any(|place| place.message == *request);
        let kept = self.engine.query().reserved_tasks(agent).await?.into_iter();
        let given = kept.filter(|task| task.routing.offered_in.as_ref().is_some_and(waits));
        Ok(given.map(|task| task.id).take(GIVEN_TOLD).collect())
    }

    /// What waits for an agent that it was not shown, without its words.
    pub(crate) async fn unseen_headers(&self, agent: &AgentId) -> Result<Vec<Head>, EngineError> {
        let mut places = self.open_positions(agent, |form| form == Form::Envelope).await?;
        places.retain(|place| place.is_unseen() && place.calls);
        places.sort_by_key(InboxDelivery::turn);
        places.truncate(LARGEST_PAGE as usize);
        self.read_headers(agent, places).await
    }

    /// The messages of some places with their words, in order. If they are too large for one page, what was never shown has its
    /// turn first.
    pub(super) async fn read_messages(
        &self,
        agent: &AgentId,
        places: Vec<InboxDelivery>,
    ) -> Result<Vec<Mail>, EngineError> {
        let mut heads = self.read_headers(agent, places).await?;
        heads.sort_by_key(|head| (head.standing != Standing::Queued, head.sent));
        let (mut mail, mut bytes) = (Vec::with_capacity(heads.len()), 0);
        for head in heads {
            let envelope = self.parcel_or_header(&head.message).await?.map(|parcel| parcel.message);
            bytes += envelope.as_ref().map_or(0, |envelope| envelope.to_string().len());
            if bytes > PAGE_BYTES && !mail.is_empty() {
                break;
            }
            let Head { message: id, from, message_type, task, request, at, standing, dead, sent } = head;
            // What follows from an envelope is shown under its own kind.
            let shown = envelope.as_ref().and_then(|envelope| envelope["type"].as_str());
            let message_type = shown.map_or(message_type, str::to_owned);
            mail.push(Mail { id, standing, dead, sent, at, from, message_type, task, request, envelope });
        }
        mail.sort_by_key(|mail| mail.sent);
        Ok(mail)
    }

    async fn read_headers(&self, agent: &AgentId, places: Vec<InboxDelivery>) -> Result<Vec<Head>, EngineError> {
        if places.is_empty() {
            return Ok(vec![]);
        }
        // A notification directly follows the event that it announces.
        let before = |seq: Seq| Seq(seq.0.saturating_sub(1));
        let rows = places.iter().flat_map(|place| [before(place.sent), place.sent]).collect();
        let rows = self.engine.query().log(LogQuery::at(rows)).await?.value;
        let rows: BTreeMap<Seq, LogRow> = rows.into_iter().map(|row| (row.seq, row)).collect();
        let source = |place: &InboxDelivery| {
            let row = rows.get(&place.sent)?;
            if is_notification(row) { rows.get(&before(place.sent)) } else { Some(row) }
        };
        let keys = places.iter().filter_map(|place| place.task.clone()).map(Key::Task).collect();
        let (tasks, _) = self.engine.store().rows(keys).await?;
        let tasks: BTreeMap<TaskId, Task> = tasks
            .into_iter()
            .flatten()
            .filter_map(|row| if let Row::Task(task) = row { Some((task.id.clone(), task)) } else { None })
            .collect();
        let head = |place: InboxDelivery| {
            let row = source(&place);
            let message_type = row.map_or("message", |row| envelope::message_type(&row.event)).to_owned();
            let task = place.task.as_ref().and_then(|task| tasks.get(task)).filter(|_| message_type == REQUEST);
            Head {
                request: task.map(|task| Request::of(task, &place.message, agent)),
                from: row.map_or_else(|| AgentId::from(ORCHESTRATOR), author),
                message_type,
                task: place.task,
                message: place.message,
                at: place.queued_at,
                standing: place.standing,
                dead: place.dead,
                sent: place.sent,
            }
        };
        Ok(places.into_iter().map(head).collect())
    }
}

fn is_notification(row: &LogRow) -> bool {
    matches!(row.event.typed(), EventRef::MessageSent(sent) if sent.letter.header.is_notification())
}

fn author(row: &LogRow) -> AgentId {
    match &row.actor {
        _ if envelope::ROUTERS_KINDS.contains(&row.event.kind()) => AgentId::from(ORCHESTRATOR),
        Actor::Agent(agent) => agent.clone(),
        other => AgentId::new(other.to_string()),
    }
}
