//! `cargo xtask advisories`: apart from the tests, because its answer changes without any change of ours.

use anyhow::Result;
use clap::Args;

use crate::deny;
use crate::workspace::Workspace;

/// Look up known vulnerabilities of the dependencies (needs the network)
#[derive(Debug, Args)]
pub(crate) struct Advisories {}

impl Advisories {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        deny::advisories(workspace)
    }
}
