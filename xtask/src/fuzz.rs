//! `cargo xtask fuzz`: the questions that the tests ask of a fixed number of inputs, asked for as long as one likes.
//!
//! cargo-fuzz wants a nightly compiler for one flag, which the stable one also takes if it is told so; nothing else is
//! needed but a C++ compiler for the fuzzer itself. The committed corpora are read and never written: what a run finds
//! grows below the target folder, and a later run goes on from there.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;

use crate::workspace::Workspace;
use crate::{cargo, say};

const TOOL: &str = "cargo-fuzz@0.13.2";
const TARGET: &str = "envelope";

/// What a run begins with, beside what earlier ones found.
const SEEDS: &[&str] = &["fuzz/corpus/envelope", "crates/core/tests/clutch/good", "crates/core/tests/clutch/bad"];

/// Fuzz the reader of envelopes, for longer than the tests do
#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,

    /// Handed to libFuzzer as they are
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

impl Fuzz {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        if workspace.cargo()?.args(["fuzz", "--version"]).probe().is_none() {
            say::note("cargo-fuzz is missing: installing it into the target folder");
            cargo::install(workspace, TOOL)?;
        }
        let folder = workspace.target().join("fuzz");
        let grown = folder.join("corpus").join(TARGET);
        fs::create_dir_all(&grown).with_context(|| format!("cannot create {}", grown.display()))?;
        workspace
            .cargo()?
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["fuzz", "run", TARGET, "--fuzz-dir", "fuzz", "--target-dir"])
            .arg(folder.join("build"))
            .arg(&grown)
            .args(SEEDS)
            .arg("--")
            .arg(format!("-max_total_time={}", self.seconds))
            .args(&self.arguments)
            .run()
            .context(
                "the fuzzer found something, which it has written below fuzz/artifacts: make it a test, then mend it",
            )
    }
}
