//! `cargo xtask fuzz`: the questions that the tests ask of a fixed number of inputs, asked for as long as one likes.
//!
//! cargo-fuzz wants a nightly compiler for one flag, which the stable one also takes if it is told so; nothing else is
//! needed but a C++ compiler for the fuzzer itself. The committed corpora are read and never written: what a run finds
//! grows below the target folder, and a later run goes on from there.

use std::fs;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::process::Program;
use crate::trials::lines_with;
use crate::workspace::Workspace;
use crate::{cargo, say};

const TOOL: &str = "cargo-fuzz@0.13.2";

/// Folders that a run begins with, beside the committed corpus of its target and the inputs that earlier runs found.
const SEEDS: &[(&str, &[&str])] = &[
    ("envelope", &["crates/core/tests/clutch/good", "crates/core/tests/clutch/bad"]),
    ("workflow_file", &["crates/runner/tests/files/good", "crates/runner/tests/files/bad"]),
];

/// Fuzz a reader of untrusted input, for longer than the tests do
#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// The target: a file of `fuzz/fuzz_targets`, such as envelope, workflow_file, step_contract or hook_input
    #[arg(value_name = "TARGET", default_value = "envelope")]
    target: String,

    /// How long
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,

    /// Handed to libFuzzer as they are
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

impl Fuzz {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let target = self.target.as_str();
        ensure!(
            targets(workspace)?.iter().any(|known| known == target),
            "there is no fuzz target '{target}'; fuzz/fuzz_targets has them all"
        );
        self.program(workspace)?.run().context(FOUND)
    }

    fn program(&self, workspace: &Workspace) -> Result<Program> {
        let target = self.target.as_str();
        if workspace.cargo()?.args(["fuzz", "--version"]).probe().is_none() {
            say::note("cargo-fuzz is missing: installing it into the target folder");
            cargo::install(workspace, TOOL)?;
        }
        let folder = workspace.target().join("fuzz");
        let grown = folder.join("corpus").join(target);
        fs::create_dir_all(&grown).with_context(|| format!("cannot create {}", grown.display()))?;
        let seeds = SEEDS.iter().filter(|(name, _)| *name == target).flat_map(|(_, folders)| *folders);
        let program = workspace
            .cargo()?
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["fuzz", "run", target, "--fuzz-dir", "fuzz", "--target-dir"])
            .arg(folder.join("build"))
            .arg(&grown)
            .arg(format!("fuzz/corpus/{target}"))
            .args(seeds)
            .arg("--")
            .arg(format!("-max_total_time={}", self.seconds))
            .args(&self.arguments);
        Ok(program)
    }
}

const FOUND: &str =
    "the fuzzer found something, which it has written below fuzz/artifacts: make it a test, then fix it";

/// Fuzzes every target, and returns what the fuzzer counted of each.
pub(crate) fn run_all(workspace: &Workspace, seconds: u32) -> Result<Vec<String>> {
    let mut counts = Vec::new();
    for target in targets(workspace)? {
        let said = Fuzz { target: target.clone(), seconds, arguments: vec![] }.program(workspace)?.run_and_keep();
        let done = lines_with(&said.context(FOUND)?, &["Done "]);
        counts.push(format!("{target}: {}", done.last().map_or("", String::as_str)));
    }
    Ok(counts)
}

/// The names of all targets, sorted.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root().join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names = files.flatten().filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".rs")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}
