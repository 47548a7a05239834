//! What cargo is asked to do, in the one form that shares a target folder.
//!
//! Tests, clippy and the debug daemon are always built for the whole workspace with its tests: a narrower selection
//! unifies features differently, and cargo would build many dependencies twice.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rookery_testdb::Server;

use crate::process::Program;
use crate::workspace::{Kind, Profile, Workspace};
use crate::{agents, postgres, say};

/// Installed where there is no nextest. Any version will do where there is one.
const NEXTEST: &str = "cargo-nextest@0.9.143";

/// The variable that says which store the tests' daemons use.
const STORE: &str = "ROOKERY_TEST_STORE";

/// The daemon's end-to-end tests that run once more, with PostgreSQL under the daemon. Not those that fill the disk that
/// the SQLite file lies on (`disk`). The others that could are a trial: the store's own tests run on both databases.
const ON_POSTGRES: &str =
    "package(rookery) and (binary(rest) or binary(durability)) and not (binary(durability) and test(/^disk::/))";
const ALL_ON_POSTGRES: &str = "package(rookery) and (binary(rest) or binary(clutch) or binary(durability) or binary(mcp)) \
                               and not (binary(durability) and test(/^disk::/))";

pub(crate) fn format(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo()?
        .args(["fmt", "--all", "--check"])
        .run()
        .context("some files are not formatted; `cargo fmt --all` does it")
}

pub(crate) fn clippy(workspace: &Workspace) -> Result<()> {
    workspace.cargo()?.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
}

/// Builds all tests first, so that a build error is not mistaken for a failed test, then runs them: all with the store
/// they name, which is mostly SQLite, then those of the daemon with PostgreSQL.
pub(crate) fn tests(workspace: &Workspace) -> Result<()> {
    if workspace.cargo()?.args(["nextest", "--version"]).probe().is_none() {
        say::note("cargo-nextest is missing: installing it into the target folder");
        install(workspace, NEXTEST)?;
    }
    workspace.cargo()?.args(["nextest", "run", "--workspace", "--no-run"]).run().context("the tests do not build")?;
    let server = postgres::for_tests()?;
    let others = format!("not ({})", agents::TESTS);
    run_tests(workspace, &server, &others)?.env_remove(STORE).run().context("some tests fail")?;
    say::note("\nthe daemon's tests with PostgreSQL");
    let on_postgres = run_tests(workspace, &server, ON_POSTGRES)?.env(STORE, "postgres");
    on_postgres.run().context("some tests fail with PostgreSQL")
}

/// Runs all tests of the daemon that can run with PostgreSQL, and returns their output.
pub(crate) fn tests_on_postgres(workspace: &Workspace) -> Result<String> {
    let server = postgres::for_tests()?;
    run_tests(workspace, &server, ALL_ON_POSTGRES)?.env(STORE, "postgres").run_and_keep()
}

fn run_tests(workspace: &Workspace, server: &Server, which: &str) -> Result<Program> {
    let cargo = workspace.cargo()?.args(["nextest", "run", "--workspace", "-E", which]);
    // Most tests wait for a daemon most of their time.
    let at_once = std::thread::available_parallelism().map_or(1, usize::from) * 2;
    Ok(cargo.arg("--test-threads").arg(at_once.to_string()).env(postgres::SHARED, server.url()))
}

/// Builds the daemon as the tests build it and tells where it is.
pub(crate) fn debug_daemon(workspace: &Workspace) -> Result<PathBuf> {
    workspace.cargo()?.args(["build", "--workspace", "--tests", "--bin", "rookery"]).run()?;
    Ok(workspace.program(Profile::Debug, Kind::Binary, "rookery"))
}

/// Installs a cargo subcommand into the target folder, unoptimised: building it is what takes the time.
pub(crate) fn install(workspace: &Workspace, tool: &str) -> Result<()> {
    let tools = workspace.tools();
    let build = tools.join("build");
    workspace
        .cargo()?
        .args(["install", "--locked", "--debug", "--force", "--root"])
        .arg(&tools)
        .arg("--target-dir")
        .arg(&build)
        .arg(tool)
        .run()
        .with_context(|| format!("cannot install {tool}"))?;
    // Hundreds of megabytes that nobody needs again.
    fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))
}
