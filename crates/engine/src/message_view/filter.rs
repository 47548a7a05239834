//! Which messages are wanted: by run, thread, task, sender and type.

use rookery_core::kernel::caller::Actor;
use rookery_core::model::addressee::Address;
use rookery_core::model::message_type::MessageType;
use rookery_core::traits::LogRow;
use rookery_core::{RunId, TaskId, ThreadId, envelope};

use super::Envelopes;

/// Which messages; every given condition holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MessageFilter {
    pub run: Option<RunId>,
    pub thread: Option<ThreadId>,
    pub task: Option<TaskId>,
    pub from: Option<Sender>,
    /// The type that it is shown with.
    pub message_type: Option<String>,
}

/// Who a message is shown to be from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sender {
    /// As the log names authors.
    Author(String),
    /// The router, which tells what it does.
    Orchestrator,
}

impl Sender {
    /// An agent with or without `agent:`, a person with `person:`, the router, or one that the log names by itself.
    pub fn parse(text: &str) -> Option<Sender> {
        if matches!(Actor::parse(text), Actor::System | Actor::Watcher | Actor::Anonymous) {
            return Some(Sender::Author(text.to_owned()));
        }
        match Address::parse(text)? {
            Address::Agent(id) => Some(Sender::Author(id.to_string())),
            Address::Person(name) => Some(Sender::Author(Actor::Person(name).to_string())),
            Address::Orchestrator => Some(Sender::Orchestrator),
            Address::Group(_) | Address::Server(_) => None,
        }
    }
}

impl MessageFilter {
    /// Whether everything passes.
    pub fn is_open(&self) -> bool {
        *self == MessageFilter::default()
    }

    /// Whether a row passes, given the envelopes that it may follow from.
    pub fn takes(&self, row: &LogRow, envelopes: &Envelopes) -> bool {
        let run = || row.run.as_ref().map_or("run_default", RunId::as_str);
        let thread = || row.thread.as_ref().map_or("thr_default", ThreadId::as_str);
        self.run.as_ref().is_none_or(|wanted| wanted.as_str() == run())
            && self.thread.as_ref().is_none_or(|wanted| wanted.as_str() == thread())
            && self.task.as_ref().is_none_or(|wanted| row.task() == Some(wanted))
            && self.takes_shown(row, envelopes)
    }

    /// Whether what a row is shown with passes, which no index of the log tells alone.
    pub(crate) fn takes_shown(&self, row: &LogRow, envelopes: &Envelopes) -> bool {
        let of_the_router = envelope::is_of_the_router(&row.event);
        self.message_type.as_ref().is_none_or(|wanted| envelopes.type_of(row) == wanted)
            && self.from.as_ref().is_none_or(|wanted| match wanted {
                Sender::Author(author) => !of_the_router && row.actor.to_string() == *author,
                Sender::Orchestrator => of_the_router,
            })
    }

    /// The type, if nothing else is asked for: the envelopes of a type have an index of their own.
    pub(crate) fn type_alone(&self) -> Option<&str> {
        let wanted = self.message_type.as_deref().filter(|wanted| MessageType::parse(wanted).is_some())?;
        let open = MessageFilter { message_type: None, ..self.clone() };
        open.is_open().then_some(wanted)
    }

    /// The kinds of facts to look for.
    pub(crate) fn kinds(&self) -> Option<Vec<&'static str>> {
        let mut kinds = self.message_type.as_deref().map(envelope::kinds_shown_as);
        if self.type_alone().is_some() {
            kinds.iter_mut().for_each(|kinds| kinds.retain(|kind| !envelope::FILED_KINDS.contains(kind)));
        }
        if self.from != Some(Sender::Orchestrator) {
            return kinds;
        }
        let told = envelope::ROUTERS_KINDS.into_iter();
        Some(told.filter(|kind| kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))).collect())
    }
}
