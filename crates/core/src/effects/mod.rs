//! Effects outside of the store, decided by an event and closed by an outcome.

mod intent;

pub use intent::{CloseIntent, IntentClosed};
