//! The position of lead: one holder at most, chosen by rule, changed by fact.

use serde::{Deserialize, Serialize};

use crate::kernel::id::AgentId;
use crate::model::agent::{Agent, AgentRole, Lead};
use crate::model::{EventStamp, Key, LeadId, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Event};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeadReason {
    /// It asked, and nobody who asked before holds the position.
    Asked,
    /// Nobody asked; it was there first.
    First,
    /// The one before left or went offline.
    Succession,
    /// Nobody is left to take it.
    Vacated,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeadChosen {
    pub holder: Option<AgentId>,
    pub asked: bool,
    pub previous: Option<AgentId>,
    pub because: LeadReason,
}

impl LeadChosen {
    pub(crate) fn fact(holder: Option<AgentId>, because: LeadReason, seat: Option<&Lead>) -> AnyEvent {
        let previous = seat.and_then(|seat| seat.holder.clone());
        AnyEvent::new(LeadChosen { holder, asked: because == LeadReason::Asked, previous, because })
    }
}

impl Event for LeadChosen {
    const KIND: &'static str = "lead.chosen";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::lead()]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.put(LeadId, Lead { holder: self.holder.clone(), asked: self.asked });
    }
}

/// Who follows when `gone` is no longer there: the oldest live agent that asked, then specialists, then workers.
pub fn successor(view: &View, gone: &AgentId) -> Result<Option<AnyEvent>, Undecided> {
    let seat = view.lead()?;
    if seat.and_then(|seat| seat.holder.as_ref()) != Some(gone) {
        return Ok(None);
    }
    let next = view.live_agents()?.into_iter().filter(|agent| agent.id != *gone).min_by_key(|agent| order(agent));
    Ok(Some(match next {
        None => LeadChosen::fact(None, LeadReason::Vacated, seat),
        Some(agent) => {
            let asked = agent.profile.role == AgentRole::Lead;
            let previous = seat.and_then(|seat| seat.holder.clone());
            let holder = Some(agent.id.clone());
            AnyEvent::new(LeadChosen { holder, asked, previous, because: LeadReason::Succession })
        }
    }))
}

fn order(agent: &Agent) -> (AgentRole, crate::kernel::id::Seq) {
    (agent.profile.role, agent.joined)
}

/// A returning agent takes the position if nobody holds it.
pub fn take_if_vacant(view: &View, agent: &Agent) -> Result<Option<AnyEvent>, Undecided> {
    let seat = view.lead()?;
    if seat.is_some_and(|seat| seat.holder.is_some()) {
        return Ok(None);
    }
    let reason = if agent.profile.role == AgentRole::Lead { LeadReason::Asked } else { LeadReason::First };
    Ok(Some(LeadChosen::fact(Some(agent.id.clone()), reason, seat)))
}
