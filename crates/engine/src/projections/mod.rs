//! State that is folded from the log in memory: the roster of agents, unread counts, and the messages that were shown last.
//! Rules do not read it; it saves reads of the store.

pub mod arrival;
pub(crate) mod last_shown;
pub mod roster;
pub mod unread;
