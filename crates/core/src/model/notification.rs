//! The agents that an event about a task or a handoff concerns, and those of them that have an inbox.

use super::task::Task;
use super::{Key, Undecided, View};
use crate::kernel::caller::Actor;
use crate::kernel::id::AgentId;

/// An event's effect on inboxes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotificationRule {
    pub audience: Audience,
    pub if_announced: IfAnnounced,
    pub open_offer: OpenOffer,
}

/// What becomes of a notification if the event follows from a message that is about the same task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfAnnounced {
    /// Its recipients learn of the act by the message.
    Skip,
    /// The event says more than the message does.
    Notify,
}

/// The agents that find a notification of an event in their inbox, if they have one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    Nobody,
    /// The agent that requested the task by a message.
    Requester,
    /// The agent that has the task, claimed or reserved.
    Holder,
    RequesterAndHolder,
    Agents(Vec<AgentId>),
}

/// What an event does to an offer of its task that was not taken yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenOffer {
    Kept,
    Withdrawn,
    /// Taken by this agent: an offer to another one is withdrawn.
    TakenBy(AgentId),
}

impl NotificationRule {
    /// The rule of an event that leaves an open offer as it is.
    pub(crate) fn to(audience: Audience) -> NotificationRule {
        NotificationRule { audience, if_announced: IfAnnounced::Skip, open_offer: OpenOffer::Kept }
    }

    /// The rule of an event that withdraws an open offer.
    pub(crate) fn withdrawing(audience: Audience) -> NotificationRule {
        NotificationRule { open_offer: OpenOffer::Withdrawn, ..NotificationRule::to(audience) }
    }
}

/// Why an agent is notified of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Requester,
    /// It has the task, is offered it, or offered it itself.
    Worker,
}

impl Audience {
    fn parts(&self, task: &Task) -> Vec<(AgentId, Part)> {
        match self {
            Audience::Nobody => vec![],
            Audience::Requester => requester(task).into_iter().collect(),
            Audience::Holder => holder(task).into_iter().collect(),
            Audience::RequesterAndHolder => requester(task).into_iter().chain(holder(task)).collect(),
            Audience::Agents(agents) => agents.iter().map(|agent| (agent.clone(), Part::Worker)).collect(),
        }
    }

    /// The agents of the audience, each once, whether they have an inbox or not.
    pub(crate) fn agents(&self, task: &Task) -> Vec<AgentId> {
        self.parts(task).into_iter().map(|(agent, _)| agent).collect()
    }

    /// The agents of the audience that have an inbox, each once.
    ///
    /// An agent that requests by a message has one, and so has one that registered capabilities. For others, messages would
    /// pile up unread.
    pub(crate) fn recipients(&self, view: &View, task: &Task) -> Result<Vec<AgentId>, Undecided> {
        let parts = self.parts(task);
        view.ensure_loaded(parts.iter().map(|(agent, _)| Key::Agent(agent.clone()).into()).collect())?;
        let mut found: Vec<AgentId> = Vec::new();
        for (agent, part) in parts {
            let known = view.find_agent(&agent)?.filter(|agent| !agent.has_left());
            let has_inbox = known.is_some_and(|known| part == Part::Requester || known.profile.card.is_some());
            if has_inbox && !found.contains(&agent) {
                found.push(agent);
            }
        }
        Ok(found)
    }
}

fn requester(task: &Task) -> Option<(AgentId, Part)> {
    task.origin.terms.as_ref()?;
    Actor::parse(&task.assigned_by).agent().map(|agent| (agent.clone(), Part::Requester))
}

fn holder(task: &Task) -> Option<(AgentId, Part)> {
    task.held_by().map(|agent| (agent.clone(), Part::Worker))
}
