//! The only entry point to the system: `submit`, `query`, `subscribe(position)`, and the services that act after a commit.
//!
//! A surface translates its protocol into a [`Request`] and renders the answer; it keeps nothing. Services act only after a
//! commit, and only by submitting commands themselves.
//!
//! A module imports only modules below it. From the bottom:
//!
//! | layer | content |
//! |---|---|
//! | `error`, `durations`, `settings`, `ports`, `paths`, `held`, `moment`, `git`, `schemas`, `message_view`, `endpoints`, `adapters` | errors, settings, what is given from outside, and tools; they know no engine |
//! | `projections`, `state`, `credentials` | what one node keeps in memory; no engine either |
//! | `config`, `engine` | the settings of an engine, its parts and its state, and the commit |
//! | `query`, `cluster`, `subscribe`, `contexts` | reading rows, the leader roles of this node, following the log |
//! | `liveness`, `access`, `contracts`, `artifacts` | checks and signs of life that a command needs before it is decided |
//! | `submit` | [`Request`], and submitting it |
//! | `runs`, `history`, `intake`, `task_context`, `documents`, `messages`, `teams`, `workspaces` | what surfaces call, by noun |
//! | `roster_follower`, `timers`, `effects`, `upkeep`, `router`, `delivery`, `dispatcher`, `courier`, `watcher`, `renderer` | services with a loop |
//! | `supervisor` | starts and stops the services |

pub mod access;
pub mod adapters;
pub mod artifacts;
pub mod cluster;
pub mod config;
pub mod contexts;
pub mod contracts;
pub mod courier;
pub mod credentials;
pub mod delivery;
pub mod dispatcher;
pub mod documents;
pub mod durations;
pub mod effects;
pub mod endpoints;
pub mod engine;
pub mod error;
mod git;
pub mod held;
pub mod history;
pub mod intake;
pub mod liveness;
pub mod message_view;
pub mod messages;
pub mod moment;
pub mod paths;
pub mod ports;
pub mod projections;
pub mod query;
pub mod renderer;
pub mod roster_follower;
pub mod router;
pub mod runs;
pub mod schemas;
pub mod settings;
pub mod state;
pub mod submit;
pub mod subscribe;
pub mod supervisor;
pub mod task_context;
pub mod teams;
pub mod timers;
pub mod upkeep;
pub mod watcher;
pub mod workspaces;

// What surfaces see of the store; they do not import it.
pub use rookery_store::artifact::{ArtifactError, ArtifactInfo, Incoming, Outgoing, Stored};
pub use rookery_store::node::{LeaderRole, NodeLiveness, Seen};
pub use rookery_store::publish::Slot;
pub use rookery_store::query::{Bodies, Order};
pub use rookery_store::store::{Health, ReadOnlyCause, RowVisitor, SharedVisitor};
pub use rookery_store::{
    Clock, Committed, DeadLetter, EndpointCursor, Failing, LogHead, LogQuery, Published, ReadError, SubmitError, Token,
};

pub use config::Config;
pub use credentials::{Access, Credentials, agent_named};
pub use engine::{Engine, Parts};
pub use error::EngineError;
pub use ports::{Ids, RandomIds, SystemClock};
pub use query::At;
pub use state::wake_hub::{Wake, WakeHub, WakeListener};
pub use submit::{Request, Waited};
pub use subscribe::{Chunk, SubscribeError, Subscription};
pub use supervisor::Services;
