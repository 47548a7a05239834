//! The workflow file: from YAML to types, with everything that is wrong told at once.
//!
//! [`Source`] is the text, [`Workflow`] what it says, [`Ready`] what it means for one instance with all that can be known before
//! anything runs, and [`Plan`] what would happen then. Reading does nothing but read: it starts no program and asks no daemon.

mod agent;
mod backend;
mod check;
mod context;
mod cursor;
mod duration;
mod fault;
mod limits;
mod near;
mod params;
mod plan;
mod prompt;
mod ready;
mod sandbox_limits;
mod schema;
mod script;
mod setup;
mod shape;
mod size;
mod source;
mod steps;
mod template;
mod variables;
mod wakeup;
mod workflow;
mod yaml;

pub use agent::{Agent, EnvValue, Sandbox, Workspace};
pub use backend::{AgentProgram, Backend, Provider};
pub use context::ContextConfig;
pub use cursor::Argument;
pub use duration::parse as parse_duration;
pub(crate) use duration::show as show_duration;
pub use fault::{At, Fault, Faults, SourceLocation};
pub use limits::Limits;
pub use params::{ArgumentError, Kind as ParamKind, Param};
pub use plan::Plan;
pub(crate) use plan::notes::unbounded;
pub use prompt::Prompt;
pub use ready::{Blocker, Ready, Refused, Surroundings};
pub use sandbox_limits::SandboxLimits;
pub use schema::schema;
pub use script::{Action, Script, Then, Times, Turn, When};
pub use setup::Setup;
pub(crate) use size::show as show_size;
pub use source::Source;
pub use steps::Step;
pub use template::{Template, Variable};
pub use variables::{Known, Variables};
pub use wakeup::Wakeup;
pub use workflow::Workflow;
