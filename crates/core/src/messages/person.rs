//! People that messages name.

use crate::kernel::caller::Actor;
use crate::kernel::id::AgentId;
use crate::kernel::instance::bare;
use crate::model::{Undecided, View};

/// The name that every person has.
const ANY_PERSON: &str = "person";

/// The name of the person who holds the project's key.
const LOCAL_PERSON: &str = "local";

impl View {
    /// The person that a mention of this name reaches: one of those given, one who has written something, or `person` for all.
    pub(crate) fn person_named(&self, known: &[String], name: &AgentId) -> Result<Option<String>, Undecided> {
        let name = bare(name);
        if let Some(person) = known.iter().find(|person| person.eq_ignore_ascii_case(name)) {
            return Ok(Some(person.clone()));
        }
        if let Some(person) = [ANY_PERSON, LOCAL_PERSON].into_iter().find(|person| person.eq_ignore_ascii_case(name)) {
            return Ok(Some(person.to_owned()));
        }
        let person = Actor::Person(name.to_owned()).to_string();
        Ok(self.sender(&AgentId::new(person))?.map(|_| name.to_owned()))
    }
}
