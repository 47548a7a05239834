//! The prompts of agents. [`TurnMessage::load_unread`] reads an agent's inbox, [`count_fitting`] chooses the messages of one
//! turn, [`Situation::load`] collects the surrounding context, and [`prompt`] writes the text. [`system`] writes the system
//! prompt, which is the same in every turn. [`KickoffMessage`] is the first message of a team.
//!
//! Texts of others are enclosed in marks that they cannot contain ([`Fence`]), so that none of them can pass for the runner's.

mod clip;
mod fence;
mod guide;
mod kickoff;
mod message;
mod prompt;
mod situation;

pub use fence::Fence;
pub use guide::system;
pub use kickoff::KickoffMessage;
pub use message::{InboxDepth, TurnMessage, count_fitting};
pub use prompt::{EarlierAttempt, PromptInput, WakeCause, prompt};
pub use situation::{EntryFile, OpenTask, Situation};
