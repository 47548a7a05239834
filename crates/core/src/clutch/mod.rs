//! The protocol's own things, pure: what comes in as JSON is read strictly here, and everything that is wrong with it is
//! told at once, each fault with a pointer to the field.

pub mod card;
pub mod fault;
pub mod version;

pub use card::Card;
pub use fault::Fault;
