//! What a turn is told. [`Message::waiting`] is what woke the agent, [`shown_in_one_turn`] how much of that one turn takes,
//! [`Situation::look`] everything around it, and [`prompt`] the words. [`system`] is what is the same in every turn, and
//! [`Kickoff`] what begins it all.
//!
//! Whatever others wrote stands between marks that it cannot contain ([`Fence`]), so that no text passes for ours.

mod clip;
mod fence;
mod guide;
mod kickoff;
mod message;
mod prompt;
mod situation;

pub use fence::Fence;
pub use guide::system;
pub use kickoff::Kickoff;
pub use message::{InboxDepth, Message, shown_in_one_turn};
pub use prompt::{Cause, Earlier, Telling, prompt};
pub use situation::{Document, Situation, Task};
