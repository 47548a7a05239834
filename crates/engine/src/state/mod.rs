//! State that one node keeps in memory besides the log. Losing it costs repeated work, never a message or a task.
//!
//! | file | what it owns |
//! |---|---|
//! | `cluster` | this node's lease and leader roles, and the other nodes |
//! | `wake_hub` | who listens on this node, and what it is reminded of |
//! | `delivery_attempts` | how often each message was delivered or tried, and which endpoints are left alone |
//! | `effects` | the effects that this node carries out right now |
//! | `rate_limit` | how much each sender sends |
//! | `rejections` | how often rejected signatures were noted in the log |

pub mod cluster;
pub mod delivery_attempts;
pub(crate) mod effects;
pub(crate) mod rate_limit;
pub(crate) mod rejections;
pub mod wake_hub;
