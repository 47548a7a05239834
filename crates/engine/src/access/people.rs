//! People that messages name. Tokens and browser sessions are no part of the log, so the rules cannot know whose they are: the
//! names are added here, before a command that posts something is submitted.

use std::collections::BTreeSet;

use rookery_core::clutch::{Act, Ingest};
use rookery_core::kernel::instance::bare;
use rookery_core::messages::{SendMessage, mentions};
use rookery_core::teams::EndTurn;
use rookery_core::{AgentId, AnyCommand, Instance};

use crate::access::AccessHandle;
use crate::engine::Engine;

impl AccessHandle<'_> {
    /// The people that the daemon knows by their credentials, by name; `local` holds the project's key.
    pub fn people(&self) -> BTreeSet<String> {
        let mut people = self.engine.credentials().people();
        people.insert("local".to_owned());
        people
    }
}

impl Engine {
    /// Tells a command that posts something which of the names in it are those of people.
    pub(crate) fn add_named_people(&self, command: &mut AnyCommand) {
        if let Some(message) = command.get_mut::<SendMessage>() {
            message.people = self.people_among(&message.names());
        } else if let Some(turn) = command.get_mut::<EndTurn>() {
            let said = turn.said.as_deref().unwrap_or_default();
            turn.people = self.people_among(&mentions(said, &Instance::default()));
        } else if let Some(Ingest { act: Act::Say { text, mentions: named, people, .. }, .. }) = command.get_mut() {
            *people = self.people_among(&[mentions(text, &Instance::default()), named.clone()].concat());
        }
    }

    fn people_among(&self, names: &[AgentId]) -> Vec<String> {
        if names.is_empty() {
            return vec![];
        }
        let is_named = |person: &String| names.iter().any(|name| bare(name).eq_ignore_ascii_case(person));
        self.access().people().into_iter().filter(is_named).collect()
    }
}
