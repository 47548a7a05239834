//! Where things are, as `cargo metadata` tells it: `CARGO_TARGET_DIR` and configured target folders are respected.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use crate::process::{self, Program};

#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    root: PathBuf,
    #[serde(rename = "target_directory")]
    target: PathBuf,
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// How a program is built, which is also the name of its folder below the target folder.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Profile {
    Debug,
    Quick,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Quick => "quick",
        }
    }
}

/// What kind of target a program of a package is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Binary,
    Example,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let metadata =
            Program::new(cargo_program()).args(["metadata", "--no-deps", "--format-version", "1"]).capture()?;
        Self::parse(&metadata)
    }

    fn parse(metadata: &str) -> Result<Self> {
        serde_json::from_str(metadata).context("cannot read what `cargo metadata` says")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The folder for tools that the tests need, so that nothing is installed for the whole user account.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// Where cargo puts the built program.
    pub(crate) fn program(&self, profile: Profile, kind: Kind, name: &str) -> PathBuf {
        let folder = self.target.join(profile.folder());
        match kind {
            Kind::Binary => folder.join(name),
            Kind::Example => folder.join("examples").join(name),
        }
    }

    /// Whether a package has a program of this name, as a binary or as an example.
    pub(crate) fn kind_of(&self, package: &str, program: &str) -> Result<Kind> {
        let package = self
            .packages
            .iter()
            .find(|candidate| candidate.name == package)
            .ok_or_else(|| anyhow!("the workspace has no package `{package}`"))?;
        let has = |kind: &str| {
            package.targets.iter().any(|target| target.name == program && target.kind.iter().any(|k| k == kind))
        };
        if has("bin") {
            Ok(Kind::Binary)
        } else if has("example") {
            Ok(Kind::Example)
        } else {
            Err(anyhow!("the package `{}` has no program `{program}`", package.name))
        }
    }

    /// Cargo at the root of the workspace, which also finds the subcommands among our tools.
    pub(crate) fn cargo(&self) -> Result<Program> {
        let mut cargo =
            Program::new(cargo_program()).dir(&self.root).env("PATH", process::path_with(&self.tools().join("bin"))?);
        // `cargo xtask` describes the package xtask to us in these. Handed on, they would make build scripts that watch
        // them run again, and a cargo called from here rebuild what a cargo called by hand has built.
        for (name, _) in env::vars_os() {
            let Some(text) = name.to_str() else { continue };
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo = cargo.env_remove(text);
            }
        }
        if env::var_os("CI").is_some() {
            cargo = cargo.env("CARGO_INCREMENTAL", "0");
        }
        Ok(cargo)
    }
}

/// The cargo that called us.
fn cargo_program() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace::parse(
            r#"{
                "workspace_root": "/src", "target_directory": "/elsewhere", "version": 1,
                "packages": [{ "name": "kit", "targets": [
                    { "name": "kit", "kind": ["lib"] },
                    { "name": "sim", "kind": ["example"] },
                    { "name": "serve", "kind": ["bin"] }
                ]}]
            }"#,
        )
        .unwrap()
    }

    #[test]
    fn programs_are_below_the_target_folder_wherever_it_is() {
        let program = |kind| workspace().program(Profile::Quick, kind, "sim");
        assert_eq!(program(Kind::Binary), Path::new("/elsewhere/quick/sim"));
        assert_eq!(program(Kind::Example), Path::new("/elsewhere/quick/examples/sim"));
    }

    #[test]
    fn a_program_is_a_binary_or_an_example_never_a_library() {
        let workspace = workspace();
        assert_eq!(workspace.kind_of("kit", "serve").unwrap(), Kind::Binary);
        assert_eq!(workspace.kind_of("kit", "sim").unwrap(), Kind::Example);
        let error = workspace.kind_of("kit", "kit").unwrap_err();
        assert_eq!(error.to_string(), "the package `kit` has no program `kit`");
        let error = workspace.kind_of("bench", "bench").unwrap_err();
        assert_eq!(error.to_string(), "the workspace has no package `bench`");
    }
}
