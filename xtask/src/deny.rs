//! cargo-deny, at the one version that `deny.toml` is written for.

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use crate::{cargo, say};

const VERSION: &str = "0.20.2";

/// Bans, licences and sources. Needs no network once the dependencies are there.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    ensure(workspace)?;
    // It reads the metadata of every locked crate, also of those for other systems, which no build has fetched.
    workspace.cargo()?.args(["fetch", "--locked"]).run()?;
    workspace
        .cargo()?
        .args(["deny", "--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
        .run()
        .context("deny.toml does not allow a dependency; `cargo tree --invert CRATE` shows what brings it in")
}

/// Known vulnerabilities. Downloads the advisory database.
pub(crate) fn advisories(workspace: &Workspace) -> Result<()> {
    ensure(workspace)?;
    workspace.cargo()?.args(["deny", "check", "advisories"]).run()
}

fn ensure(workspace: &Workspace) -> Result<()> {
    let found = workspace.cargo()?.args(["deny", "--version"]).probe();
    if found.is_some_and(|text| is_wanted(&text)) {
        return Ok(());
    }
    say::note(format_args!("cargo-deny {VERSION} is missing: installing it into the target folder"));
    cargo::install(workspace, &format!("cargo-deny@{VERSION}"))
}

fn is_wanted(version_line: &str) -> bool {
    version_line.split_whitespace().nth(1) == Some(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_version_is_wanted() {
        assert!(is_wanted("cargo-deny 0.20.2\n"));
        assert!(!is_wanted("cargo-deny 0.20.20\n"));
        assert!(!is_wanted("cargo-deny 0.19.0 (abc)\n"));
        assert!(!is_wanted(""));
    }
}
