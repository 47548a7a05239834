//! Schemathesis against a real daemon: requests generated from the OpenAPI description, answers checked against it.
//!
//! The amount of work is fixed (seed and number of examples), not the time: its own time budget would be spent in full
//! on every run. Our limit only ends a run that hangs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::daemon::Daemon;
use crate::process::Program;
use crate::workspace::Workspace;
use crate::{cargo, say};

const VERSION: &str = "4.32.5";
const LIMIT: Duration = Duration::from_secs(300);

const PHASES: &str = "examples,coverage,fuzzing,stateful";
const EXAMPLES: &str = "15";
const MANY_EXAMPLES: &str = "100";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance,unsupported_method";
/// A stream never ends, which a client that waits for whole answers cannot test.
const STREAM: &str = "/events/stream";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    with_daemon(workspace, |program, daemon, folder| {
        generate_requests(program, daemon, folder, EXAMPLES)?.start()?.finish_within(LIMIT)
    })
}

/// Sends several times as many requests, and returns the output.
pub(crate) fn run_at_length(workspace: &Workspace) -> Result<String> {
    with_daemon(workspace, |program, daemon, folder| {
        generate_requests(program, daemon, folder, MANY_EXAMPLES)?.run_and_keep()
    })
}

fn with_daemon<T>(workspace: &Workspace, check: impl FnOnce(&Path, &Daemon, &Path) -> Result<T>) -> Result<T> {
    let schemathesis = install(workspace)?;
    let rookery = cargo::debug_daemon(workspace)?;
    let folder = empty_folder(workspace.target().join("schemathesis"))?;
    let log = folder.join("daemon.log");
    let daemon = Daemon::start(&rookery, &log)?;
    say::note(format_args!("daemon at {}, its log in {}", daemon.url(), log.display()));
    let outcome = check(&schemathesis, &daemon, &folder);
    if outcome.is_err() {
        say::note(format_args!("\nthe end of the daemon's log:\n{}", daemon.log_tail()));
    }
    // The daemon has to end cleanly too, but a failed check is the more useful message.
    let stopped = daemon.stop();
    let outcome = outcome?;
    stopped.map(|()| outcome)
}

fn generate_requests(schemathesis: &Path, daemon: &Daemon, folder: &Path, examples: &str) -> Result<Program> {
    let url = daemon.url();
    let program = Program::new(schemathesis)
        .args(["run", &format!("{url}/openapi.json"), "--exclude-path", STREAM])
        .args(["--phases", PHASES, "--max-examples", examples, "--checks", CHECKS])
        // One worker: parsing Python in several threads at once fails now and then in Python 3.11.
        .args(["--workers", "1", "--seed", "1", "--generation-database", "none"])
        .args(["--request-timeout", "10", "--no-color"])
        // Paths rarely survive the URL rules of the generator; that is no fault of the daemon.
        .args(["--suppress-health-check", "filter_too_much"])
        .args(["--header", &format!("Authorization: Bearer {}", daemon.person_key()?)])
        // The daemon is on this machine; a proxy of the environment must not stand in between.
        .env("NO_PROXY", "*")
        .dir(folder);
    Ok(program)
}

/// It remembers past failures where it runs, and a run must not depend on the one before.
fn empty_folder(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// A Python environment in the target folder, made once.
fn install(workspace: &Workspace) -> Result<PathBuf> {
    let environment = workspace.tools().join("schemathesis");
    let program = environment.join("bin/schemathesis");
    let found = Program::new(&program).arg("--version").probe();
    if found.is_some_and(|text| is_wanted(&text)) {
        return Ok(program);
    }
    say::note(format_args!("schemathesis {VERSION} is missing: installing it into the target folder"));
    Program::new("python3").args(["-m", "venv", "--clear"]).arg(&environment).run()?;
    Program::new(environment.join("bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("schemathesis=={VERSION}"))
        .run()
        .with_context(|| format!("cannot install schemathesis {VERSION}"))?;
    Ok(program)
}

fn is_wanted(version_line: &str) -> bool {
    version_line.split_whitespace().next_back() == Some(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_version_is_wanted() {
        assert!(is_wanted("schemathesis, version 4.32.5\n"));
        assert!(!is_wanted("schemathesis, version 4.32.50\n"));
        assert!(!is_wanted(""));
    }
}
