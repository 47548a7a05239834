//! A third-party program under test: it gets its own home and none of our environment, and ends with its children when the
//! test does.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A proxy URL on a closed port, so that requests beyond the loopback address fail.
const CLOSED_PROXY: &str = "http://127.0.0.1:9";

/// A program that is about to be started.
#[derive(Debug)]
pub struct ExternalProgram {
    command: Command,
    home: TempDir,
}

impl ExternalProgram {
    #[expect(clippy::disallowed_methods, reason = "this module starts third-party programs")]
    pub fn new(program: &Path) -> anyhow::Result<ExternalProgram> {
        let home = tempfile::tempdir()?;
        let work = home.path().join("work");
        std::fs::create_dir(&work)?;
        std::fs::create_dir(home.path().join("tmp"))?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home.path()).env("TMPDIR", home.path().join("tmp")).current_dir(work);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, CLOSED_PROXY);
        }
        for name in ["NO_PROXY", "no_proxy"] {
            command.env(name, "127.0.0.1,localhost");
        }
        // Its own process group, so that its children can be killed with it.
        command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        Ok(ExternalProgram { command, home })
    }

    /// The program's home, for files that it reads.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    #[must_use]
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> ExternalProgram {
        self.command.args(args);
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> ExternalProgram {
        self.command.env(name, value);
        self
    }

    /// Runs the program until it ends, and kills it after `at_most`.
    pub async fn run(mut self, at_most: Duration) -> anyhow::Result<ProgramOutcome> {
        let (out, err) = (self.home.path().join("stdout"), self.home.path().join("stderr"));
        self.command.stdout(File::create(&out)?).stderr(File::create(&err)?);
        let child = self.command.spawn().context("cannot start the program")?;
        let mut group = ProcessGroup::of(child)?;
        let status = tokio::time::timeout(at_most, group.child.wait()).await.ok().transpose()?;
        drop(group);
        Ok(ProgramOutcome { status, stdout: read(&out)?, stderr: read(&err)? })
    }
}

fn read(path: &PathBuf) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// A program's exit status and output.
#[derive(Clone, Debug)]
pub struct ProgramOutcome {
    /// `None` if the program was killed because it took too long.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

/// A process with its descendants.
#[derive(Debug)]
struct ProcessGroup {
    child: Child,
    leader: Pid,
}

impl ProcessGroup {
    fn of(child: Child) -> anyhow::Result<ProcessGroup> {
        let id = child.id().context("the program ended already")?;
        let leader = Pid::from_raw(i32::try_from(id)?).context("the process has no id")?;
        Ok(ProcessGroup { child, leader })
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Fails if the group has no process left.
        kill_process_group(self.leader, Signal::KILL).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::eventually;

    fn shell(script: &str) -> ExternalProgram {
        ExternalProgram::new(Path::new("/bin/sh")).unwrap().args(["-c", script])
    }

    #[tokio::test]
    async fn program_does_not_inherit_environment() {
        let ended = shell("env; pwd").env("EXTRA", "1").run(Duration::from_secs(30)).await.unwrap();
        assert!(ended.status.unwrap().success(), "{}", ended.stderr);
        assert!(ended.stdout.contains("EXTRA=1") && !ended.stdout.contains("CARGO"), "{}", ended.stdout);
    }

    #[tokio::test]
    async fn children_end_on_exit_and_on_timeout() {
        // The program ends and leaves a child behind.
        let ended = shell("sleep 600 & echo $!").run(Duration::from_secs(30)).await.unwrap();
        wait_until_gone(ended.stdout.trim()).await;
        let ended = shell("echo $$; sleep 600").run(Duration::from_secs(1)).await.unwrap();
        assert!(ended.status.is_none(), "{ended:?}");
        wait_until_gone(ended.stdout.trim()).await;
    }

    async fn wait_until_gone(id: &str) {
        let status = PathBuf::from(format!("/proc/{id}/status"));
        let ended = async || {
            let state = std::fs::read_to_string(&status).unwrap_or_default();
            // Without a parent to collect its exit status, a dead process stays a zombie.
            Ok((state.is_empty() || state.contains("State:\tZ")).then_some(()))
        };
        eventually("the end of the process", ended).await.unwrap();
    }
}
