//! `cargo xtask check`: the quick loop while working.

use anyhow::Result;
use clap::Args;

use crate::step::{self, Step};
use crate::workspace::Workspace;

/// Check formatting, run the tests and the lints, without the slow steps
#[derive(Debug, Args)]
pub(crate) struct Check {}

impl Check {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        step::run_all(workspace, &[Step::Format, Step::Tests, Step::Clippy])
    }
}
