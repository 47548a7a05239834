//! Real agent programs on a real daemon: installs Claude Code, Codex, opencode and Gemini CLI and runs the tests that drive
//! them.
//!
//! Their models are scripted by the tests, so nothing but the loopback address is needed, and where the system allows it
//! nothing else is there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::Program;
use crate::workspace::Workspace;
use crate::{npm, say};

/// The tests of the programs. They need what this step installs, so no other step runs them.
pub(crate) const TESTS: &str = "binary(agents)";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let packages = npm::install(workspace, "agents", &[])?.join("node_modules");
    let claude = the_one(&packages.join("@anthropic-ai"), "claude-code-", "claude")?;
    let codex = the_one(&the_one(&packages.join("@openai"), "codex-", "vendor")?, "", "bin/codex")?;
    let opencode = the_one(&packages, "opencode-", "bin/opencode")?;
    let gemini = packages.join(".bin/gemini");
    workspace.cargo()?.args(["nextest", "run", "--workspace", "--no-run"]).run().context("the tests do not build")?;
    let cargo = workspace.cargo()?.args(["nextest", "run", "--workspace", "-E", TESTS]);
    let tests = if can_isolate() {
        cargo.within("unshare", &["--map-root-user", "--net", "sh", "-c", ALONE, "sh"])
    } else {
        say::note(
            "this system does not let a process be without the network: the programs are only told to stay off it",
        );
        cargo
    };
    let named = tests.env("ROOKERY_TEST_CLAUDE", claude).env("ROOKERY_TEST_CODEX", codex);
    let named = named.env("ROOKERY_TEST_OPENCODE", opencode).env("ROOKERY_TEST_GEMINI", gemini);
    named.run().context("real agent programs do not get along with the daemon")
}

/// Brings up the loopback address of a network namespace that has nothing else, then becomes what it is given.
const ALONE: &str = "ip link set lo up && exec \"$@\"";

fn can_isolate() -> bool {
    Program::new("unshare").args(["--map-root-user", "--net", "sh", "-c", ALONE, "sh", "true"]).probe().is_some()
}

/// The file at `path` in the one folder whose name begins with `prefix`: npm installs what fits the machine.
fn the_one(folder: &Path, prefix: &str, path: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let fitting = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let mut found: Vec<PathBuf> = fitting.map(|entry| entry.path().join(path)).filter(|path| path.exists()).collect();
    match (found.pop(), found.pop()) {
        (Some(one), None) => Ok(one),
        (None, _) => bail!("npm installed no {prefix}* with {path} in {}", folder.display()),
        (Some(one), Some(other)) => bail!("npm installed both {} and {}", one.display(), other.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_for_the_machine_is_found_among_others() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("tool-linux-x64/tool");
        assert!(the_one(folder.path(), "tool-", "tool").unwrap_err().to_string().contains("npm installed no tool-*"));
        fs::create_dir(folder.path().join("tool")).unwrap();
        fs::create_dir(wanted.parent().unwrap()).unwrap();
        fs::write(&wanted, "").unwrap();
        assert_eq!(the_one(folder.path(), "tool-", "tool").unwrap(), wanted);
    }
}
