//! Time as an input. The system's clock is read in one module of the engine; tests and the simulation bring their own.

use rookery_core::Timestamp;

pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// The time of day, which may jump.
    fn now(&self) -> Timestamp;

    /// Milliseconds that only ever go forward, and stand still while the machine sleeps.
    fn monotonic(&self) -> u64;
}
