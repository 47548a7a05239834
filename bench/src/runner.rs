//! Teams of scripted agents that answer each other: messages per second, the delay from a message to its turn, and the memory,
//! for growing teams.
//!
//! Agents work in pairs. Each message wakes the other agent, which reads something and answers, until all messages are sent. So
//! half of the team is at work at any time, and the figures show the way of a message through daemon and runner and back. Times
//! are those of the log: of the message, and of the turn about it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::daemon::{self, Daemon};
use crate::report::{Figure, Report};
use crate::sample::percentile;
use crate::{Plan, machine, say};

const TEAMS: [usize; 4] = [10, 50, 100, 200];
/// The team size for which the daemon's memory is reported.
const TEAM: usize = 50;
const MESSAGES: usize = 10_000;
const QUICK_MESSAGES: usize = 600;
const LOOK: Duration = Duration::from_millis(50);

/// The results of one team.
struct Measured {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    runner_mib: f64,
    daemon_mib: f64,
}

pub(crate) fn run(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let messages = if plan.rounds > 3 { MESSAGES } else { QUICK_MESSAGES };
    for agents in TEAMS {
        let measured = runtime.block_on(measure(plan, agents, messages))?;
        let name = format!("{agents} scripted agents");
        report.add(Figure::new(format!("{name}: messages and turns"), measured.per_second, "/s"));
        report.add(Figure::new(format!("{name}: message to turn, p50"), measured.p50_ms, "ms"));
        report.add(Figure::new(format!("{name}: message to turn, p99"), measured.p99_ms, "ms"));
        report.add(Figure::new(format!("{name}: memory of the runner, at most"), measured.runner_mib, "MiB"));
        if agents == TEAM {
            report.add(Figure::new(format!("{name}: memory of the daemon after it"), measured.daemon_mib, "MiB"));
        }
        say::note(format_args!("{agents} agents measured"));
    }
    Ok(())
}

async fn measure(plan: &Plan, agents: usize, messages: usize) -> anyhow::Result<Measured> {
    let scratch = plan.scratch()?;
    let root = scratch.path();
    // The storm guard would stop such a team.
    fs::write(root.join("rookery.toml"), "message_hops = 1000000\nmessages_per_minute = 1000000\n")?;
    fs::write(root.join("team.yaml"), team(agents, messages / agents))?;
    let daemon = Daemon::start(root).await?;
    let log = fs::File::create(root.join("runner.log"))?;
    let mut command = daemon::rookery(root)?;
    command.args(["run", "team.yaml", "--instance", "bench"]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let runner = command.spawn().context("cannot start the team")?;
    let runner_mib = watch(runner, root).await?;
    let (daemon_mib, _) = daemon.memory_mib()?;
    daemon.stop()?;
    let (sent, waited) = times(root)?;
    ensure!(!waited.is_empty(), "no message is known that a turn was for");
    let expected = agents * (messages / agents);
    ensure!(sent.len() >= expected, "{} messages were sent, not {expected}", sent.len());
    let seconds = (sent.last().unwrap_or(&0) - sent.first().unwrap_or(&0)) as f64 / 1e3;
    Ok(Measured {
        per_second: sent.len() as f64 / seconds.max(f64::EPSILON),
        p50_ms: percentile(&waited, 0.50),
        p99_ms: percentile(&waited, 0.99),
        runner_mib,
        daemon_mib,
    })
}

/// Pairs of agents, one of which begins.
fn team(agents: usize, turns: usize) -> String {
    let mut text = String::from("agents:\n");
    for at in 0..agents {
        let other = at ^ 1;
        let _ = writeln!(
            text,
            "  a{at}: {{backend: mock, script: [{{times: {turns}, do: [{{call: document_list}}, {{say: '@a{other} next'}}]}}]}}"
        );
    }
    let begin: Vec<String> = (0..agents).step_by(2).map(|at| format!("@a{at}")).collect();
    let _ = writeln!(text, "kickoff: '{} begin'", begin.join(" "));
    text
}

/// Waits until the team is done, and returns its peak memory in MiB.
async fn watch(mut runner: Child, root: &Path) -> anyhow::Result<f64> {
    let file = format!("/proc/{}/status", runner.id());
    let mut most = 0.0_f64;
    loop {
        let peak = machine::field(&file, "VmHWM").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        most = most.max(peak.unwrap_or_default() / 1024.0);
        if let Some(status) = runner.try_wait()? {
            let said = fs::read_to_string(root.join("runner.log")).unwrap_or_default();
            ensure!(status.success(), "the team failed ({status}):\n{said}");
            return Ok(most);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The time of each message in milliseconds, and the sorted delays until their turns.
fn times(root: &Path) -> anyhow::Result<(Vec<i64>, Vec<u64>)> {
    let output = daemon::rookery(root)?.arg("export").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut sent, mut waited, mut stored) = (Vec::new(), Vec::new(), HashMap::new());
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let row: Value = serde_json::from_slice(line)?;
        let Some(at) = row["at"].as_i64() else { continue };
        match row["kind"].as_str() {
            Some("message.sent") => {
                sent.push(at);
                stored.extend(row["fact"]["message"].as_str().map(|id| (id.to_owned(), at)));
            }
            Some("turn.started") => {
                let about = row["fact"]["messages"].as_array().into_iter().flatten().filter_map(Value::as_str);
                waited.extend(about.filter_map(|id| stored.get(id)).map(|sent| at.abs_diff(*sent)));
            }
            _ => {}
        }
    }
    waited.sort_unstable();
    Ok((sent, waited))
}
