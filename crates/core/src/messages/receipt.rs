//! What recipients do with messages: they are shown them, and they acknowledge them one by one.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::message::{Delivery, Standing};
use crate::model::{DeliveryId, EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// The agent was shown these messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadMessages {
    pub agent: AgentId,
    pub messages: Vec<MessageId>,
}

/// The agent is done with these messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AckMessages {
    pub agent: AgentId,
    pub messages: Vec<MessageId>,
    pub shown: Shown,
}

/// Nobody acknowledges what it was not shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    Before,
    /// The call that acknowledges them is the one that shows them.
    Now,
}

/// Exactly the messages that became read or acknowledged by one call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receipt {
    pub agent: AgentId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageId>,
    /// Those to everybody of which nothing was known for this agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broadcasts: Vec<MessageId>,
}

impl Receipt {
    pub(super) fn names(&self, agent: &AgentId, message: &MessageId) -> bool {
        self.agent == *agent && self.messages.iter().chain(&self.broadcasts).any(|named| named == message)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let key =
            |message: &MessageId| Key::Delivery(DeliveryId { message: message.clone(), agent: self.agent.clone() });
        self.messages.iter().chain(&self.broadcasts).map(key).collect()
    }

    pub(super) fn deliveries(&self) -> impl Iterator<Item = DeliveryId> {
        self.messages.iter().chain(&self.broadcasts).map(|message| self.delivery(message))
    }

    fn delivery(&self, message: &MessageId) -> DeliveryId {
        DeliveryId { message: message.clone(), agent: self.agent.clone() }
    }

    /// Moves the deliveries of these messages on. Those to everybody are opened by it.
    fn note(&self, to: Standing, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        for message in &self.messages {
            rows.update(self.delivery(message), |delivery: &mut Delivery| delivery.moved(to, stamp.at));
        }
        for message in &self.broadcasts {
            let id = self.delivery(message);
            rows.replace(id.clone(), |old: Option<Delivery>| {
                let mut delivery = old.unwrap_or_else(|| Delivery::open_broadcast(id, stamp));
                delivery.moved(to, stamp.at);
                Some(delivery)
            });
        }
    }

    fn decision(self, fact: impl FnOnce(Receipt) -> AnyEvent) -> Decision<()> {
        if self.messages.is_empty() && self.broadcasts.is_empty() {
            return Decision::unchanged(ReplySource::done());
        }
        Decision::new(vec![fact(self)], ReplySource::done())
    }
}

/// An agent was shown messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessagesRead(pub Receipt);

impl Event for MessagesRead {
    const KIND: &'static str = "message.read";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.0.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        self.0.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        self.0.note(Standing::Read, rows, stamp);
    }
}

/// An agent is done with messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessagesAcked(pub Receipt);

impl Event for MessagesAcked {
    const KIND: &'static str = "message.acked";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.0.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        self.0.keys()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        self.0.note(Standing::Acked, rows, stamp);
    }
}

impl Command for ReadMessages {
    const NAME: &'static str = "ReadMessages";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        read_set(&self.agent, &self.messages)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        let receipt = receipt(cx.view, cx.caller, &self.agent, &self.messages, |standing| match standing {
            Standing::Queued => Ok(Counts::Yes),
            Standing::Read | Standing::Acked => Ok(Counts::Already),
        })?;
        Ok(receipt.decision(|receipt| AnyEvent::new(MessagesRead(receipt))))
    }
}

impl Command for AckMessages {
    const NAME: &'static str = "AckMessages";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        read_set(&self.agent, &self.messages)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        let receipt =
            receipt(cx.view, cx.caller, &self.agent, &self.messages, |standing| match (standing, self.shown) {
                (Standing::Acked, _) => Ok(Counts::Already),
                (Standing::Read, _) | (Standing::Queued, Shown::Now) => Ok(Counts::Yes),
                (Standing::Queued, Shown::Before) => Err(()),
            })?;
        Ok(receipt.decision(|receipt| AnyEvent::new(MessagesAcked(receipt))))
    }
}

enum Counts {
    Yes,
    Already,
}

pub(super) fn read_set(agent: &AgentId, messages: &[MessageId]) -> ReadSet {
    let pair = |message: &MessageId| {
        [Key::Message(message.clone()), Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() })]
    };
    let own = [Key::Agent(agent.clone()), Key::lead()];
    // One too many is enough to be refused.
    let messages = messages.iter().take(limit::LIST_ENTRIES + 1);
    own.into_iter().chain(messages.flat_map(pair)).map(ReadItem::from).collect()
}

/// Which of the messages change by where this agent stands with each. One that is not for the agent is refused, and so
/// is the whole call.
fn receipt(
    view: &View,
    caller: &Caller,
    agent: &AgentId,
    messages: &[MessageId],
    counts: impl Fn(Standing) -> Result<Counts, ()>,
) -> Result<Receipt, Undecided> {
    limit::list("messages", messages)?;
    view.ensure_may_act_for(caller, agent)?;
    let mut receipt = Receipt { agent: agent.clone(), messages: vec![], broadcasts: vec![] };
    for id in messages {
        let delivery = view.delivery(id, agent)?;
        if delivery.is_none() && !view.find_message(id)?.is_some_and(|message| message.is_broadcast_for(agent)) {
            return Err(not_for(agent, id).into());
        }
        if receipt.names(agent, id) {
            continue;
        }
        match counts(delivery.map_or(Standing::Queued, |delivery| delivery.standing)) {
            Ok(Counts::Already) => {}
            Ok(Counts::Yes) if delivery.is_some() => receipt.messages.push(id.clone()),
            Ok(Counts::Yes) => receipt.broadcasts.push(id.clone()),
            Err(()) => return Err(not_shown(agent, id).into()),
        }
    }
    Ok(receipt)
}

pub(super) fn not_for(agent: &AgentId, message: &MessageId) -> Rejection {
    Rejection::new(Code::MessageNotFound, format!("Message not found: there is no message '{message}' for '{agent}'"))
        .hint("check what is pending; ids are as they were shown there")
}

fn not_shown(agent: &AgentId, message: &MessageId) -> Rejection {
    Rejection::new(Code::NotDelivered, format!("message '{message}' was never shown to '{agent}'"))
        .hint("read what is pending first, then acknowledge it")
}

/// That an agent has seen a message by what it does about it, unless it acknowledged that before.
pub(crate) fn noticed(view: &View, message: &MessageId, agent: &AgentId) -> Result<Option<AnyEvent>, Undecided> {
    let open = view.delivery(message, agent)?.is_some_and(|delivery| delivery.standing != Standing::Acked);
    let receipt = || Receipt { agent: agent.clone(), messages: vec![message.clone()], broadcasts: vec![] };
    Ok(open.then(receipt).map(|receipt| AnyEvent::new(MessagesAcked(receipt))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::LeaveTeam;
    use crate::registry::EventRef;
    use crate::testing::{World, acks, anna, by, coord, direct, entry, reads};

    #[test]
    fn read_and_acked_are_facts_that_name_what_changed() {
        let mut w = World::of(&["a", "b"]);
        for id in ["m1", "m2", "m3"] {
            w.does(&by("a"), entry(id, "a", "@b look"));
        }
        assert_eq!(w.reads("b", &["m1", "m2"]), ["message.read"]);
        assert_eq!(w.reads("b", &["m2", "m3", "m3"]), ["message.read"]);
        let Some(EventRef::MessagesRead(MessagesRead(receipt))) = w.log.last().map(|row| row.event.typed()) else {
            panic!()
        };
        assert_eq!(receipt.messages, ["m3".into()]);
        assert_eq!(w.reads("b", &["m1", "m2", "m3"]), [""; 0], "nothing new was shown");
        assert_eq!(w.pending("b"), ["m1", "m2", "m3"], "to be shown is not to be done with it");
        assert_eq!(w.acks("b", &["m2"]), ["message.acked"]);
        assert_eq!((w.acks("b", &["m2"]), w.pending("b")), (vec![], vec!["m1", "m3"]));
        assert_eq!(w.acks("b", &["m3", "m1"]), ["message.acked"]);
        assert_eq!(w.pending("b"), [""; 0]);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn no_ack_covers_what_was_not_shown() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), entry("seen", "a", "@b look"));
        w.does(&by("a"), entry("unseen", "a", "@b look"));
        w.does(&by("a"), coord("all", "a", "GENERAL", &[]));
        w.reads("b", &["seen"]);
        assert_eq!(w.refuses(&by("b"), acks("b", &["seen", "unseen"])), Code::NotDelivered);
        assert_eq!(w.refuses(&by("b"), acks("b", &["all"])), Code::NotDelivered);
        assert_eq!(w.standing("seen", "b"), Some(Standing::Read), "the whole call is refused");
        w.acks("b", &["seen"]);
        assert_eq!(w.pending("b"), ["unseen"]);
    }

    #[test]
    fn a_call_that_shows_them_may_acknowledge_them() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), entry("m", "a", "@b look"));
        w.does(&by("a"), coord("all", "a", "GENERAL", &[]));
        w.does(&by("b"), AckMessages { shown: Shown::Now, ..acks("b", &["m", "all"]) });
        assert_eq!((w.standing("m", "b"), w.standing("all", "b")), (Some(Standing::Acked), Some(Standing::Acked)));
        assert_eq!(w.reads("b", &["m", "all"]), [""; 0], "acked is not undone by showing it again");
        assert_eq!(w.standing("m", "b"), Some(Standing::Acked));
    }

    #[test]
    fn what_is_not_for_the_agent_is_not_found() {
        let mut w = World::of(&["a", "b", "c"]);
        w.does(&by("a"), direct("m", "a", &["b"]));
        for message in ["m", "nothing"] {
            assert_eq!(w.refuses(&by("c"), reads("c", &[message])), Code::MessageNotFound);
            assert_eq!(w.refuses(&by("c"), acks("c", &[message])), Code::MessageNotFound);
        }
        assert_eq!(w.refuses(&by("b"), acks("b", &["m", "nothing"])), Code::NotDelivered);
    }

    #[test]
    fn nobody_reads_for_another() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.does(&by("a"), direct("m", "a", &["b"]));
        assert_eq!(w.refuses(&by("a"), reads("b", &["m"])), Code::Forbidden);
        assert_eq!(w.refuses(&by("a"), acks("b", &["m"])), Code::Forbidden);
        assert_eq!(w.does(&anna(), reads("b", &["m"])), ["message.read"]);
    }

    #[test]
    fn what_is_pending_stays_so_while_the_agent_is_away() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), direct("m", "a", &["b"]));
        w.goes_offline("b");
        w.does(&by("a"), direct("n", "a", &["b"]));
        w.does(&by("b"), LeaveTeam { agent: "b".into() });
        w.joins("b", crate::model::agent::AgentRole::Worker);
        assert_eq!(w.pending("b"), ["m", "n"]);
    }
}
