//! The programs this crate starts: the only place with `Command::new`.
//!
//! A failing program is an error that shows the command. A program that is started and left running
//! is a [`Running`], which is killed when dropped, so that a failed step leaves nothing behind.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::say;
use crate::step::Stopwatch;

/// How often a running program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(25);

/// A program that is about to be started.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
}

impl Program {
    #[expect(clippy::disallowed_methods, reason = "the one place of this crate that starts programs")]
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program) }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// The same program with its arguments, started by another that is given them after its own.
    pub(crate) fn within(self, outer: &str, arguments: &[&str]) -> Self {
        let mut program =
            Self::new(outer).args(arguments).arg(self.command.get_program()).args(self.command.get_args());
        if let Some(directory) = self.command.get_current_dir() {
            program.command.current_dir(directory);
        }
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => program.command.env(name, value),
                None => program.command.env_remove(name),
            };
        }
        program
    }

    pub(crate) fn dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Runs it to its end with our own stdin, stdout and stderr.
    pub(crate) fn run(mut self) -> Result<()> {
        let status = self.command.status().with_context(|| self.cannot_start())?;
        self.succeeded(status)
    }

    /// Runs it to its end and returns what it wrote to stdout and stderr, which are shown meanwhile.
    pub(crate) fn run_and_keep(mut self) -> Result<String> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        self.command.stdin(Stdio::null());
        self.command.stdout(writer.try_clone().context("cannot make a pipe")?).stderr(writer);
        let mut child = self.command.spawn().with_context(|| self.cannot_start())?;
        // Our own ends of the pipe, without which it has an end.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut kept = String::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.context("cannot read what it writes")?;
            let line = String::from_utf8_lossy(&line);
            say::note(&line);
            kept.push_str(&line);
            kept.push('\n');
        }
        let status = child.wait().context("cannot wait for a program")?;
        self.succeeded(status).map(|()| kept)
    }

    /// Runs it to its end and returns what it wrote to stdout; stderr is ours.
    pub(crate) fn capture(mut self) -> Result<String> {
        let output = self.command.stderr(Stdio::inherit()).output().with_context(|| self.cannot_start())?;
        self.succeeded(output.status)?;
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{}` wrote something that is not UTF-8", self.shown()))
    }

    /// The same, with stderr shown only if it fails.
    pub(crate) fn capture_quietly(mut self) -> Result<String> {
        let output = self.command.stdin(Stdio::null()).output().with_context(|| self.cannot_start())?;
        self.succeeded(output.status).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{}` wrote something that is not UTF-8", self.shown()))
    }

    /// Runs it to its end and returns its stdout and whether it succeeded; stderr is ours.
    pub(crate) fn output(mut self) -> Result<(String, bool)> {
        let output = self.command.stderr(Stdio::inherit()).output().with_context(|| self.cannot_start())?;
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()))
    }

    /// Runs it to its end in silence and tells what it wrote to stdout, if it could be started and succeeded.
    pub(crate) fn probe(mut self) -> Option<String> {
        let output = self.command.stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Becomes the program, so that signals and the exit code are its own. Returns only if it cannot be started.
    pub(crate) fn exec(mut self) -> Result<()> {
        let error = self.command.exec();
        Err(error).with_context(|| self.cannot_start())
    }

    /// Starts it with our own stdout and stderr and does not wait.
    pub(crate) fn start(mut self) -> Result<Running> {
        let child = self.command.stdin(Stdio::null()).spawn().with_context(|| self.cannot_start())?;
        Ok(Running { child, shown: self.shown() })
    }

    /// Starts it with stderr going to `log` and waits for the first line on its stdout.
    pub(crate) fn start_until_first_line(mut self, log: File, patience: Duration) -> Result<(Running, String)> {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = self.command.spawn().with_context(|| self.cannot_start())?;
        let stdout = child.stdout.take();
        let running = Running { child, shown: self.shown() };
        let stdout = stdout.ok_or_else(|| anyhow!("`{}` has no stdout", running.shown))?;
        let line = first_line(stdout)
            .recv_timeout(patience)
            .with_context(|| format!("`{}` wrote no line within {} s", running.shown, patience.as_secs()))??;
        Ok((running, line))
    }

    fn succeeded(&self, status: ExitStatus) -> Result<()> {
        if !status.success() {
            bail!("`{}` failed ({status})", self.shown());
        }
        Ok(())
    }

    fn cannot_start(&self) -> String {
        format!("cannot start `{}`", self.shown())
    }

    fn shown(&self) -> String {
        // The name alone: the folder of cargo or of the target is long, and tells nothing.
        let program = Path::new(self.command.get_program());
        let words = std::iter::once(program.file_name().unwrap_or(program.as_os_str())).chain(self.command.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }
}

/// Sends the first line, then goes on reading, so that the writer never blocks on a full pipe.
fn first_line(stdout: impl Read + Send + 'static) -> mpsc::Receiver<Result<String>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        let line = match lines.next() {
            Some(line) => line.context("cannot read its stdout"),
            None => Err(anyhow!("it ended without writing a line")),
        };
        // Whoever waited may have given up; then nobody needs the line.
        let _gone = sender.send(line);
        lines.map_while(Result::ok).for_each(drop);
    });
    receiver
}

/// A program that was started; killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    shown: String,
}

impl Running {
    /// Waits for its end; past the limit it is killed, and that is an error.
    pub(crate) fn finish_within(mut self, limit: Duration) -> Result<()> {
        match self.wait(limit)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("`{}` failed ({status})", self.shown),
            None => bail!("`{}` was still running after {} s and was killed", self.shown, limit.as_secs()),
        }
    }

    /// Asks it to end (SIGTERM) and expects it to do so within the limit, with exit code 0.
    pub(crate) fn terminate_within(mut self, limit: Duration) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("cannot wait for a program")? {
            bail!("`{}` ended by itself ({status})", self.shown);
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .with_context(|| format!("cannot signal `{}`", self.shown))?;
        match self.wait(limit)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("`{}` did not end cleanly on SIGTERM ({status})", self.shown),
            None => bail!("`{}` was still running {} s after SIGTERM", self.shown, limit.as_secs()),
        }
    }

    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let watch = Stopwatch::start();
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for a program")? {
                return Ok(Some(status));
            }
            if watch.elapsed() >= limit {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has already ended, which is what is wanted here.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Where a program of this name is found on the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The search path with one more folder in front.
pub(crate) fn path_with(folder: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(std::iter::once(folder.to_owned()).chain(env::split_paths(&path)))
        .with_context(|| format!("cannot put {} on PATH", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Program {
        Program::new("sh").args(["-c", script])
    }

    fn log() -> File {
        tempfile::tempfile().unwrap()
    }

    #[test]
    fn a_failure_shows_the_command_and_the_code() {
        let error = shell("exit 3").run().unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` failed (exit status: 3)");
    }

    #[test]
    fn output_on_both_streams_is_kept() {
        assert_eq!(shell("echo one; echo two >&2").run_and_keep().unwrap(), "one\ntwo\n");
        assert!(shell("exit 3").run_and_keep().is_err());
    }

    #[test]
    fn captures_stdout() {
        assert_eq!(shell("echo one; echo two").capture().unwrap(), "one\ntwo\n");
    }

    #[test]
    fn what_a_quiet_program_complained_of_is_shown_when_it_fails() {
        assert_eq!(shell("echo one; echo two >&2").capture_quietly().unwrap(), "one\n");
        let error = format!("{:#}", shell("echo why >&2; exit 3").capture_quietly().unwrap_err());
        assert!(error.contains("why") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn one_program_within_another_keeps_what_it_was_given() {
        let program = shell("echo $GREETING $1; pwd").args(["sh", "two"]).env("GREETING", "one").dir(Path::new("/"));
        assert_eq!(program.within("env", &["-u", "HOME"]).capture().unwrap(), "one two\n/\n");
    }

    #[test]
    fn the_first_line_arrives_while_the_program_goes_on() {
        let (running, line) = shell("echo hello; exec sleep 60").start_until_first_line(log(), LONG).unwrap();
        assert_eq!(line, "hello");
        let error = running.terminate_within(LONG).unwrap_err();
        assert!(error.to_string().contains("did not end cleanly on SIGTERM"), "{error}");
    }

    #[test]
    fn a_program_that_says_nothing_is_an_error() {
        let error = shell("exit 0").start_until_first_line(log(), LONG).unwrap_err();
        assert_eq!(error.to_string(), "it ended without writing a line");
    }

    #[test]
    fn a_program_that_ends_cleanly_on_sigterm_is_well() {
        let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let (running, _) = shell(script).start_until_first_line(log(), LONG).unwrap();
        running.terminate_within(LONG).unwrap();
    }

    #[test]
    fn a_program_past_its_limit_is_killed() {
        let error = shell("exec sleep 60").start().unwrap().finish_within(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("was still running after 0 s"), "{error}");
    }
}
