//! The log as the protocol of envelopes shows it: messages by any of its indexes, and runs as trees of tasks.

mod attempts;
mod messages;
mod runs;
mod show;

pub use attempts::{Attempt, Ending};
pub use messages::{MessageFilter, MessagePage, Stretch};
pub use runs::{MESSAGES, RunEntry, RunList, RunTree, TaskNode};
pub use show::{Rendered, Shown, shown};
