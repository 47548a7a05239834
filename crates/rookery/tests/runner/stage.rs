//! A project with a daemon for running teams, and queries of its log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use rookery_testkit::daemon::{Daemon, Setup};
use rookery_testkit::wait::{DEADLINE, eventually};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;

pub struct Stage {
    pub daemon: Daemon,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandResult {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl CommandResult {
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("no JSON: {self:?}"))
    }
}

/// A running command.
pub struct Runner {
    child: Child,
}

impl Stage {
    pub fn new() -> anyhow::Result<Stage> {
        Ok(Stage { daemon: Setup::new(env!("CARGO_BIN_EXE_rookery")).arg("--no-watch").start()? })
    }

    pub fn save(&self, path: &str, text: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(self.daemon.root().join(path), text)?)
    }

    /// Runs `rookery` in the project to its end.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<CommandResult> {
        self.start(arguments)?.finish().await
    }

    pub fn start(&self, arguments: &[&str]) -> anyhow::Result<Runner> {
        self.start_as(env!("CARGO_BIN_EXE_rookery"), arguments)
    }

    #[expect(clippy::disallowed_methods, reason = "the program under test is started here")]
    pub fn start_as(&self, program: &str, arguments: &[&str]) -> anyhow::Result<Runner> {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
            command.env_remove(name);
        }
        command.args(arguments).current_dir(self.daemon.root());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Runner { child: command.spawn()? })
    }

    /// Runs git in the project.
    #[expect(clippy::disallowed_methods, reason = "a repository for agents to work in")]
    pub fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"]).args(arguments);
        let output = command.current_dir(self.daemon.root()).output()?;
        ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Posts a request as a person.
    pub async fn as_person(&self, path: &str, body: Value) -> anyhow::Result<()> {
        let request = self.daemon.request(reqwest::Method::POST, path).bearer_auth(self.daemon.person_key()?);
        request.json(&body).send().await?.error_for_status()?;
        Ok(())
    }

    /// Runs a line of shell in the project with a git identity.
    #[expect(clippy::disallowed_methods, reason = "runs a shell line as a person would")]
    pub fn shell(&self, line: &str) -> anyhow::Result<()> {
        let identity = [
            ("GIT_AUTHOR_NAME", "a"),
            ("GIT_AUTHOR_EMAIL", "a@b"),
            ("GIT_COMMITTER_NAME", "a"),
            ("GIT_COMMITTER_EMAIL", "a@b"),
        ];
        let output = Command::new("sh").args(["-c", line]).envs(identity).current_dir(self.daemon.root()).output()?;
        ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    pub async fn team(&self, id: &str) -> anyhow::Result<Value> {
        Ok(self.daemon.get(&format!("/teams/{id}")).await?.body)
    }

    /// The turns of a team, oldest first.
    pub async fn turns(&self, team: &str) -> anyhow::Result<Vec<Value>> {
        let reply = self.daemon.get(&format!("/turns?team={team}&limit=1000")).await?;
        let mut turns = reply.body["turns"].as_array().cloned().context("no turns")?;
        turns.reverse();
        Ok(turns)
    }

    /// The events of one kind, oldest first.
    pub async fn events(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let reply = self.daemon.get(&format!("/events?action={kind}&limit=1000")).await?;
        let mut events = reply.body.as_array().cloned().with_context(|| format!("no events: {:?}", reply.body))?;
        events.reverse();
        Ok(events)
    }

    /// Author and text of each message in the channel of an instance, oldest first.
    pub async fn channel(&self, instance: &str) -> anyhow::Result<Vec<(String, String)>> {
        let thread = format!("thr_{instance}");
        let text = |event: &Value, field: &str| event["metadata"][field].as_str().unwrap_or_default().to_owned();
        let sent = self.events("x.message.sent").await?;
        let here = sent.iter().filter(|event| event["metadata"]["thread"] == *thread);
        Ok(here.map(|event| (text(event, "name"), text(event, "text"))).collect())
    }

    /// The number of acknowledgements by message and recipient.
    pub async fn acknowledgement_counts(&self) -> anyhow::Result<BTreeMap<(String, String), usize>> {
        let mut counts = BTreeMap::new();
        for sent in self.events("x.message.sent").await? {
            let id = sent["metadata"]["message"].as_str().unwrap_or_default().to_owned();
            for agent in sent["metadata"]["to"]["agents"].as_array().into_iter().flatten() {
                counts.insert((id.clone(), agent.as_str().unwrap_or_default().to_owned()), 0);
            }
        }
        for acked in self.events("x.message.acked").await? {
            let agent = acked["agent_id"].as_str().unwrap_or_default().to_owned();
            for id in acked["metadata"]["messages"].as_array().into_iter().flatten() {
                *counts.entry((id.as_str().unwrap_or_default().to_owned(), agent.clone())).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// Fails unless every recipient acknowledged each message exactly once.
    pub async fn check_acknowledged_once(&self) -> anyhow::Result<()> {
        let counts = self.acknowledgement_counts().await?;
        let wrong: BTreeSet<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
        ensure!(wrong.is_empty() && !counts.is_empty(), "not acknowledged once: {wrong:?}");
        Ok(())
    }

    /// Waits until a team has an open turn of this agent.
    pub async fn wait_until_working(&self, team: &str, agent: &str) -> anyhow::Result<()> {
        eventually("the agent works", async || {
            let team = self.team(team).await?;
            let agents = team["agents"].as_array().cloned().unwrap_or_default();
            Ok(agents.iter().any(|one| one["name"] == agent && one["state"] == "working").then_some(()))
        })
        .await
    }

    /// Whether a process exists whose command line contains this text.
    pub fn is_running(&self, needle: &str) -> bool {
        let Ok(entries) = std::fs::read_dir("/proc") else { return false };
        let lines = entries.flatten().map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
        lines.into_iter().any(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(needle))
    }
}

impl Drop for Stage {
    /// Kills runners of a failed test, which would wait for their daemon forever.
    fn drop(&mut self) {
        let teams = std::fs::read_dir(self.daemon.root().join(".rookery/run")).into_iter().flatten().flatten();
        for team in teams {
            let pid = std::fs::read_to_string(team.path().join(".lock")).unwrap_or_default();
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
            let is_ours = String::from_utf8_lossy(&line).contains(&*self.daemon.root().to_string_lossy());
            if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw).filter(|_| is_ours) {
                kill_process(pid, Signal::KILL).ok();
            }
        }
    }
}

impl Runner {
    /// Kills the command, like a power cut.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub fn has_exited(&self) -> anyhow::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.child)), look)?.is_some())
    }

    /// Sends SIGINT, like Ctrl-C.
    pub fn interrupt(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::INT)?)
    }

    /// Sends SIGTERM, like a machine that shuts down.
    pub fn terminate(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::TERM)?)
    }

    /// Waits until the command exits, up to the deadline.
    pub async fn finish(self) -> anyhow::Result<CommandResult> {
        let pid = Pid::from_child(&self.child);
        let waiting = tokio::task::spawn_blocking(move || self.wait());
        match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(output) => output?,
            Err(_) => {
                kill_process(pid, Signal::KILL)?;
                anyhow::bail!("the command did not exit before the deadline")
            }
        }
    }

    fn wait(mut self) -> anyhow::Result<CommandResult> {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let mut errors = self.child.stderr.take().context("no stderr")?;
        let reading = std::thread::spawn(move || errors.read_to_string(&mut stderr).map(|_| stderr));
        self.child.stdout.take().context("no stdout")?.read_to_string(&mut stdout)?;
        let stderr = reading.join().map_err(|_| anyhow::anyhow!("the reader of stderr panicked"))??;
        Ok(CommandResult { code: self.child.wait()?.code(), stdout, stderr })
    }
}
