//! Running a program to its end: its output line by line, its time, and the end of everything that it started.

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
use super::lines::{Line, Lines, Read};
use super::process_tree::{Ask, ProcessId, ProcessTree};
use super::program::{Program, Secrecy};
use super::record::Record;
use super::resources::{Excess, ResourceLimits};
use super::secrets::Secrets;
use super::spawner;
use super::transcript::Transcript;
use super::watchdog;

/// How much a program may write unless its limits say otherwise.
const OUTPUT_BYTES: u64 = 64 << 20;
/// How long to read what was written by those that have ended.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// How much is remembered of what it complained about.
const STDERR_LINES: usize = 20;
const STDERR_LINE_CHARS: usize = 400;

/// What a program may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub timeout: Duration,
    /// How long it may say nothing at all.
    pub idle: Option<Duration>,
    /// How much it may write.
    pub output_bytes: u64,
}

impl Limits {
    /// Of time; of the rest, what no program that is well comes near.
    pub fn within(timeout: Duration) -> Limits {
        Limits { timeout, idle: None, output_bytes: OUTPUT_BYTES }
    }
}

/// Where a program wrote something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// A program that ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    pub how: How,
    /// The last lines that it wrote there, for people.
    pub stderr_tail: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Exited(i32),
    Signalled(i32),
    /// It took too long and was ended.
    TimedOut,
    /// It said nothing for too long and was ended.
    Idle,
    /// Somebody asked for its end.
    Cancelled,
    /// It wrote too much and was ended.
    Flooded,
    /// It exceeded a limit of its sandbox and was ended.
    OverLimit(Excess),
}

impl How {
    /// The limit that the kernel ended it for, if its code says so.
    fn or_excess(self, limits: &ResourceLimits) -> How {
        match self {
            How::Exited(code) => limits.excess_of_code(code).map_or(self, How::OverLimit),
            other => other,
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Exited(code) => write!(f, "it ended with code {code}"),
            How::Signalled(signal) => write!(f, "it was ended by signal {signal}"),
            How::TimedOut => f.write_str("it took too long and was ended"),
            How::Idle => f.write_str("it said nothing for too long and was ended"),
            How::Cancelled => f.write_str("it was asked to stop"),
            How::Flooded => f.write_str("it wrote too much and was ended"),
            How::OverLimit(excess) => write!(f, "it {excess} and was ended"),
        }
    }
}

/// Why a program never ran.
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
    #[error("cannot write down what runs in {}", folder.display())]
    Record { folder: PathBuf, source: io::Error },
    #[error("cannot start {}", program.display())]
    Start { program: PathBuf, source: io::Error },
}

/// Runs a program, passes on every line that it writes, and returns when it and everything that it started have ended.
///
/// Whoever does not wait for that ends them at once.
pub async fn run(
    program: &Program,
    limits: Limits,
    transcript: &Path,
    cancel: &CancellationToken,
    on_line: &mut (dyn FnMut(Stream, &str) + Send),
) -> Result<Finished, NotStarted> {
    let name = program.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !program.folder.is_dir() {
        return Err(NotStarted::NoSuchFolder { folder: program.folder.clone() });
    }
    let Some(found) = program.find() else { return Err(NotStarted::NoSuchProgram { name }) };
    let kept = Transcript::begin(transcript)
        .map_err(|source| NotStarted::Transcript { path: transcript.to_path_buf(), source })?;
    let mut running = Running::start(program, &found, &name).await?;
    let secrets = match program.secrecy {
        Secrecy::Open => Secrets::default(),
        Secrecy::Kept => Secrets::of(&program.env),
    };
    let mut heard = Heard { on_line, secrets, transcript: Some(kept), tail: Vec::new(), room: limits.output_bytes };
    let how = running.follow(program, limits, cancel, &mut heard).await;
    if matches!(how, How::OverLimit(_)) {
        // A fork bomb makes others faster than they can be asked.
        running.process_tree.kill_first();
        running.group.iter().for_each(|group| group.kill());
    }
    running.end(&mut heard).await;
    if how == How::Exited(exec_shim::NOT_STARTED)
        && let Some(reason) = heard.tail.iter().rev().find_map(|line| line.strip_prefix("error: "))
        && reason.starts_with(exec_shim::REASON)
    {
        return Err(NotStarted::Refused { reason: reason.to_owned() });
    }
    Ok(Finished { how, stderr_tail: heard.finish(how) })
}

/// Takes what a program writes to whoever wants it.
struct Heard<'a> {
    on_line: &'a mut (dyn FnMut(Stream, &str) + Send),
    secrets: Secrets,
    /// Nothing more is kept once the disk refuses it; the program need not fail for that.
    transcript: Option<Transcript>,
    tail: Vec<String>,
    /// How much more may be written.
    room: u64,
}

impl Heard<'_> {
    fn line(&mut self, stream: Stream, line: &Line) {
        let text = self.secrets.hidden(&line.text).into_owned();
        self.keep(|transcript| transcript.line(stream, &text, line.cut));
        if stream == Stream::Stderr {
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

    /// Whether it was more than may be.
    fn floods(&mut self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let floods = bytes > self.room;
        self.room = self.room.saturating_sub(bytes);
        floods
    }

    fn finish(mut self, how: How) -> String {
        if !matches!(how, How::Exited(_)) {
            self.keep(|transcript| transcript.note(&how.to_string()));
        }
        drop(self.transcript.take().map(Transcript::finish));
        self.tail.join("\n")
    }
}

/// A program that was started.
struct Running {
    child: Child,
    process_tree: ProcessTree,
    ask: Ask,
    /// The kernel's bounds of a sandbox, where there are such.
    group: Option<Arc<ControlGroup>>,
    record: Record,
    out: Option<Lines<ChildStdout>>,
    err: Option<Lines<ChildStderr>>,
    ended: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.process_tree.kill();
        }
    }
}

impl Running {
    async fn start(program: &Program, found: &Path, name: &str) -> Result<Running, NotStarted> {
        let process_tree = ProcessTree::new();
        let records = &program.exec_shim.records;
        let not_recorded = |source| NotStarted::Record { folder: records.clone(), source };
        let record = Record::begin(records, name, &process_tree).map_err(not_recorded)?;
        let not_started = |source| NotStarted::Start { program: program.exec_shim.rookery.clone(), source };
        let limits = program.sandbox.as_ref().map(|sandbox| sandbox.bounds().limits);
        let group = limits.and_then(ControlGroup::make).map(Arc::new);
        let command = command(program, found, &process_tree, group.as_deref())?;
        let mut child = spawner::spawn(command).await.map_err(not_started)?;
        let mut running = Running {
            process_tree: ProcessTree { first: child.id().and_then(ProcessId::of), ..process_tree },
            ask: if program.sandbox.is_some() { Ask::AllButFirst } else { Ask::Everybody },
            out: child.stdout.take().map(Lines::of),
            err: child.stderr.take().map(Lines::of),
            group,
            record,
            child,
            ended: false,
        };
        running.record.started(running.process_tree.first).map_err(not_recorded)?;
        if let (Some(mut stdin), Some(text)) = (running.child.stdin.take(), program.stdin.clone()) {
            // A program that does not want it all is none the worse for it.
            tokio::spawn(async move { drop(stdin.write_all(&text).await) });
        }
        Ok(running)
    }

    /// Listens until it ends, or must.
    async fn follow(
        &mut self,
        program: &Program,
        limits: Limits,
        cancel: &CancellationToken,
        heard: &mut Heard<'_>,
    ) -> How {
        let over = tokio::time::sleep(limits.timeout);
        let bounds = program.sandbox.as_ref().map(|sandbox| sandbox.bounds());
        let watched = bounds.clone().zip(self.process_tree.first);
        let group = self.group.clone();
        let excess = async {
            match watched {
                Some((bounds, first)) => watchdog::excess(first.pid, bounds, group.as_deref()).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over, excess);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return How::Cancelled,
                () = &mut over => return How::TimedOut,
                excess = &mut excess => return How::OverLimit(excess),
                (stream, read) = said(&mut self.out, &mut self.err) => if self.take(stream, read, heard) {
                    return How::Flooded;
                },
                status = self.child.wait() => {
                    let how = status.map_or(How::Exited(exec_shim::NOT_STARTED), how);
                    let enforced = self.group.as_deref().and_then(ControlGroup::excess).map(How::OverLimit);
                    let limits = bounds.as_ref().map(|bounds| &bounds.limits);
                    return enforced.unwrap_or_else(|| limits.map_or(how, |limits| how.or_excess(limits)));
                }
                () = silence(limits.idle) => return How::Idle,
            }
        }
    }

    /// Takes what was said; true if it is too much.
    fn take(&mut self, stream: Stream, read: Read, heard: &mut Heard<'_>) -> bool {
        match (read, stream) {
            (Read::Line(line), _) => heard.line(stream, &line),
            (Read::Part(bytes), _) if heard.floods(bytes) => {
                (self.out, self.err) = (None, None);
                return true;
            }
            (Read::Part(_), _) => {}
            (Read::End, Stream::Stdout) => self.out = None,
            (Read::End, Stream::Stderr) => self.err = None,
        }
        false
    }

    /// Ends all of it that lives, and listens to its last words meanwhile.
    async fn end(&mut self, heard: &mut Heard<'_>) {
        let process_tree = self.process_tree.clone();
        let ending = process_tree.end(self.ask);
        tokio::pin!(ending);
        loop {
            tokio::select! {
                _count = &mut ending => break,
                (stream, read) = said(&mut self.out, &mut self.err) => {
                    self.take(stream, read, heard);
                }
            }
        }
        self.ended = true;
        // Nobody is left to write, so what was written has an end.
        let rest = async {
            while self.out.is_some() || self.err.is_some() {
                let (stream, read) = said(&mut self.out, &mut self.err).await;
                self.take(stream, read, heard);
            }
            drop(self.child.wait().await);
        };
        drop(tokio::time::timeout(SHUTDOWN_GRACE, rest).await);
    }
}

/// The command that starts a program: our own, which becomes it.
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
            let around = sandbox.around(found, &program.argv[1..]);
            command.args(around.map_err(|error| NotStarted::Refused { reason: error.to_string() })?);
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

/// The next that is said on either stream; never, if both have ended.
async fn said(out: &mut Option<Lines<ChildStdout>>, err: &mut Option<Lines<ChildStderr>>) -> (Stream, Read) {
    tokio::select! {
        read = next(out) => (Stream::Stdout, read),
        read = next(err) => (Stream::Stderr, read),
    }
}

async fn next<R: AsyncRead + Unpin>(lines: &mut Option<Lines<R>>) -> Read {
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

fn how(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Exited(code),
        (None, Some(signal)) => How::Signalled(signal),
        (None, None) => How::Exited(exec_shim::NOT_STARTED),
    }
}
