//! Endpoints that messages are posted to: the HTTP client, how often a message is tried, and what an answer means. No state of
//! deliveries, and no engine.

pub(crate) mod answer;
pub(crate) mod circuit;
mod client;
mod policy;
pub(crate) mod signature;

pub use client::{Carrying, EgressPolicy, EndpointClient, Http, HttpAnswer, HttpAttempt};
pub use policy::DeliveryPolicy;
pub use rookery_core::Area;
pub use signature::{HEADER as SIGNATURE_HEADER, delivery_key};
