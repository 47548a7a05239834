//! The limits of one check. A payload or schema that exceeds one is rejected, and its check ends.

use std::time::Duration;

/// The number of checks at once, each in its own process.
pub(crate) const CHECKS: usize = 4;
/// How long a check waits for its turn before the caller is told to try again.
pub(crate) const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a checking process may take to start before the caller is told to try again.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long compiling a schema and deciding whether a payload matches it may take.
pub(crate) const VERDICT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long listing the violations may take. After it the payload is rejected without them.
pub(crate) const LISTING_TIMEOUT: Duration = Duration::from_secs(1);
/// The address space of a checking process: its program, its stack, compiled schemas, and everything that a check allocates.
pub(crate) const ADDRESS_SPACE_BYTES: u64 = 768 * 1024 * 1024;
/// The stack of a check, which bounds how deep schemas and values can refer into each other.
pub(crate) const STACK_BYTES: usize = 128 * 1024 * 1024;
/// The number of compiled schemas that a checking process keeps.
pub(crate) const COMPILED: usize = 16;
/// The bytes of one answer of a checking process.
pub(crate) const ANSWER_BYTES: usize = 1024 * 1024;
