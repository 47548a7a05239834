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

/// A reader that can be fuzzed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Target {
    /// Envelopes
    Envelope,
    /// Heads of requests to the sandbox's proxy
    ProxyHead,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Envelope => "envelope",
            Target::ProxyHead => "proxy_head",
        }
    }

    /// What a run begins with, beside what earlier ones found.
    fn seeds(self) -> &'static [&'static str] {
        match self {
            Target::Envelope => {
                &["fuzz/corpus/envelope", "crates/core/tests/clutch/good", "crates/core/tests/clutch/bad"]
            }
            Target::ProxyHead => &["fuzz/corpus/proxy_head"],
        }
    }
}

/// Fuzz a reader of what others send, for longer than the tests do
#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// Which reader
    #[arg(value_enum, default_value_t = Target::Envelope)]
    target: Target,

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
        let grown = folder.join("corpus").join(self.target.name());
        fs::create_dir_all(&grown).with_context(|| format!("cannot create {}", grown.display()))?;
        workspace
            .cargo()?
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["fuzz", "run", self.target.name(), "--fuzz-dir", "fuzz", "--target-dir"])
            .arg(folder.join("build"))
            .arg(&grown)
            .args(self.target.seeds())
            .arg("--")
            .arg(format!("-max_total_time={}", self.seconds))
            .args(&self.arguments)
            .run()
            .context(
                "the fuzzer found something, which it has written below fuzz/artifacts: make it a test, then mend it",
            )
    }
}
