//! `cargo xtask up`: from a fresh clone to a running daemon.

use anyhow::Result;
use clap::Args;

use crate::process::Program;
use crate::ui;
use crate::workspace::{Kind, Profile, Workspace};

/// Build the web UI, `rookery` and `agent-worker`, then start the daemon in the foreground
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Handed to `rookery up`, for example `-- --port 4800`
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

impl Up {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        ui::build_if_possible(workspace)?;
        // `agent-worker` is a few lines that start `rookery` under another name.
        let programs = ["--bin", "rookery", "--bin", "agent-worker"];
        workspace.cargo()?.args(["build", "--profile", "quick", "-p", "rookery"]).args(programs).run()?;
        let rookery = workspace.program(Profile::Quick, Kind::Binary, "rookery");
        Program::new(rookery).arg("up").args(&self.arguments).exec()
    }
}
