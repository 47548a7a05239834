//! The one door to the system: `submit`, `query`, `subscribe(position)`, and the subscribers that keep it alive.
//!
//! A surface translates its protocol into a [`Request`] and renders the answer; it keeps nothing. Subscribers (sweeper,
//! timers, intents, delivery, watcher) act only after a commit, and only by submitting commands themselves.

pub mod access;
pub mod adapter;
pub mod ambient;
pub mod artifacts;
pub mod attendance;
pub mod clutch;
pub mod context;
pub mod contexts;
pub mod delivery;
pub mod documents;
pub mod engine;
mod git;
pub mod handed;
pub mod held;
pub mod hooks;
pub mod intents;
pub mod life;
pub mod messages;
pub mod moment;
pub mod names;
pub mod notices;
pub mod paths;
pub mod queries;
pub mod rendering;
pub mod rounds;
pub mod services;
mod shown;
pub mod sign_in;
pub mod subscribe;
pub mod sweeper;
pub mod team_sessions;
pub mod teams;
pub mod timers;
mod unread;
pub mod watcher;
pub mod watching;
pub mod workflows;
pub mod workspaces;

pub use access::{Access, Credentials, agent_named};
pub use ambient::{Ids, RandomIds, SystemClock};
pub use engine::{Engine, EngineError, Parts, Request, Settings, Waited};
pub use notices::{Wake, WakeHub, WakeListener};
pub use queries::At;
pub use services::Services;
pub use subscribe::{Chunk, SubscribeError, Subscription};
