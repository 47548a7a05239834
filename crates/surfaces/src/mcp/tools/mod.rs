//! The tools, one file for each noun.
//!
//! To add one: an argument type and a result type with `JsonSchema`, every argument with a doc comment (it becomes the
//! description that a model reads); a function from (call, arguments) to a reply; a `Tool::new` in the file's `tools`.

mod agents;
mod coord;
mod files;
mod handoffs;
mod tasks;
mod workspaces;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tool::Tool;

/// Every tool, in the order that they are listed in.
pub fn all() -> Vec<Tool> {
    [agents::tools(), tasks::tools(), workspaces::tools(), handoffs::tools(), files::tools(), coord::tools()]
        .into_iter()
        .flatten()
        .collect()
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
