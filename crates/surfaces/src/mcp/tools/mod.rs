//! The tools, one file for each noun.
//!
//! To add one: `<Tool>Args` and `<Tool>Result` with `JsonSchema`, every argument with a doc comment (it becomes the
//! description that a model reads); a function from (call, arguments) to a reply; a `Tool::new` in the file's `tools`.

mod agents;
mod channel;
mod checkpoints;
mod coord;
pub mod documents;
mod envelopes;
mod files;
mod handoffs;
mod inbox;
mod long;
pub mod messages;
mod plans;
mod task_context;
mod tasks;
mod templates;
mod workflows;
mod workspaces;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tool::Tool;

/// The tool that waits for something to happen.
pub const WAITS: &str = "inbox_wait";

/// Every tool, in the order that they are listed in.
pub fn all() -> Vec<Tool> {
    let workflow = [
        agents::tools(),
        workflows::tools(),
        plans::tools(),
        tasks::tools(),
        task_context::tools(),
        checkpoints::tools(),
        templates::tools(),
        workspaces::tools(),
        handoffs::tools(),
        files::tools(),
    ];
    let context = [channel::tools(), inbox::tools(), documents::tools(), messages::tools()];
    workflow.into_iter().chain(context).chain([coord::tools()]).flatten().collect()
}

/// For tools that take nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Nothing {}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Done {
    pub success: bool,
}

impl Done {
    pub fn yes() -> Done {
        Done { success: true }
    }
}
