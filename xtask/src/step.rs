//! The steps of `cargo xtask test`, in the order in which they run, and the loop that runs them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;

use crate::workspace::Workspace;
use crate::{agents, cargo, codegen, deny, mcp, packages, say, schemathesis, ui};

/// The order of the variants is the order of the run: what fails fast comes first, and the tests come before clippy
/// because clippy then reuses what they have built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Step {
    /// Programs that the tests call, installed if missing
    Packages,
    /// Formatting
    Format,
    /// The web UI: lock file, types, tests of its parts, and the build that the daemon carries
    Ui,
    /// All tests of the workspace; those of REST and durability once more with PostgreSQL
    Tests,
    /// Lints, warnings being errors
    Clippy,
    /// Licences, banned crates and sources of the dependencies
    Deny,
    /// Committed generated files are up to date
    Codegen,
    /// The web UI in a real browser before a real daemon
    Browser,
    /// The MCP surface by the official conformance suite and by others' clients
    Mcp,
    /// Claude Code, Codex, opencode and Gemini with scripted models on one daemon
    Agents,
    /// The REST surface against its own OpenAPI description, with generated requests
    Schemathesis,
}

impl Step {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) fn purpose(self) -> String {
        self.to_possible_value().and_then(|value| Some(value.get_help()?.to_string())).unwrap_or_default()
    }

    fn run(self, workspace: &Workspace) -> Result<()> {
        match self {
            Self::Packages => packages::ensure(),
            Self::Format => cargo::format(workspace),
            Self::Ui => ui::check(workspace),
            Self::Tests => cargo::tests(workspace),
            Self::Clippy => cargo::clippy(workspace),
            Self::Deny => deny::check(workspace),
            Self::Codegen => codegen::check(workspace),
            Self::Browser => ui::browse(workspace),
            Self::Mcp => mcp::run(workspace),
            Self::Agents => agents::run(workspace),
            Self::Schemathesis => schemathesis::run(workspace),
        }
    }
}

/// The wanted steps in their order, each once; all of them if none is named.
pub(crate) fn select(only: &[Step]) -> Vec<Step> {
    if only.is_empty() {
        return Step::value_variants().to_vec();
    }
    only.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Runs the steps one after another and stops at the first that fails. The last line printed is a summary.
pub(crate) fn run_all(workspace: &Workspace, steps: &[Step]) -> Result<()> {
    let whole = Stopwatch::start();
    let mut done = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        say::heading(format_args!("{} ({} of {})", step.name(), index + 1, steps.len()));
        let watch = Stopwatch::start();
        let name = step.name();
        if let Err(error) = step.run(workspace) {
            say::note(format_args!("\n{name}: failed; to run it alone: cargo xtask test --only {name}"));
            return Err(error.context(format!("step `{name}` failed after {}", seconds(watch.elapsed()))));
        }
        let took = seconds(watch.elapsed());
        say::note(format_args!("{name}: passed in {took}"));
        done.push(format!("{name} {took}"));
    }
    say::note(format_args!("\nall passed in {}: {}", seconds(whole.elapsed()), done.join(", ")));
    Ok(())
}

/// How long something takes, for people to read and for limits; never an input of a result.
#[derive(Debug)]
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "measures this crate's own work; there is no clock to inject")]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_selection_is_every_step_and_tests_precede_clippy() {
        let steps = select(&[]);
        assert_eq!(steps.len(), Step::value_variants().len());
        assert!(steps.is_sorted(), "the order of the list is the order of the run");
        let position = |wanted| steps.iter().position(|step| *step == wanted);
        assert!(position(Step::Tests) < position(Step::Clippy));
        assert_eq!(steps.first(), Some(&Step::Packages));
    }

    #[test]
    fn a_selection_runs_in_the_order_of_the_steps_and_each_once() {
        assert_eq!(select(&[Step::Clippy, Step::Format, Step::Clippy]), [Step::Format, Step::Clippy]);
    }

    #[test]
    fn every_step_has_a_name_and_says_what_it_is_for() {
        for step in Step::value_variants() {
            assert!(!step.name().is_empty() && !step.purpose().is_empty(), "{step:?}");
        }
    }
}
