//! Runs a program to its end: reads its output, enforces its limits, and ends everything that it started.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::control_group::ControlGroup;
use super::exec_shim;
use super::lines::{LineReader, OutputLine, ReadOutcome};
use super::process_tree::{ProcessId, ProcessTree, TerminationScope};
use super::program::{Program, Secrecy};
use super::record::ProcessRecord;
use super::resources::{Excess, ResourceLimits};
use super::secrets::Secrets;
use super::spawner;
use super::transcript::Transcript;
use super::watchdog;
use crate::sandbox::SandboxError;

/// Default for the amount of output.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// Time for reading the remaining output after the program has ended.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Lines of standard error that are kept for the report.
const STDERR_LINES: usize = 20;
const STDERR_LINE_CHARS: usize = 400;

/// Limits of one run of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunLimits {
    pub timeout: Duration,
    /// Longest time without output.
    pub idle: Option<Duration>,
    /// Maximum bytes of output.
    pub output_bytes: u64,
}

impl RunLimits {
    /// Limits the time; the limit on output is one that no healthy program reaches.
    pub fn within(timeout: Duration) -> RunLimits {
        RunLimits { timeout, idle: None, output_bytes: MAX_OUTPUT_BYTES }
    }
}

/// An output stream of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// The outcome of a program that ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    pub end: ProcessEnd,
    /// The last lines of standard error, for people.
    pub stderr_tail: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessEnd {
    Exited(i32),
    Signalled(i32),
    /// Ended because it took too long.
    TimedOut,
    /// Ended because it wrote nothing for too long.
    Idle,
    /// Ended on request.
    Cancelled,
    /// Ended because it wrote too much.
    Flooded,
    /// Ended because it exceeded a limit of its sandbox.
    OverLimit(Excess),
}

impl ProcessEnd {
    /// Replaces an exit code that stands for a limit that the kernel enforced.
    fn or_excess(self, limits: &ResourceLimits) -> ProcessEnd {
        match self {
            ProcessEnd::Exited(code) => limits.excess_of_code(code).map_or(self, ProcessEnd::OverLimit),
            other => other,
        }
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessEnd::Exited(code) => write!(f, "it ended with code {code}"),
            ProcessEnd::Signalled(signal) => write!(f, "it was ended by signal {signal}"),
            ProcessEnd::TimedOut => f.write_str("it took too long and was ended"),
            ProcessEnd::Idle => f.write_str("it printed nothing for too long and was ended"),
            ProcessEnd::Cancelled => f.write_str("it was asked to stop"),
            ProcessEnd::Flooded => f.write_str("it wrote too much and was ended"),
            ProcessEnd::OverLimit(excess) => write!(f, "it {excess} and was ended"),
        }
    }
}

/// The reason why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    #[error("there is no program `{name}`")]
    NoSuchProgram { name: String },
    #[error("there is no folder {}", folder.display())]
    NoSuchFolder { folder: PathBuf },
    #[error("{reason}")]
    Refused { reason: String },
    #[error("cannot write {}", path.display())]
    Transcript { path: PathBuf, source: io::Error },
    #[error("cannot record the running program in {}", folder.display())]
    Record { folder: PathBuf, source: io::Error },
    #[error("cannot start {}", program.display())]
    Start { program: PathBuf, source: io::Error },
}

/// Runs a program and passes on every line of its output. Returns when it and everything that it started have ended.
///
/// Dropping the future kills them at once.
pub async fn run(
    program: &Program,
    limits: RunLimits,
    transcript: &Path,
    cancel: &CancellationToken,
    on_line: &mut (dyn FnMut(OutputStream, &str) + Send),
) -> Result<Finished, NotStarted> {
    let name = program.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !program.folder.is_dir() {
        return Err(NotStarted::NoSuchFolder { folder: program.folder.clone() });
    }
    let Some(found) = program.find() else { return Err(NotStarted::NoSuchProgram { name }) };
    let kept = Transcript::begin(transcript)
        .map_err(|source| NotStarted::Transcript { path: transcript.to_path_buf(), source })?;
    let mut running = RunningProgram::start(program, &found, &name).await?;
    let secrets = match program.secrecy {
        Secrecy::Open => Secrets::default(),
        Secrecy::Kept => Secrets::from_environment(&program.env),
    };
    let mut sink = OutputSink { on_line, secrets, transcript: Some(kept), tail: Vec::new(), room: limits.output_bytes };
    let end = running.follow(program, limits, cancel, &mut sink).await;
    if matches!(end, ProcessEnd::OverLimit(_)) {
        // A fork bomb creates processes faster than they can be asked to end.
        running.process_tree.kill_first();
        running.group.iter().for_each(|group| group.kill());
    }
    running.end(&mut sink).await;
    if end == ProcessEnd::Exited(exec_shim::NOT_STARTED)
        && let Some(reason) = sink.tail.iter().rev().find_map(|line| line.strip_prefix("error: "))
        && reason.starts_with(exec_shim::REASON)
    {
        return Err(NotStarted::Refused { reason: reason.to_owned() });
    }
    Ok(Finished { end, stderr_tail: sink.finish(end) })
}

/// Takes the output of a program to the transcript and to the caller.
struct OutputSink<'a> {
    on_line: &'a mut (dyn FnMut(OutputStream, &str) + Send),
    secrets: Secrets,
    /// `None` once the disk rejects it; the program need not fail for that.
    transcript: Option<Transcript>,
    tail: Vec<String>,
    /// Bytes of output left.
    room: u64,
}

impl OutputSink<'_> {
    fn line(&mut self, stream: OutputStream, line: &OutputLine) {
        let text = self.secrets.redact(&line.text).into_owned();
        self.keep(|transcript| transcript.line(stream, &text, line.cut));
        if stream == OutputStream::Stderr {
            if self.tail.len() == STDERR_LINES {
                self.tail.remove(0);
            }
            self.tail.push(text.chars().take(STDERR_LINE_CHARS).collect());
        }
        (self.on_line)(stream, &text);
    }

    fn keep(&mut self, write: impl FnOnce(&mut Transcript) -> io::Result<()>) {
        if self.transcript.as_mut().is_some_and(|transcript| write(transcript).is_err()) {
            self.transcript = None;
        }
    }

    /// Counts bytes of output, and returns whether they exceed the limit.
    fn exceeds_limit(&mut self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let exceeds = bytes > self.room;
        self.room = self.room.saturating_sub(bytes);
        exceeds
    }

    fn finish(mut self, end: ProcessEnd) -> String {
        if !matches!(end, ProcessEnd::Exited(_)) {
            self.keep(|transcript| transcript.note(&end.to_string()));
        }
        drop(self.transcript.take().map(Transcript::finish));
        self.tail.join("\n")
    }
}

/// A program that was started.
struct RunningProgram {
    child: Child,
    process_tree: ProcessTree,
    scope: TerminationScope,
    /// The kernel's bounds of a sandbox, if available.
    group: Option<Arc<ControlGroup>>,
    record: ProcessRecord,
    out: Option<LineReader<ChildStdout>>,
    err: Option<LineReader<ChildStderr>>,
    ended: bool,
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !self.ended {
            self.process_tree.kill();
        }
    }
}

impl RunningProgram {
    async fn start(program: &Program, found: &Path, name: &str) -> Result<RunningProgram, NotStarted> {
        let process_tree = ProcessTree::new();
        let records = &program.exec_shim.records;
        let not_recorded = |source| NotStarted::Record { folder: records.clone(), source };
        let record = ProcessRecord::begin(records, name, &process_tree).map_err(not_recorded)?;
        let not_started = |source| NotStarted::Start { program: program.exec_shim.rookery.clone(), source };
        let limits = program.sandbox.as_ref().map(|sandbox| sandbox.bounds().limits);
        let group = limits.and_then(ControlGroup::create).map(Arc::new);
        let command = command(program, found, &process_tree, group.as_deref())?;
        let mut child = spawner::spawn(command).await.map_err(not_started)?;
        let mut running = RunningProgram {
            process_tree: ProcessTree { first: child.id().and_then(ProcessId::of), ..process_tree },
            scope: if program.sandbox.is_some() { TerminationScope::AllButFirst } else { TerminationScope::All },
            out: child.stdout.take().map(LineReader::new),
            err: child.stderr.take().map(LineReader::new),
            group,
            record,
            child,
            ended: false,
        };
        running.record.set_first(running.process_tree.first).map_err(not_recorded)?;
        if let (Some(mut stdin), Some(text)) = (running.child.stdin.take(), program.stdin.clone()) {
            // A program may ignore its input.
            tokio::spawn(async move { drop(stdin.write_all(&text).await) });
        }
        Ok(running)
    }

    /// Reads output until the program ends or must be ended.
    async fn follow(
        &mut self,
        program: &Program,
        limits: RunLimits,
        cancel: &CancellationToken,
        sink: &mut OutputSink<'_>,
    ) -> ProcessEnd {
        let timeout = tokio::time::sleep(limits.timeout);
        let bounds = program.sandbox.as_ref().map(|sandbox| sandbox.bounds());
        let watched = bounds.clone().zip(self.process_tree.first);
        let group = self.group.clone();
        let excess = async {
            match watched {
                Some((bounds, first)) => watchdog::excess(first.pid, bounds, group.as_deref()).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timeout, excess);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return ProcessEnd::Cancelled,
                () = &mut timeout => return ProcessEnd::TimedOut,
                excess = &mut excess => return ProcessEnd::OverLimit(excess),
                (stream, read) = next_read(&mut self.out, &mut self.err) => if self.take(stream, read, sink) {
                    return ProcessEnd::Flooded;
                },
                status = self.child.wait() => {
                    let end = status.map_or(ProcessEnd::Exited(exec_shim::NOT_STARTED), end_of);
                    let enforced = self.group.as_deref().and_then(ControlGroup::excess).map(ProcessEnd::OverLimit);
                    let limits = bounds.as_ref().map(|bounds| &bounds.limits);
                    return enforced.unwrap_or_else(|| limits.map_or(end, |limits| end.or_excess(limits)));
                }
                () = silence(limits.idle) => return ProcessEnd::Idle,
            }
        }
    }

    /// Handles one read; returns whether the output exceeds the limit.
    fn take(&mut self, stream: OutputStream, read: ReadOutcome, sink: &mut OutputSink<'_>) -> bool {
        match (read, stream) {
            (ReadOutcome::Line(line), _) => sink.line(stream, &line),
            (ReadOutcome::Part(bytes), _) if sink.exceeds_limit(bytes) => {
                (self.out, self.err) = (None, None);
                return true;
            }
            (ReadOutcome::Part(_), _) => {}
            (ReadOutcome::End, OutputStream::Stdout) => self.out = None,
            (ReadOutcome::End, OutputStream::Stderr) => self.err = None,
        }
        false
    }

    /// Ends all members of the tree and reads their last output meanwhile.
    async fn end(&mut self, sink: &mut OutputSink<'_>) {
        let process_tree = self.process_tree.clone();
        let ending = process_tree.end(self.scope);
        tokio::pin!(ending);
        loop {
            tokio::select! {
                _ = &mut ending => break,
                (stream, read) = next_read(&mut self.out, &mut self.err) => {
                    self.take(stream, read, sink);
                }
            }
        }
        self.ended = true;
        // All writers have ended, so the streams end too.
        let rest = async {
            while self.out.is_some() || self.err.is_some() {
                let (stream, read) = next_read(&mut self.out, &mut self.err).await;
                self.take(stream, read, sink);
            }
            drop(self.child.wait().await);
        };
        drop(tokio::time::timeout(SHUTDOWN_GRACE, rest).await);
    }
}

/// The command that starts a program through the `exec` shim.
fn command(
    program: &Program,
    found: &Path,
    process_tree: &ProcessTree,
    group: Option<&ControlGroup>,
) -> Result<Command, NotStarted> {
    let mut command = Command::from(exec_shim::command(&program.exec_shim.rookery));
    command.args(["exec", "--parent", &std::process::id().to_string()]);
    if let Some(group) = group {
        command.arg("--group").arg(group.entrance());
    }
    command.arg("--");
    match &program.sandbox {
        Some(sandbox) => {
            let around = sandbox.wrap_arguments(found, &program.argv[1..]);
            command.args(around.map_err(|error: SandboxError| NotStarted::Refused { reason: error.to_string() })?);
            command.env_clear().envs(sandbox.environment(&program.env));
        }
        None => {
            command.arg(found).args(&program.argv[1..]);
            command.env_clear().envs(&program.env);
        }
    }
    command.env(exec_shim::MARK, &process_tree.mark).current_dir(&program.folder);
    command.stdin(if program.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// Reads from either stream. Never returns once both have ended.
async fn next_read(
    out: &mut Option<LineReader<ChildStdout>>,
    err: &mut Option<LineReader<ChildStderr>>,
) -> (OutputStream, ReadOutcome) {
    tokio::select! {
        read = next(out) => (OutputStream::Stdout, read),
        read = next(err) => (OutputStream::Stderr, read),
    }
}

async fn next<R: AsyncRead + Unpin>(lines: &mut Option<LineReader<R>>) -> ReadOutcome {
    match lines {
        Some(lines) => lines.next().await,
        None => std::future::pending().await,
    }
}

async fn silence(longest: Option<Duration>) {
    match longest {
        Some(longest) => tokio::time::sleep(longest).await,
        None => std::future::pending().await,
    }
}

fn end_of(status: ExitStatus) -> ProcessEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessEnd::Exited(code),
        (None, Some(signal)) => ProcessEnd::Signalled(signal),
        (None, None) => ProcessEnd::Exited(exec_shim::NOT_STARTED),
    }
}
