//! State that one node keeps in memory besides the log. Losing it costs repeated work, never a message or a task.

pub(crate) mod effects;
