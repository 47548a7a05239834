//! Who shall do a task: what it demands against what every agent offers.
//!
//! The order is the protocol's. Hard filters come first, in this order; each agent is rejected by the first that it does
//! not pass:
//!
//! | filter | passes |
//! |---|---|
//! | `offline` | who is here |
//! | `tried` | whom the task was not given to before |
//! | `security` | who is sandboxed, if that is demanded, and trusted at the level that is demanded |
//! | `tools` | who offers the tools that the task requires, all of them within the allowlist |
//! | `concurrency` | who has fewer tasks than it takes at a time |
//! | `network` | who reaches as much of the network as is needed |
//! | `requires` | who has every capability that is required, in a version that fits and trusted at that level |
//!
//! Those who pass are put in order: the highest score of what is preferred, the fewest tasks, the best share of
//! successes, the lowest cost, the longest time without having been given a task, and at last the id.
//!
//! A score is the weight of what is met in what is preferred: a capability 1.0, a tool 0.7, a domain 0.5, a tag 0.3. An
//! agent that lacks a preferred skill and has a tag of that name meets it as a tag.
//!
//! [`RouteTask`] is the command that gives a task to the selected agent. [`crate::eligibility::Candidates`] chooses without looking
//! anything up and follows the log here (`follow`); [`crate::eligibility::admits`] decides about one agent over rows.

mod follow;
#[cfg(test)]
mod properties;
mod route;
#[cfg(test)]
mod tables;

pub use route::{OfferTask, RouteTask, RoutingDecided, RoutingFailed, TaskForwarded, is_news};
