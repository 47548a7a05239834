//! Setting and removing groups of agents, which messages name as recipients.

mod remove;
mod set;

pub use remove::{GroupRemoved, RemoveGroup};
pub use set::{GroupSet, SetGroup};
