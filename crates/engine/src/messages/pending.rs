//! What waits for an agent, of whatever form.

use rookery_core::model::Table;
use rookery_core::model::message::{Delivery, Form, Message, Priority, Standing};
use rookery_core::{AgentId, Key, MessageId};
use rookery_store::RowQuery;
use rookery_store::query::{ColumnTest, Order};

use super::mail::Mail;
use super::place::{InboxDelivery, MAX_WAITING, chosen};
use super::{READ, delivery_of, has_expired, message_of, page, stored};
use crate::error::EngineError;
use crate::messages::InboxHandle;
use crate::projections::unread::Unread;

/// A message that waits for an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    pub message: Message,
    pub standing: Standing,
    /// Given up on: whoever looks still finds it, and nobody is woken for it.
    pub dead: bool,
}

impl Pending {
    pub fn priority(&self) -> Priority {
        self.message.letter.header.priority
    }
}

/// As much of what waits for an agent as was asked for, in order: first of all what it was never shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Waiting {
    pub pending: Vec<Pending>,
    /// Messages of the Clutch protocol that say nothing in a channel, in order among themselves.
    pub mail: Vec<Mail>,
    /// How many wait besides.
    pub more: usize,
}

impl Waiting {
    pub fn count(&self) -> usize {
        self.pending.len() + self.mail.len() + self.more
    }

    /// Whether the agent was not shown some of it before.
    pub fn has_news(&self) -> bool {
        self.standings().any(|(_, standing)| standing == Standing::Queued)
    }

    /// Everything in it, and where the agent stands with it.
    pub(super) fn standings(&self) -> impl Iterator<Item = (&MessageId, Standing)> {
        let said = self.pending.iter().map(|pending| (pending.message.id(), pending.standing));
        said.chain(self.mail.iter().map(|mail| (&mail.id, mail.standing)))
    }
}

/// Counts a message that waits.
fn count(unread: &mut Unread, place: &InboxDelivery) {
    unread.pending += 1;
    unread.unseen += usize::from(place.is_unseen());
    let (inbox, coord) = match place.is_unseen() {
        true => (&mut unread.inbox, &mut unread.coord),
        false => (&mut unread.inbox_read, &mut unread.coord_read),
    };
    match place.form {
        Form::Entry | Form::Direct | Form::Envelope => *inbox += 1,
        Form::Coord => *coord += usize::from(place.calls),
    }
}

impl InboxHandle<'_> {
    /// What an agent has not acknowledged and can be told in words: all but envelopes that say nothing.
    pub async fn list_all(&self, agent: &AgentId, limit: Option<u32>) -> Result<Waiting, EngineError> {
        self.list_classes(agent, limit, |form| form != Form::Envelope).await
    }

    /// How much waits for an agent, as far as this node has heard: cheap enough to be told with every answer.
    pub async fn count_unread(&self, agent: &AgentId) -> Result<Unread, EngineError> {
        let now = self.engine.clock().monotonic();
        if let Some(unread) = self.engine.counts().get(agent, now) {
            return Ok(unread);
        }
        let before = self.engine.counts().before();
        let mut unread = Unread::default();
        let places = self.open_positions(agent, |_| true).await?;
        places.iter().for_each(|place| count(&mut unread, place));
        unread.given = self.offered_tasks(agent, &places).await?;
        self.engine.counts().counted(agent, unread.clone(), before, now);
        Ok(unread)
    }

    /// What is addressed to an agent and what is to everybody.
    pub(super) async fn list_classes(
        &self,
        agent: &AgentId,
        limit: Option<u32>,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Waiting, EngineError> {
        let places = self.open_positions(agent, forms).await?;
        let all = places.len();
        let (envelopes, said): (Vec<InboxDelivery>, Vec<InboxDelivery>) =
            chosen(places, page(limit)).into_iter().partition(|place| place.form == Form::Envelope);
        let words = said.len();
        let mail = self.read_messages(agent, envelopes).await?;
        Ok(Waiting { more: all - words - mail.len(), pending: self.read_texts(said).await?, mail })
    }

    /// Where an agent has messages that it did not acknowledge, in no order.
    pub(super) async fn open_positions(
        &self,
        agent: &AgentId,
        forms: impl Fn(Form) -> bool,
    ) -> Result<Vec<InboxDelivery>, EngineError> {
        let known = self.engine.query().agent(agent).await?.value;
        let now = self.engine.clock().now();
        let deliveries = self.open_deliveries(agent).await?.into_iter();
        let mut places: Vec<InboxDelivery> =
            deliveries.filter_map(|delivery| InboxDelivery::of(delivery, known.as_ref(), now)).collect();
        places.retain(|place| forms(place.form));
        if forms(Form::Coord) {
            places.extend(self.broadcasts(known.as_ref()).await?);
        }
        Ok(places)
    }

    /// The messages of some places, with their words.
    pub(super) async fn read_texts(&self, places: Vec<InboxDelivery>) -> Result<Vec<Pending>, EngineError> {
        let keys = places.iter().map(|place| Key::Message(place.message.clone())).collect();
        let (rows, _) = self.engine.store().rows(keys).await?;
        let now = self.engine.clock().now();
        let pending = places.into_iter().zip(rows).filter_map(|(place, row)| {
            let InboxDelivery { standing, dead, .. } = place;
            Some(Pending { message: row.and_then(message_of)?, standing, dead })
        });
        Ok(pending.filter(|pending| !has_expired(&pending.message, now)).collect())
    }

    /// The deliveries that an agent has not acknowledged, newest first: one range of an index.
    pub(super) async fn open_deliveries(&self, agent: &AgentId) -> Result<Vec<Delivery>, EngineError> {
        let mut found: Vec<Delivery> = Vec::new();
        let mut upto = i64::MAX;
        loop {
            let mut query = RowQuery::all(Table::Deliveries)
                .with("pending", ColumnTest::Is(agent.as_str().into()))
                .with("sent", ColumnTest::AtMost(upto))
                .ordered_by("sent")
                .at_most(Some(READ));
            query.order = Order::Descending;
            let (rows, _) = self.engine.store().list(query).await?;
            let full = rows.len() >= READ as usize;
            found.extend(rows.into_iter().filter_map(delivery_of));
            match found.last() {
                Some(last) if full && found.len() < MAX_WAITING => upto = stored(last.sent).saturating_sub(1),
                _ => return Ok(found),
            }
        }
    }
}
