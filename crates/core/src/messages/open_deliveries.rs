//! What still waits of some messages for an agent that is woken with them, and what becomes of that all at once.

use super::{DeliveryAbandoned, MessagesAcked, MessagesRead, Receipt, receipt};
use crate::kernel::id::{AgentId, MessageId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::message::Standing;
use crate::model::{ReadSet, Undecided, View};
use crate::traits::AnyEvent;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Open {
    agent: AgentId,
    waiting: Vec<Waiting>,
    /// Those that are not for the agent.
    foreign: Vec<MessageId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Waiting {
    message: MessageId,
    unseen: bool,
    dead: bool,
    /// To everybody, and nothing is known of it for this agent.
    broadcast: bool,
}

impl Open {
    pub(crate) fn read_set(agent: &AgentId, messages: &[MessageId]) -> ReadSet {
        receipt::read_set(agent, messages)
    }

    /// Each once and in order. What is acknowledged, or somebody else's by now, does not wait.
    pub(crate) fn of(view: &View, agent: &AgentId, messages: &[MessageId]) -> Result<Open, Undecided> {
        view.ensure_loaded(Open::read_set(agent, messages))?;
        let mut open = Open { agent: agent.clone(), waiting: vec![], foreign: vec![] };
        for id in messages {
            let delivery = view.delivery(id, agent)?;
            let broadcast =
                delivery.is_none() && view.find_message(id)?.is_some_and(|known| known.is_broadcast_for(agent));
            let waiting = Waiting {
                message: id.clone(),
                unseen: delivery.is_none_or(|delivery| delivery.standing == Standing::Queued),
                dead: delivery.is_some_and(crate::model::message::Delivery::is_dead),
                broadcast,
            };
            match delivery {
                None if !broadcast => open.foreign.push(id.clone()),
                Some(delivery) if delivery.is_settled() => {}
                _ if open.waiting.contains(&waiting) => {}
                _ => open.waiting.push(waiting),
            }
        }
        Ok(open)
    }

    /// Without those that were given up on; refused if one is not for the agent.
    pub(crate) fn for_showing(mut self) -> Result<Open, Rejection> {
        if let Some(foreign) = self.foreign.first() {
            return Err(receipt::not_for(&self.agent, foreign));
        }
        self.waiting.retain(|waiting| !waiting.dead);
        Ok(self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn ids(&self) -> Vec<MessageId> {
        self.waiting.iter().map(|waiting| waiting.message.clone()).collect()
    }

    /// The agent is shown them: what says so of those that it never was.
    pub(crate) fn read(&self) -> Option<AnyEvent> {
        self.receipt(|waiting| waiting.unseen).map(|receipt| AnyEvent::new(MessagesRead(receipt)))
    }

    /// The agent is done with all of them.
    pub(crate) fn acked(&self) -> Option<AnyEvent> {
        self.receipt(|_| true).map(|receipt| AnyEvent::new(MessagesAcked(receipt)))
    }

    fn receipt(&self, counts: impl Fn(&Waiting) -> bool) -> Option<Receipt> {
        let counting: Vec<&Waiting> = self.waiting.iter().filter(|waiting| counts(waiting)).collect();
        let named = |broadcast: bool| {
            let of_kind = counting.iter().filter(|waiting| waiting.broadcast == broadcast);
            of_kind.map(|waiting| waiting.message.clone()).collect()
        };
        let receipt = Receipt { agent: self.agent.clone(), messages: named(false), broadcasts: named(true) };
        (!counting.is_empty()).then_some(receipt)
    }

    /// Nobody tries any more, until somebody wants it.
    pub(crate) fn given_up(&self, attempts: u32, error: &str) -> Vec<AnyEvent> {
        let error = &error[..error.floor_char_boundary(limit::TITLE_BYTES)];
        let abandoned = |waiting: &Waiting| {
            AnyEvent::new(DeliveryAbandoned {
                message: waiting.message.clone(),
                agent: self.agent.clone(),
                attempts,
                error: error.to_owned(),
                broadcast: waiting.broadcast,
            })
        };
        self.waiting.iter().filter(|waiting| !waiting.dead).map(abandoned).collect()
    }
}
