//! `cargo xtask sim`: more seeds of the fault simulation than the tests run.

use anyhow::{Result, bail};
use clap::Args;

use crate::process::Program;
use crate::workspace::{Kind, Profile, Workspace};

const PACKAGE: &str = "rookery-testkit";
const PROGRAM: &str = "sim";
/// The seeds of the trial.
const MANY: &str = "0..1000";

/// Run the seeded fault simulation, over more seeds than the tests do
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// The seeds to run, the last one excluded, for example 0..1000
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Option<String>,

    /// Handed to the simulation as they are
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

impl Sim {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let mut program = build(workspace)?;
        if let Some(seeds) = &self.seeds {
            program = program.args(["--seeds", seeds]);
        }
        program.args(&self.arguments).exec()
    }
}

/// Runs many seeds, and returns the output.
pub(crate) fn many(workspace: &Workspace) -> Result<String> {
    build(workspace)?.args(["--seeds", MANY]).run_and_keep()
}

fn build(workspace: &Workspace) -> Result<Program> {
    let kind = workspace.kind_of(PACKAGE, PROGRAM)?;
    let selection = match kind {
        Kind::Binary => "--bin",
        Kind::Example => "--example",
    };
    workspace.cargo()?.args(["build", "--profile", "quick", "-p", PACKAGE, selection, PROGRAM]).run()?;
    Ok(Program::new(workspace.program(Profile::Quick, kind, PROGRAM)))
}

/// Refuses a mistyped range here, before the build, instead of after it.
fn seeds(text: &str) -> Result<String> {
    let range = text.split_once("..").and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)));
    match range {
        Some((first, end)) if first < end => Ok(text.to_owned()),
        Some(_) => bail!("the range is empty"),
        None => bail!("write two numbers as A..B, for example 0..1000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!(seeds("0..1000").unwrap(), "0..1000");
        for (text, reason) in [("5..5", "empty"), ("9..2", "empty"), ("7", "A..B"), ("a..b", "A..B"), ("-1..2", "A..B")]
        {
            let error = seeds(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
