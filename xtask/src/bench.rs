//! `cargo xtask bench`: builds the benchmarks optimised and becomes them. What is measured is decided in `bench/`.

use anyhow::Result;
use clap::Args;

use crate::process::Program;
use crate::workspace::{Kind, Profile, Workspace};

const PACKAGE: &str = "rookery-bench";

/// Build and run the benchmarks
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// A short run, to see that everything works; its figures mean little
    #[arg(long)]
    quick: bool,

    /// How many interleaved rounds to measure
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,

    /// Run only this benchmark
    #[arg(long, value_name = "NAME")]
    only: Option<String>,

    /// Handed to the benchmarks as they are
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

impl Bench {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        // The daemon is built along: it is what most of them measure.
        workspace.cargo()?.args(["build", "--profile", "quick", "-p", "rookery", "-p", PACKAGE, "--bins"]).run()?;
        Program::new(workspace.program(Profile::Quick, Kind::Binary, PACKAGE)).args(self.arguments()).exec()
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.quick {
            arguments.push("--quick".to_owned());
        }
        if let Some(rounds) = self.rounds {
            arguments.extend(["--rounds".to_owned(), rounds.to_string()]);
        }
        if let Some(name) = &self.only {
            arguments.extend(["--only".to_owned(), name.clone()]);
        }
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_handed_on() {
        let bench = |quick, rounds, only: Option<&str>, arguments: &[&str]| {
            let arguments = arguments.iter().map(ToString::to_string).collect();
            Bench { quick, rounds, only: only.map(str::to_owned), arguments }.arguments().join(" ")
        };
        assert_eq!(bench(false, None, None, &[]), "");
        assert_eq!(bench(true, Some(9), Some("create"), &["--json"]), "--quick --rounds 9 --only create --json");
    }
}
