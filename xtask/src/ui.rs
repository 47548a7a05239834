//! `cargo xtask ui`: the web UI. It is built before the daemon, which then carries it; cargo itself never runs npm.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process::{self, Program};
use crate::workspace::Workspace;
use crate::{cargo, say};

/// Build the web UI alone; a daemon that is built afterwards carries it
#[derive(Debug, Args)]
pub(crate) struct Ui {
    /// Serve it for development instead, changed while you write, with the daemon at this address behind it
    #[arg(long, value_name = "URL")]
    dev: Option<String>,
}

impl Ui {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let folder = folder(workspace);
        if !has_node() {
            bail!("the web UI needs Node 20.19 or newer with npm, and they are not there");
        }
        install(&folder)?;
        match &self.dev {
            Some(daemon) => npm(&folder).args(["run", "dev"]).env("ROOKERY_URL", daemon).run(),
            None => npm(&folder).args(["run", "build"]).run(),
        }
    }
}

/// Builds the UI where that is possible. Where it is not, the daemon is as good without it.
pub(crate) fn build_if_possible(workspace: &Workspace) -> Result<()> {
    if !has_node() {
        say::note("node and npm are not there: the daemon is built without its web UI");
        return Ok(());
    }
    let folder = folder(workspace);
    install(&folder)?;
    npm(&folder).args(["run", "build"]).run().context("the web UI does not build")
}

/// Take the pictures of the web UI that the README shows
#[derive(Debug, Args)]
pub(crate) struct Screenshots {}

/// Those that are committed.
const PICTURES: &str = "channel-light,channel-dark,attention-light,channel-phone";

impl Screenshots {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        check(workspace)?;
        let rookery = cargo::debug_daemon(workspace)?;
        let folder = workspace.root().join("docs/images");
        let npm = npm(&self::folder(workspace)).args(["run", "screenshots"]);
        npm.env("ROOKERY_BIN", rookery).env("SCREENSHOTS", folder).env("PICTURES", PICTURES).run()
    }
}

/// The step `ui`: the lock file, types, tests of the parts, and the build that the daemon of later steps carries.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let folder = folder(workspace);
    Program::new("node").arg("scripts/check-lock.mjs").dir(&folder).run()?;
    install(&folder)?;
    for script in ["types", "typecheck", "test", "build"] {
        npm(&folder).args(["run", script]).run()?;
    }
    Ok(())
}

/// The step `browser`: a real browser before a real daemon.
pub(crate) fn browse(workspace: &Workspace) -> Result<()> {
    browser_tests(workspace)?.args(["--", "--project", "views"]).run()
}

/// Measures how fast the web UI is, and returns the output.
pub(crate) fn measure(workspace: &Workspace) -> Result<String> {
    browser_tests(workspace)?.args(["--", "--project", "speed"]).run_and_keep()
}

fn browser_tests(workspace: &Workspace) -> Result<Program> {
    let folder = folder(workspace);
    install(&folder)?;
    if !workspace.root().join("crates/ui-embed/dist/app/index.html").is_file() {
        npm(&folder).args(["run", "build"]).run()?;
    }
    let rookery = cargo::debug_daemon(workspace)?;
    Ok(npm(&folder).args(["run", "e2e"]).env("ROOKERY_BIN", rookery))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.root().join("ui")
}

fn has_node() -> bool {
    process::find("node").is_some() && process::find("npm").is_some()
}

fn npm(folder: &Path) -> Program {
    Program::new("npm").dir(folder)
}

/// Installs what the lock file names if that has changed since. The browser is the system's own, so none is downloaded.
fn install(ui: &Path) -> Result<()> {
    if !needs_install(ui) {
        return Ok(());
    }
    let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    npm(ui).args(arguments).run().context("cannot install what the web UI needs")
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
