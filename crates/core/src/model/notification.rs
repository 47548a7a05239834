//! Notifications of an event about a task: the agents that it concerns, and those that have an inbox.
//!
//! The recipients are part of the event, so that replaying it opens the same deliveries. `told.rs` fills them in.

use serde::{Deserialize, Serialize};

use super::task::Task;
use super::trace::Trace;
use super::{DeliveryId, Key, Undecided, View};
use crate::kernel::caller::Actor;
use crate::kernel::event_id;
use crate::kernel::id::{AgentId, MessageId, Seq, ThreadId, Timestamp};

/// What a fact about a task means for inboxes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Who finds it in its inbox, under the id that it is shown with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<AgentId>,
    /// The conversation in which the task was asked for, told to somebody or not: whoever follows it sees what becomes of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// When it was decided, if it is told. A part of the id: a place alone comes twice, if a store is taken back to a
    /// backup, and whoever was told the first time would take the second for a repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The request that asks for nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
    /// The trace that the task was asked for in, told to somebody or not.
    #[serde(default, skip_serializing_if = "Trace::is_none")]
    pub trace: Trace,
}

/// A request that was passed on to an agent who does not have the task any more, and never took it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Over {
    pub message: MessageId,
    pub agent: AgentId,
}

impl Told {
    /// The deliveries that an event at this position opens.
    pub(crate) fn deliveries(&self, seq: Seq) -> impl Iterator<Item = DeliveryId> {
        let message = self.id_at(seq);
        self.to.iter().map(move |agent| DeliveryId { message: message.clone(), agent: agent.clone() })
    }

    /// The id that the event is shown and told under.
    pub(crate) fn id_at(&self, seq: Seq) -> MessageId {
        match self.at {
            Some(at) => event_id::notification_at(seq, at),
            None => event_id::message_at(seq),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Told::default()
    }
}

impl Over {
    pub(crate) fn delivery(&self) -> DeliveryId {
        DeliveryId { message: self.message.clone(), agent: self.agent.clone() }
    }
}

/// As what a fact concerns somebody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum As {
    /// It asked for the task.
    Asker,
    /// The task was its own, be it claimed or only reserved.
    Holder,
    /// It is offered the task, or offered it itself.
    Colleague,
}

/// Somebody whom a fact concerns.
pub type Concerned = (AgentId, As);

/// Whoever asked otherwise than by a message asks otherwise how it goes.
pub(crate) fn asker(task: &Task) -> Option<Concerned> {
    task.origin.terms.as_ref()?;
    Actor::parse(&task.assigned_by).agent().map(|agent| (agent.clone(), As::Asker))
}

pub(crate) fn holder(task: &Task) -> Option<Concerned> {
    task.held_by().map(|agent| (agent.clone(), As::Holder))
}

/// Whether an agent is told by messages: one that asked by a message is, and one that has or is offered work if it said by a
/// card that it speaks the protocol. Nothing piles up for those who never look.
fn listens(view: &View, agent: &AgentId, part: As) -> Result<bool, Undecided> {
    let known = view.find_agent(agent)?.filter(|agent| !agent.has_left());
    Ok(known.is_some_and(|known| part == As::Asker || known.profile.card.is_some()))
}

/// Who asked for a task and who has it, as far as they are told by messages: whoever ends the task by one tells them by that.
pub(crate) fn of_its_end(view: &View, task: &Task) -> Result<Vec<AgentId>, Undecided> {
    listening(view, [asker(task), holder(task)].into_iter().flatten().collect())
}

pub(crate) fn listening(view: &View, concerned: Vec<Concerned>) -> Result<Vec<AgentId>, Undecided> {
    view.ensure_loaded(concerned.iter().map(|(agent, _)| Key::Agent(agent.clone()).into()).collect())?;
    let mut found: Vec<AgentId> = Vec::new();
    for (agent, part) in concerned {
        if !found.contains(&agent) && listens(view, &agent, part)? {
            found.push(agent);
        }
    }
    Ok(found)
}
