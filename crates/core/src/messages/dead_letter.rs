//! Deliveries that fail: the recipient has an endpoint that does not take the message. Given up on, a delivery is dead: it
//! stays to be seen, a person is told, and it can be tried again. Whoever reads its inbox still finds it there.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::message::{Dead, Delivery, Standing};
use crate::model::{DeliveryId, EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// The daemon has tried often enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GiveUpDelivery {
    pub message: MessageId,
    pub agent: AgentId,
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
}

/// Somebody wants it to be tried again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetryDelivery {
    pub message: MessageId,
    pub agent: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeliveryAbandoned {
    pub message: MessageId,
    pub agent: AgentId,
    pub attempts: u32,
    pub error: String,
    /// The message is to everybody, and nothing was known of it for this agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broadcast: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeliveryRetried {
    pub message: MessageId,
    pub agent: AgentId,
}

impl DeliveryAbandoned {
    pub(crate) fn key(&self) -> Key {
        Key::Delivery(DeliveryId { message: self.message.clone(), agent: self.agent.clone() })
    }
}

impl Event for DeliveryAbandoned {
    const KIND: &'static str = "delivery.abandoned";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![self.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        let id = DeliveryId { message: self.message.clone(), agent: self.agent.clone() };
        rows.replace(id.clone(), |old: Option<Delivery>| {
            let mut delivery = old.or_else(|| self.broadcast.then(|| Delivery::open_broadcast(id, stamp)))?;
            delivery.dead = Some(Dead { attempts: self.attempts, error: self.error.clone(), at: stamp.at });
            Some(delivery)
        });
    }
}

impl DeliveryRetried {
    pub(crate) fn key(&self) -> Key {
        Key::Delivery(DeliveryId { message: self.message.clone(), agent: self.agent.clone() })
    }
}

impl Event for DeliveryRetried {
    const KIND: &'static str = "delivery.retried";

    fn subject(&self) -> Subject<'_> {
        Subject::agent(&self.agent)
    }

    fn write_set(&self) -> Vec<Key> {
        vec![self.key()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        let id = DeliveryId { message: self.message.clone(), agent: self.agent.clone() };
        rows.update(id, |delivery: &mut Delivery| delivery.dead = None);
    }
}

impl Command for GiveUpDelivery {
    const NAME: &'static str = "GiveUpDelivery";

    type Reply = Delivery;

    fn read_set(&self) -> ReadSet {
        read_set(&self.message, &self.agent)
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Delivery>, Undecided> {
        if cx.caller.actor != Actor::System {
            return Err(Rejection::new(Code::Forbidden, "only the daemon gives up on a delivery").into());
        }
        let delivery = cx.view.delivery(&self.message, &self.agent)?;
        let reply = ReplySource::row(DeliveryId { message: self.message.clone(), agent: self.agent.clone() });
        match delivery {
            Some(delivery) if delivery.is_dead() => return Ok(Decision::unchanged(reply)),
            Some(delivery) if delivery.is_settled() => {
                return Err(Rejection::new(Code::Stale, "it was acknowledged or passed on meanwhile").into());
            }
            Some(_) => {}
            None if cx
                .view
                .find_message(&self.message)?
                .is_some_and(|message| message.is_broadcast_for(&self.agent)) => {}
            None => return Err(unknown(&self.message, &self.agent).into()),
        }
        let fact = AnyEvent::new(DeliveryAbandoned {
            message: self.message.clone(),
            agent: self.agent.clone(),
            attempts: self.attempts,
            // What an endpoint says may be long: its beginning tells enough.
            error: self.error[..self.error.floor_char_boundary(limit::TITLE_BYTES)].to_owned(),
            broadcast: delivery.is_none(),
        });
        Ok(Decision::new(vec![fact], reply))
    }
}

impl Command for RetryDelivery {
    const NAME: &'static str = "RetryDelivery";

    type Reply = Delivery;

    fn read_set(&self) -> ReadSet {
        let own = [Key::Agent(self.agent.clone()), Key::lead()];
        read_set(&self.message, &self.agent).into_iter().chain(own.map(ReadItem::from)).collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Delivery>, Undecided> {
        cx.view.ensure_may_act_for(cx.caller, &self.agent)?;
        let reply = ReplySource::row(DeliveryId { message: self.message.clone(), agent: self.agent.clone() });
        match cx.view.delivery(&self.message, &self.agent)? {
            Some(delivery) if delivery.is_dead() => {}
            Some(delivery) if delivery.is_superseded() => {
                return Err(Rejection::new(
                    Code::InvalidState,
                    "what it asks for is somebody else's by now, or nobody's",
                )
                .hint("look at the task that it is about")
                .into());
            }
            Some(Delivery { standing: Standing::Acked, .. }) => {
                return Err(Rejection::new(Code::InvalidState, "the recipient has acknowledged it").into());
            }
            Some(_) => {
                return Err(Rejection::new(Code::InvalidState, "the delivery was not given up on")
                    .hint("it is still tried, or waits in the recipient's inbox")
                    .into());
            }
            None => return Err(unknown(&self.message, &self.agent).into()),
        }
        let fact = DeliveryRetried { message: self.message.clone(), agent: self.agent.clone() };
        Ok(Decision::new(vec![AnyEvent::new(fact)], reply))
    }
}

fn read_set(message: &MessageId, agent: &AgentId) -> ReadSet {
    let delivery = Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() });
    vec![delivery.into(), Key::Message(message.clone()).into()]
}

fn unknown(message: &MessageId, agent: &AgentId) -> Rejection {
    Rejection::new(Code::MessageNotFound, format!("there is no delivery of '{message}' to '{agent}'"))
        .hint("list the deliveries; ids are as they are shown there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::caller::Caller;
    use crate::model::ColumnValue;
    use crate::registry::EventRef;
    use crate::testing::{World, anna, by, coord, direct};

    fn give_up(message: &str, agent: &str) -> GiveUpDelivery {
        GiveUpDelivery { message: message.into(), agent: agent.into(), attempts: 8, error: "it is down".to_owned() }
    }

    fn retry(message: &str, agent: &str) -> RetryDelivery {
        RetryDelivery { message: message.into(), agent: agent.into() }
    }

    fn state(w: &World, message: &str, agent: &str) -> ColumnValue {
        let row = w.rows().get(&Key::Delivery(DeliveryId { message: message.into(), agent: agent.into() })).unwrap();
        row.columns()[3].clone()
    }

    #[test]
    fn a_dead_delivery_is_seen_and_can_be_tried_again() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.does(&by("a"), direct("m", "a", &["b"]));
        assert_eq!(w.refuses(&anna(), retry("m", "b")), Code::InvalidState, "it is still tried");
        assert_eq!(w.refuses(&by("b"), give_up("m", "b")), Code::Forbidden);
        assert_eq!(w.does(&Caller::system(), give_up("m", "b")), ["delivery.abandoned"]);
        assert_eq!(w.does(&Caller::system(), give_up("m", "b")), [""; 0]);
        assert_eq!((state(&w, "m", "b"), w.pending("b")), ("dead".into(), vec!["m"]), "it stays in the inbox");
        assert_eq!(w.refuses(&by("a"), retry("m", "b")), Code::Forbidden, "a is not b");
        assert_eq!(w.does(&by("b"), retry("m", "b")), ["delivery.retried"]);
        assert_eq!(state(&w, "m", "b"), "queued".into());
        w.does(&Caller::system(), give_up("m", "b"));
        w.reads("b", &["m"]);
        assert_eq!((state(&w, "m", "b"), w.acks("b", &["m"])), ("dead".into(), vec!["message.acked"]));
        assert_eq!((state(&w, "m", "b"), w.pending("b")), ("acked".into(), vec![]));
        assert_eq!(w.refuses(&anna(), retry("m", "b")), Code::InvalidState);
        assert_eq!(w.refuses(&Caller::system(), give_up("m", "b")), Code::Stale);
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn an_error_of_any_length_ends_in_a_dead_letter() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), direct("m", "a", &["b"]));
        let error = "ü".repeat(limit::TITLE_BYTES);
        assert_eq!(w.does(&Caller::system(), GiveUpDelivery { error, ..give_up("m", "b") }), ["delivery.abandoned"]);
        let Some(EventRef::DeliveryAbandoned(fact)) = w.log.last().map(|row| row.event.typed()) else { panic!() };
        assert_eq!(fact.error, "ü".repeat(limit::TITLE_BYTES / 2));
    }

    #[test]
    fn a_message_to_everybody_can_be_dead_for_one() {
        let mut w = World::of(&["a", "b"]);
        w.does(&by("a"), coord("m", "a", "GENERAL", &[]));
        assert_eq!(
            w.refuses(&Caller::system(), give_up("m", "a")),
            Code::MessageNotFound,
            "it is no news to its author"
        );
        w.does(&Caller::system(), give_up("m", "b"));
        assert_eq!(state(&w, "m", "b"), "dead".into());
        assert_eq!(w.does(&anna(), retry("m", "b")), ["delivery.retried"]);
        assert_eq!(w.refuses(&anna(), retry("x", "b")), Code::MessageNotFound);
        assert_eq!(w.rebuilt(), *w.rows());
    }
}
