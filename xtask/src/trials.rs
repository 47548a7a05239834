//! `cargo xtask trials`: checks that take longer than the tests may, each with a report that is committed.
//!
//! A report in `trials/` says which commit was tried on which machine with which versions, how long it took, and the
//! figures that the programs printed. It is written also if the trial fails.

use std::fs;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::process::Program;
use crate::step::Stopwatch;
use crate::workspace::Workspace;
use crate::{cargo, fuzz, say, schemathesis, sim, ui};

/// Run a check that takes longer than the tests may, and write its report to `trials/`
#[derive(Debug, Args)]
#[command(after_help = "Example: cargo xtask trials fuzz --seconds 600")]
pub(crate) struct Trials {
    /// The trial
    #[arg(value_name = "NAME")]
    trial: Trial,

    /// How long each fuzz target runs
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Trial {
    /// All tests of the daemon with PostgreSQL; the tests run those of REST and of durability
    Postgres,
    /// Every fuzz target, one after another
    Fuzz,
    /// 1,000 seeds of the fault simulation
    Simulation,
    /// REST requests generated from the OpenAPI description, several times as many as in the tests
    Schemathesis,
    /// How fast the web UI is in a browser
    Browser,
}

impl Trial {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Trials {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let machine = Machine::describe(workspace);
        let watch = Stopwatch::start();
        let outcome = self.perform(workspace);
        let minutes = watch.elapsed().as_secs().div_ceil(60);
        let report = report(&self.trial.name(), &machine, minutes, &outcome);
        let folder = workspace.root().join("trials");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(format!("{}.md", self.trial.name()));
        fs::write(&path, report).with_context(|| format!("cannot write {}", path.display()))?;
        say::note(format_args!("\nthe report is in {}", path.display()));
        outcome.map(drop)
    }

    /// Runs the trial and returns the lines of its output that belong in the report.
    fn perform(&self, workspace: &Workspace) -> Result<Vec<String>> {
        match self.trial {
            Trial::Postgres => cargo::tests_on_postgres(workspace).map(|said| lines_with(&said, &["tests run:"])),
            Trial::Fuzz => fuzz::run_all(workspace, self.seconds),
            Trial::Simulation => sim::many(workspace).map(|said| lines_with(&said, &["seeds", "passed", "events"])),
            Trial::Schemathesis => {
                let said = schemathesis::run_at_length(workspace)?;
                Ok(lines_with(&said, &["Test cases:", "generated", "Tested:", "Operations", "passed"]))
            }
            Trial::Browser => ui::measure(workspace).map(|said| lines_with(&said, &["passed", " ms", "per second"])),
        }
    }
}

/// The lines that contain one of the words, without colours.
pub(crate) fn lines_with(text: &str, words: &[&str]) -> Vec<String> {
    let plain = text.lines().map(without_colours);
    plain.filter(|line| words.iter().any(|word| line.contains(word))).map(|line| line.trim().to_owned()).collect()
}

fn without_colours(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        if next == '\u{1b}' {
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(next);
        }
    }
    plain
}

/// The tree and the machine that a trial is about.
struct Machine {
    commit: String,
    date: String,
    hardware: String,
    versions: Vec<String>,
}

impl Machine {
    fn describe(workspace: &Workspace) -> Machine {
        let git = |arguments: &[&str]| Program::new("git").args(arguments).dir(workspace.root()).probe();
        let first_line = |program: &str, argument: &str| {
            let said = Program::new(program).arg(argument).probe()?;
            said.lines().next().map(str::to_owned)
        };
        let mut commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default().trim().to_owned();
        if git(&["status", "--porcelain", "--", ":!trials"]).is_none_or(|changes| !changes.is_empty()) {
            commit.push_str(" with uncommitted changes");
        }
        let programs = [("rustc", "--version"), ("node", "--version"), ("bwrap", "--version"), ("psql", "--version")];
        let versions = programs.iter().filter_map(|(program, argument)| first_line(program, argument));
        Machine {
            commit,
            date: first_line("date", "--iso-8601").unwrap_or_default(),
            hardware: hardware(),
            versions: versions.collect(),
        }
    }
}

fn hardware() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().split(' ').next()?.parse().ok());
    let gib = kib.map_or(0, |kib: u64| kib.div_ceil(1 << 20));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores, {gib} GiB, Linux {}", kernel.trim())
}

fn report(name: &str, machine: &Machine, minutes: u64, outcome: &Result<Vec<String>>) -> String {
    let mut text = format!("# Trial: {name}\n\n`cargo xtask trials {name}`\n\n| | |\n|---|---|\n");
    let result = if outcome.is_ok() { "passed" } else { "failed" };
    let rows = [
        ("outcome", result.to_owned()),
        ("commit", machine.commit.clone()),
        ("date", machine.date.clone()),
        ("machine", machine.hardware.clone()),
        ("versions", machine.versions.join("; ")),
        ("took", format!("{minutes} min")),
    ];
    for (title, value) in rows {
        text.push_str(&format!("| {title} | {value} |\n"));
    }
    let figures = match outcome {
        Ok(lines) => lines.join("\n"),
        Err(error) => format!("{error:#}"),
    };
    text.push_str(&format!("\n```\n{figures}\n```\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_colours() {
        let said = "\u{1b}[32;1m     Summary\u{1b}[0m [ 4s] 9 tests run: 9 passed\nother\n";
        assert_eq!(lines_with(said, &["tests run:"]), ["Summary [ 4s] 9 tests run: 9 passed"]);
    }

    #[test]
    fn report_tells_commit_versions_and_why_it_failed() {
        let machine = Machine {
            commit: "abc".into(),
            date: "2026-01-01".into(),
            hardware: "2 cores".into(),
            versions: vec!["rustc 1".into(), "node 20".into()],
        };
        let good = report("fuzz", &machine, 3, &Ok(vec!["9 runs".into()]));
        assert!(good.contains("| outcome | passed |") && good.contains("| versions | rustc 1; node 20 |"), "{good}");
        assert!(good.contains("```\n9 runs\n```"), "{good}");
        let bad = report("fuzz", &machine, 3, &Err(anyhow::anyhow!("it crashed")));
        assert!(bad.contains("| outcome | failed |") && bad.contains("it crashed"), "{bad}");
    }
}
