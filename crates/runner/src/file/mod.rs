//! The workflow file: parses YAML into types and reports all faults at once.
//!
//! [`WorkflowSource`] is the text and [`Workflow`] the parsed file. [`Ready`] is a checked workflow of one instance with the variables
//! known before the run, and [`RunPreview`] shows what a run would do. Parsing has no side effects: it starts no program and needs no daemon.

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

pub use agent::{Agent, EnvValue, Sandbox, WorkspaceKind};
pub use backend::{AgentProgram, Backend, Provider};
pub use context::ContextConfig;
pub use cursor::Argument;
pub use duration::parse as parse_duration;
pub(crate) use duration::show as show_duration;
pub use fault::{FileFault, FileFaults, InFile, SourceLocation};
pub use limits::TeamLimits;
pub use params::{ArgumentError, ParamKind, WorkflowParam};
pub use plan::RunPreview;
pub(crate) use plan::notes::cost_limit_warning;
pub use prompt::Prompt;
pub use ready::{Blocker, Ready, Refused, Surroundings};
pub use sandbox_limits::SandboxLimits;
pub use schema::schema;
pub use script::{Action, Script, ScriptTurn, Then, Times, When};
pub use setup::Setup;
pub(crate) use size::show as show_size;
pub use source::WorkflowSource;
pub use steps::StepConfig;
pub use template::{TextTemplate, Variable};
pub use variables::{VariableValue, Variables};
pub use wakeup::Wakeup;
pub use workflow::Workflow;
