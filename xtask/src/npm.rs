//! Packages that npm installs for a step: those of a committed lock file, in the target folder, once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::Program;
use crate::say;
use crate::workspace::Workspace;

/// Installs what `xtask/NAME` locks, with other files of that folder beside it, and tells where. No package's own scripts
/// are run.
pub(crate) fn install(workspace: &Workspace, name: &str, beside: &[&str]) -> Result<PathBuf> {
    let (from, folder) = (workspace.root().join("xtask").join(name), workspace.tools().join(name));
    let lock = |folder: &Path| fs::read_to_string(folder.join("package-lock.json")).ok();
    let installed = folder.join("node_modules/.package-lock.json").exists() && lock(&folder) == lock(&from);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for file in ["package.json", "package-lock.json", ".npmrc"].iter().chain(beside) {
        fs::copy(from.join(file), folder.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    if !installed {
        say::note(format_args!("the packages of xtask/{name} are missing: installing them into the target folder"));
        Program::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).dir(&folder).run()?;
    }
    Ok(folder)
}
