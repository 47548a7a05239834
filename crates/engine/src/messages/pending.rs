//! What waits for an agent, of whatever form.

use rookery_core::agent::Agent;
use rookery_core::key::Table;
use rookery_core::message::{AddressedAs, Delivery, Form, Message, Priority, Standing};
use rookery_core::{AgentId, Key, Seq, Timestamp};
use rookery_store::ListQuery;
use rookery_store::query::Test;

use super::{LARGEST_PAGE, READ, delivery_of, has_expired, message_of, page, stored};
use crate::engine::{Engine, EngineError};

/// A message that waits for an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    pub message: Message,
    pub standing: Standing,
}

impl Pending {
    pub fn priority(&self) -> Priority {
        self.message.letter.header.priority
    }
}

/// How much waits for an agent, counted up to [`LARGEST_PAGE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unread {
    /// Not acknowledged yet.
    pub pending: usize,
    /// Of these, not even shown to it.
    pub unseen: usize,
    /// Of the unseen, mentions and direct messages.
    pub inbox: usize,
    /// Of the unseen, coordination messages that want its attention: those about sessions do not.
    pub coord: usize,
}

impl Unread {
    fn add(&mut self, standing: Standing, form: Form, wakes: bool) {
        self.pending += 1;
        if standing == Standing::Queued {
            self.unseen += 1;
            match form {
                Form::Entry | Form::Direct => self.inbox += 1,
                Form::Coord => self.coord += usize::from(wakes),
            }
        }
    }
}

impl Engine {
    /// Everything that an agent has not acknowledged, of whatever form, in order.
    pub async fn all_pending(&self, agent: &AgentId, limit: Option<u32>) -> Result<Vec<Pending>, EngineError> {
        let known = self.agent(agent).await?.value;
        self.pending(agent, known.as_ref(), page(limit), |_| true).await
    }

    /// How much waits for an agent, as far as this node has heard: cheap enough to be told with every answer.
    pub async fn unread(&self, agent: &AgentId) -> Result<Unread, EngineError> {
        let now = self.clock().monotonic();
        if let Some(unread) = self.counts().get(agent, now) {
            return Ok(unread);
        }
        let before = self.counts().before();
        let unread = self.count_unread(agent).await?;
        self.counts().counted(agent, unread, before, now);
        Ok(unread)
    }

    async fn count_unread(&self, agent: &AgentId) -> Result<Unread, EngineError> {
        let known = self.agent(agent).await?.value;
        let deliveries = self.deliveries(agent, known.as_ref(), LARGEST_PAGE, |_| true).await?;
        let broadcasts = self.broadcasts(known.as_ref(), LARGEST_PAGE).await?;
        let mut unread = Unread::default();
        for delivery in &deliveries {
            if let AddressedAs::Recipient { form, wakes } | AddressedAs::Awaited { form, wakes, .. } = delivery.to {
                unread.add(delivery.standing, form, wakes);
            }
        }
        let room = (LARGEST_PAGE as usize).saturating_sub(unread.pending);
        for Pending { message, standing } in broadcasts.iter().take(room) {
            unread.add(*standing, message.letter.header.form, message.letter.header.wakes);
        }
        Ok(unread)
    }

    /// What is addressed to an agent and what is to everybody, in order.
    pub(super) async fn pending(
        &self,
        agent: &AgentId,
        known: Option<&Agent>,
        limit: u32,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Vec<Pending>, EngineError> {
        let mut pending = self.addressed(agent, known, limit, &forms).await?;
        if forms(Form::Coord) {
            pending.extend(self.broadcasts(known, limit).await?);
        }
        pending.sort_by_key(|pending| pending.message.sent);
        pending.truncate(limit as usize);
        Ok(pending)
    }

    pub(super) async fn addressed(
        &self,
        agent: &AgentId,
        known: Option<&Agent>,
        limit: u32,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Vec<Pending>, EngineError> {
        let deliveries = self.deliveries(agent, known, limit, forms).await?;
        let keys = deliveries.iter().map(|delivery| Key::Message(delivery.message.clone())).collect();
        let (rows, _) = self.store().rows(keys).await?;
        let now = self.clock().now();
        let pending = deliveries.into_iter().zip(rows).filter_map(|(delivery, row)| {
            Some(Pending { message: row.and_then(message_of)?, standing: delivery.standing })
        });
        Ok(pending.filter(|pending| !has_expired(&pending.message, now)).collect())
    }

    /// The deliveries that an agent has not acknowledged: one range of an index, read until there are enough.
    async fn deliveries(
        &self,
        agent: &AgentId,
        known: Option<&Agent>,
        limit: u32,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Vec<Delivery>, EngineError> {
        let now = self.clock().now();
        let mut found: Vec<Delivery> = Vec::new();
        let mut after = Seq::ZERO;
        loop {
            let query = ListQuery::all(Table::Deliveries)
                .with("pending", Test::Is(agent.as_str().into()))
                .with("sent", Test::Above(stored(after)))
                .ordered_by("sent")
                .at_most(Some(READ));
            let (rows, _) = self.store().list(query).await?;
            let (full, last) = (rows.len() >= READ as usize, rows.last().cloned().and_then(delivery_of));
            let fits = |delivery: &Delivery| form_of(delivery, known, now).is_some_and(&forms);
            found.extend(rows.into_iter().filter_map(delivery_of).filter(fits));
            match last {
                Some(last) if full && found.len() < limit as usize => after = last.sent,
                _ => break,
            }
        }
        found.truncate(limit as usize);
        Ok(found)
    }
}

/// The form of a delivery that still counts. One that waited for its agent counts if the agent joined in time.
fn form_of(delivery: &Delivery, known: Option<&Agent>, now: Timestamp) -> Option<Form> {
    match delivery.to {
        AddressedAs::Recipient { form, .. } => Some(form),
        AddressedAs::Awaited { form, until, .. } => {
            let in_time = known.map_or(now, |agent| agent.joined_at) <= until;
            (in_time || delivery.standing != Standing::Queued).then_some(form)
        }
        AddressedAs::Everyone => None,
    }
}
