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

pub use batch::{Batch, BatchStep, CommitSet, Loaded, Needs};
pub use clock::Clock;
pub use node::{LeaderEpoch, LeaderRole, LeaseRenewal, Node, Site};
pub use operational::{Browser, DeadLetter, EndpointCursor, Failing, Operation, PresenceBoard, PresenceRecord, Token};
pub use publish::{CommitFeed, Published};
pub use query::{LogHead, LogQuery, RowQuery};
pub use store::{Committed, Idempotency, Lane, Pending, Read, ReadError, Store, Submission, SubmitError};

/// The version of the fold. Increment it when facts change rows differently: stores then rebuild their derived rows.
pub const FORMAT: u32 = 3;
