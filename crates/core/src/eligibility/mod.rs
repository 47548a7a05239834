//! Limits and requirements of a task: which agents may do it, and the order among them.

mod agent_offer;
mod candidates;
mod choice;
mod compiled_demand;
mod demand;
mod limits;

pub use candidates::{Candidates, Change, admits};
pub use demand::{Among, RequiredCapability, TaskDemand};
pub(crate) use limits::{blockers, ensure_eligible, load_beside};
