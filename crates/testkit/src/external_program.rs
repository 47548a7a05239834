//! A program of somebody else's: in a home of its own, with nothing of our environment, and gone with its children when
//! the test is.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Where nobody listens: whatever does not go to the loopback address ends there.
const NOWHERE: &str = "http://127.0.0.1:9";

/// A program that is about to be started.
#[derive(Debug)]
pub struct Foreign {
    command: Command,
    home: TempDir,
}

impl Foreign {
    #[expect(clippy::disallowed_methods, reason = "this is the module that starts others' programs")]
    pub fn new(program: &Path) -> anyhow::Result<Foreign> {
        let home = tempfile::tempdir()?;
        let work = home.path().join("work");
        std::fs::create_dir(&work)?;
        std::fs::create_dir(home.path().join("tmp"))?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home.path()).env("TMPDIR", home.path().join("tmp")).current_dir(work);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, NOWHERE);
        }
        for name in ["NO_PROXY", "no_proxy"] {
            command.env(name, "127.0.0.1,localhost");
        }
        // A group of its own, so that what it starts ends with it.
        command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        Ok(Foreign { command, home })
    }

    /// Its home, for files that it is to find there.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    #[must_use]
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Foreign {
        self.command.args(args);
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Foreign {
        self.command.env(name, value);
        self
    }

    /// Runs it to its end, or ends it when it takes longer than it may.
    pub async fn run(mut self, at_most: Duration) -> anyhow::Result<ProgramOutcome> {
        let (out, err) = (self.home.path().join("stdout"), self.home.path().join("stderr"));
        self.command.stdout(File::create(&out)?).stderr(File::create(&err)?);
        let child = self.command.spawn().context("the program cannot be started")?;
        let mut group = Group::of(child)?;
        let status = tokio::time::timeout(at_most, group.child.wait()).await.ok().transpose()?;
        drop(group);
        Ok(ProgramOutcome { status, stdout: read(&out)?, stderr: read(&err)? })
    }
}

fn read(path: &PathBuf) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// How a program ended, and what it wrote.
#[derive(Clone, Debug)]
pub struct ProgramOutcome {
    /// `None` if it took too long.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

/// A process and everything it started.
#[derive(Debug)]
struct Group {
    child: Child,
    leader: Pid,
}

impl Group {
    fn of(child: Child) -> anyhow::Result<Group> {
        let id = child.id().context("it has ended already")?;
        let leader = Pid::from_raw(i32::try_from(id)?).context("a process without an id")?;
        Ok(Group { child, leader })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails if nobody of the group is left, which is what is wanted.
        let _gone = kill_process_group(self.leader, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::eventually;

    fn shell(script: &str) -> Foreign {
        Foreign::new(Path::new("/bin/sh")).unwrap().args(["-c", script])
    }

    #[tokio::test]
    async fn it_sees_nothing_of_our_environment() {
        let ended = shell("env; pwd").env("EXTRA", "1").run(Duration::from_secs(30)).await.unwrap();
        assert!(ended.status.unwrap().success(), "{}", ended.stderr);
        assert!(ended.stdout.contains("EXTRA=1") && !ended.stdout.contains("CARGO"), "{}", ended.stdout);
    }

    #[tokio::test]
    async fn what_it_started_ends_with_it() {
        // It leaves its own child behind and ends.
        let ended = shell("sleep 600 & echo $!").run(Duration::from_secs(30)).await.unwrap();
        gone(ended.stdout.trim()).await;
        let ended = shell("echo $$; sleep 600").run(Duration::from_secs(1)).await.unwrap();
        assert!(ended.status.is_none(), "{ended:?}");
        gone(ended.stdout.trim()).await;
    }

    async fn gone(id: &str) {
        let status = PathBuf::from(format!("/proc/{id}/status"));
        let ended = async || {
            let state = std::fs::read_to_string(&status).unwrap_or_default();
            // Nobody may be there to take note of its end; then it stays as a name without a process.
            Ok((state.is_empty() || state.contains("State:\tZ")).then_some(()))
        };
        eventually("the process ends", ended).await.unwrap();
    }
}
