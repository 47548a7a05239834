//! Processes: the daemon in the background, and signals to it.
//!
//! The only module of this crate that starts a process or signals one.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal};

use crate::config::Flags;
use crate::project::Project;

/// A log of the daemon larger than this is set aside when the next one starts.
const LOG_KEPT_BYTES: u64 = 10 << 20;

/// Starts this program again as the project's daemon, with its output in `.rookery/log/daemon.log`.
///
/// The child leaves the caller's session by itself ([`detach`]), so that closing the terminal does not end it.
pub fn spawn_daemon(project: &Project, flags: &Flags) -> anyhow::Result<Child> {
    project.prepare()?;
    let path = project.daemon_log();
    set_aside_when_large(&path).with_context(|| format!("cannot set {} aside", path.display()))?;
    let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = open().with_context(|| format!("cannot write {}", path.display()))?;
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    command(&program)
        .args(["up", "--detached", "--dir"])
        .arg(project.root())
        .envs(flags.environment())
        .current_dir(project.root())
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("cannot share the daemon's log")?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

/// Starts this program again with these arguments, in the project, with its output in `log`. It leaves the caller's session by
/// itself ([`detach`]).
pub fn spawn_runner(project: &Project, log: &Path, arguments: &[OsString]) -> anyhow::Result<Child> {
    if let Some(folder) = log.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    set_aside_when_large(log).with_context(|| format!("cannot set {} aside", log.display()))?;
    let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(log);
    let output = open().with_context(|| format!("cannot write {}", log.display()))?;
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    command(&program)
        .arg("--dir")
        .arg(project.root())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone().context("cannot share the log")?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

/// Runs this program once with these arguments, in the project, and takes what it prints. It is not ended with us: what it
/// starts shall stay.
pub async fn own_command(root: &Path, arguments: &[OsString]) -> io::Result<Output> {
    let mut command = tokio::process::Command::from(command(&std::env::current_exe()?));
    command.arg("--dir").arg(root).args(arguments).current_dir(root).stdin(Stdio::null()).output().await
}

/// The program of this process, also after the file that it was started from has been replaced.
pub fn own_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}

/// Leaves the session and the terminal of whoever started this process.
pub fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Asks a process to end.
pub fn terminate(pid: u32) -> io::Result<()> {
    let raw = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let pid = Pid::from_raw(raw).ok_or(io::ErrorKind::InvalidInput)?;
    rustix::process::kill_process(pid, Signal::TERM)?;
    Ok(())
}

/// Makes a folder a git repository with everything that is in it, whatever the person's own settings say.
pub fn commit_all(folder: &Path, message: &str) -> anyhow::Result<()> {
    let author = ["-c", "user.name=Rookery", "-c", "user.email=rookery@localhost", "-c", "commit.gpgsign=false"];
    let commit = [author.as_slice(), &["commit", "--quiet", "--no-verify", "--message", message]].concat();
    for arguments in [&["init", "--quiet"][..], &["add", "--all"], &commit] {
        let done = command(Path::new("git")).args(arguments).current_dir(folder).stdin(Stdio::null()).output()?;
        ensure!(done.status.success(), "git {}: {}", arguments[0], String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this module is where this crate starts processes")]
fn command(program: &std::path::Path) -> Command {
    let mut command = Command::new(program);
    // It may be an agent's program that needs it, and it is not to end with that one's turn.
    command.env_remove(rookery_runner::process::exec_shim::MARK);
    command
}

fn set_aside_when_large(path: &std::path::Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(log) if log.len() > LOG_KEPT_BYTES => fs::rename(path, path.with_extension("log.1")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
