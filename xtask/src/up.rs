//! `cargo xtask up`: from a fresh clone to a running daemon.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;

use crate::process::{self, Program};
use crate::say;
use crate::workspace::{Kind, Profile, Workspace};

/// Build the web UI and the daemon, then start it in the foreground
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Handed to `rookery up`, for example `-- --port 4800`
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

impl Up {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        build_ui(workspace)?;
        workspace.cargo()?.args(["build", "--profile", "quick", "-p", "rookery", "--bin", "rookery"]).run()?;
        let rookery = workspace.program(Profile::Quick, Kind::Binary, "rookery");
        Program::new(rookery).arg("up").args(&self.arguments).exec()
    }
}

fn build_ui(workspace: &Workspace) -> Result<()> {
    let ui = workspace.root().join("ui");
    if !ui.join("package.json").is_file() {
        say::note("this version has no web UI; building the daemon alone");
        return Ok(());
    }
    if process::find("node").is_none() || process::find("npm").is_none() {
        say::note("node and npm are not there: the daemon is built without its web UI");
        return Ok(());
    }
    if needs_install(&ui) {
        Program::new("npm").arg("ci").dir(&ui).run().context("cannot install what the web UI needs")?;
    }
    Program::new("npm").args(["run", "build"]).dir(&ui).run().context("the web UI does not build")
}

/// Whether the lock file has changed since npm last installed from it.
fn needs_install(ui: &Path) -> bool {
    let changed = |file: &str| fs::metadata(ui.join(file)).and_then(|metadata| metadata.modified());
    match (changed("package-lock.json"), changed("node_modules/.package-lock.json")) {
        (Ok(wanted), Ok(installed)) => wanted > installed,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn installs_when_never_done_or_when_the_lock_file_is_newer() {
        let ui = tempfile::tempdir().unwrap();
        fs::create_dir(ui.path().join("node_modules")).unwrap();
        let touch = |file: &str, seconds| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            File::create(ui.path().join(file)).unwrap().set_modified(time).unwrap();
        };
        touch("package-lock.json", 100);
        assert!(needs_install(ui.path()), "never installed");
        touch("node_modules/.package-lock.json", 200);
        assert!(!needs_install(ui.path()), "installed since");
        touch("package-lock.json", 300);
        assert!(needs_install(ui.path()), "changed since");
    }
}
