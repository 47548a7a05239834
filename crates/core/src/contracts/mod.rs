//! Contracts of payloads: schemas by the payload type that they describe, and steps that expect payloads.
//!
//! A schema is kept as the text that was registered. The engine compiles it and checks payloads against it. Here it is decided that a
//! version never changes, and that a step contract expects only registered types.

mod builtin;
mod schema;
mod step_contract;

pub use builtin::{BUILT_IN, BuiltIn, built_in};
pub use schema::{RegisterSchema, SchemaRegistered};
pub use step_contract::{DefineStepContracts, StepContractsDefined};
