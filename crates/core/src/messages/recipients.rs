//! Recipients of a message: the agents and people that its names reach, and those who wrote in the thread that it replies in.

use super::{SendMessage, Tone, What};
use crate::kernel::caller::Actor;
use crate::kernel::id::{AgentId, MessageId};
use crate::kernel::instance::standalone_of;
use crate::kernel::limit;
use crate::model::message::Form;
use crate::model::{Undecided, View};

/// Those that a message names or answers: agents of the team, people, and names that are neither.
#[derive(Default)]
pub(super) struct Named {
    pub(super) known: Vec<AgentId>,
    pub(super) people: Vec<String>,
    pub(super) unknown: Vec<AgentId>,
}

/// The thread of replies that a message is in.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) root: Option<MessageId>,
    /// Its authors, the one of the first message included.
    pub(super) authors: Vec<AgentId>,
}

impl SendMessage {
    pub(super) fn resolve(&self, view: &View) -> Result<Named, Undecided> {
        let mut named = Named::default();
        for name in self.names() {
            match (self.present(view, &name)?, view.person_named(&self.people, &name)?) {
                (Some(agent), _) if named.known.contains(&agent) => {}
                (Some(agent), _) => named.known.push(agent),
                (None, Some(person)) if self.is_entry() => named.add_person(person),
                (None, _) => {
                    let exact = matches!(self.what, What::Coord { .. });
                    named.unknown.push(standalone_of(&name).filter(|_| !exact).unwrap_or(name));
                }
            }
        }
        Ok(named)
    }

    /// The agent that a name reaches: in `default` a member comes before the standalone agent of the same name. Recipients of a
    /// coordination message are exact ids.
    pub(super) fn present(&self, view: &View, name: &AgentId) -> Result<Option<AgentId>, Undecided> {
        if is_present(view, name)? {
            return Ok(Some(name.clone()));
        }
        match standalone_of(name).filter(|_| !matches!(self.what, What::Coord { .. })) {
            Some(standalone) if is_present(view, &standalone)? => Ok(Some(standalone)),
            _ => Ok(None),
        }
    }

    fn is_entry(&self) -> bool {
        matches!(self.what, What::Entry | What::Notice | What::EntryFor { .. } | What::Chat { .. })
    }

    /// The thread that it replies in, where it is an entry that those who are concerned are notified of.
    pub(super) fn replies(&self, view: &View) -> Result<Replies, Undecided> {
        let notifies = matches!(self.what, What::Entry | What::Chat { tone: Tone::Speech, .. });
        let Some(answered) = self.cause.answered().filter(|_| notifies) else { return Ok(Replies::default()) };
        let Some(answered) = view.find_message(answered)? else { return Ok(Replies::default()) };
        let header = answered.header();
        if header.form != Form::Entry || header.thread != self.thread {
            return Ok(Replies::default());
        }
        let root = header.root.clone().unwrap_or_else(|| header.message.clone());
        let mut authors = vec![header.from.clone()];
        if let Some(first) = view.find_message(&root)? {
            authors.insert(0, first.header().from.clone());
            authors.extend(first.repliers.iter().cloned());
        }
        Ok(Replies { root: Some(root), authors })
    }

    /// Adds those who wrote in the thread of replies and are still here; never the author itself.
    pub(super) fn add_repliers(&self, view: &View, named: &mut Named, authors: &[AgentId]) -> Result<(), Undecided> {
        for author in authors.iter().filter(|author| **author != self.from) {
            match Actor::parse(author.as_str()) {
                Actor::Person(name) => named.add_person(name),
                Actor::Agent(agent)
                    if named.known.len() < limit::LIST_ENTRIES
                        && !named.known.contains(&agent)
                        && view.find_agent(&agent)?.is_some_and(|agent| !agent.has_left()) =>
                {
                    named.known.push(agent);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Named {
    fn add_person(&mut self, name: String) {
        if !self.people.contains(&name) && self.people.len() < limit::LIST_ENTRIES {
            self.people.push(name);
        }
    }
}

pub(super) fn is_present(view: &View, agent: &AgentId) -> Result<bool, Undecided> {
    Ok(view.find_agent(agent)?.is_some_and(|agent| !agent.has_left()))
}
