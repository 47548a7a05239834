//! Everything a script would do, in Rust: build and start the daemon, run the checks, regenerate files, measure.
//!
//! One file or folder per subcommand, whose doc comments are its help. `process.rs` is the only place that starts programs and
//! `say.rs` the only one that prints. Nothing here is part of the product: no crate may depend on this one.

mod advisories;
mod agents;
mod bench;
mod cargo;
mod check;
mod codegen;
mod daemon;
mod deny;
mod fuzz;
mod mcp;
mod npm;
mod packages;
mod postgres;
mod process;
mod rename;
mod say;
mod schemathesis;
mod sim;
mod source;
mod step;
mod test;
mod tidy;
mod trials;
mod ui;
mod up;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Builds, starts, tests and measures Rookery.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Up(up::Up),
    Ui(ui::Ui),
    Screenshots(ui::Screenshots),
    Test(test::Test),
    Trials(trials::Trials),
    Check(check::Check),
    Codegen(codegen::Codegen),
    Rename(rename::Rename),
    Tidy(tidy::Tidy),
    Bench(bench::Bench),
    Sim(sim::Sim),
    Fuzz(fuzz::Fuzz),
    Postgres(postgres::Postgres),
    Advisories(advisories::Advisories),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::failure(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Up(up) => up.run(&workspace),
        Task::Ui(ui) => ui.run(&workspace),
        Task::Screenshots(screenshots) => screenshots.run(&workspace),
        Task::Test(test) => test.run(&workspace),
        Task::Trials(trials) => trials.run(&workspace),
        Task::Check(check) => check.run(&workspace),
        Task::Codegen(codegen) => codegen.run(&workspace),
        Task::Rename(rename) => rename.run(&workspace),
        Task::Tidy(tidy) => tidy.run(&workspace),
        Task::Bench(bench) => bench.run(&workspace),
        Task::Sim(sim) => sim.run(&workspace),
        Task::Fuzz(fuzz) => fuzz.run(&workspace),
        Task::Postgres(postgres) => postgres.run(),
        Task::Advisories(advisories) => advisories.run(&workspace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
