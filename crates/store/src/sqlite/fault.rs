//! Where tests make a disk misbehave: before each group of statements of a batch.

use rusqlite::Connection;

/// A group of statements in the writer's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Step {
    Begin,
    Load,
    Log,
    Rows,
    Tallies,
    Replies,
    Commit,
    /// The commit is durable; an error here is a commit whose answer is lost.
    Committed,
    /// The head is read again after a commit failed.
    Compare,
}

impl Step {
    pub const ALL: [Step; 9] = [
        Step::Begin,
        Step::Load,
        Step::Log,
        Step::Rows,
        Step::Tallies,
        Step::Replies,
        Step::Commit,
        Step::Committed,
        Step::Compare,
    ];
}

/// Called before each step with the writer's own connection. An error is taken for the step's own.
pub trait Faults: Send + Sync + std::fmt::Debug + 'static {
    fn before(&self, step: Step, connection: &Connection) -> rusqlite::Result<()>;
}
