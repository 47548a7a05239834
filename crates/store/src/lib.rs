//! The log and the rows folded from it, behind one interface.
//!
//! An engine (SQLite, PostgreSQL, memory) is a small pump around the sans-IO [`batch::Batch`]: it loads rows, writes a
//! write-set, and knows no rule. Read [`store`] for the interface, [`batch`] for how a command runs, [`queue`] for how
//! commands wait their turn, [`offline`] for work on a whole store.

pub mod artifact;
pub mod batch;
pub mod clock;
pub mod memory;
mod migration;
pub mod node;
pub mod offline;
pub mod operational;
pub mod postgres;
pub mod publish;
pub mod query;
pub mod queue;
pub mod replay;
mod sql;
pub mod sqlite;
pub mod store;

pub use batch::{Batch, Loaded, Needs, Want, WriteSet};
pub use clock::Clock;
pub use node::{Attendance, Duty, Node, Site, Tenure};
pub use operational::{Browser, DeadLetter, Failing, Operation, Outbox, PresenceBoard, Sign, Token};
pub use publish::{Feed, Published};
pub use query::{Head, ListQuery, LogQuery};
pub use store::{Answer, Committed, Idempotency, Lane, Pending, Read, ReadError, Store, Submission, SubmitError};

/// The version of the fold. Increment it when facts change rows differently: stores then rebuild their derived rows.
pub const FORMAT: u32 = 1;
