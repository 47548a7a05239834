//! Runs git with an argument vector, a fixed environment, a timeout, and a limit on its output.
//!
//! Besides `schemas::checker`, this is the only module of the crate that starts a process. A [`Git`] works on a [`GitView`]
//! and runs in the sandbox where there is one. [`ask_git`] is for commands that read only their arguments and standard
//! input, and need no sandbox.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::{Code, Rejection};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::sandbox::{EXCHANGED, GitSandbox, Mount};
use super::settings::Identity;
use super::view::GitView;

/// The timeout of commands that read or write little.
pub(super) const QUICK: Duration = Duration::from_secs(60);
/// The timeout of commands that read or write the files of a whole worktree.
pub const LONG: Duration = Duration::from_secs(600);
/// The most that git may print.
const MAX_STDOUT_BYTES: usize = 64 << 20;
/// The most of git's error output that is kept; the rest is dropped.
const MAX_STDERR_BYTES: usize = 64 << 10;

/// Variables for a git that reads the settings of the person that the daemon runs for, and for no other.
const PERSON: [&str; 6] =
    ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"];

/// The whole environment of a git that works on a repository. Settings of the person and of the machine are left out. All
/// commands in use are built into git, so it needs to find no other program, not even itself.
const ENVIRONMENT: [(&str, &str); 15] = [
    ("LC_ALL", "C"),
    ("PATH", "/nonexistent"),
    ("HOME", "/nonexistent"),
    ("GIT_EXEC_PATH", "/nonexistent"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_EDITOR", "/nonexistent"),
    ("GIT_ASKPASS", "/nonexistent"),
    ("GIT_PAGER", "cat"),
    ("GIT_ALLOW_PROTOCOL", ""),
];

/// A git command on a view of the repository.
#[derive(Clone, Debug)]
pub(super) struct Git<'a> {
    pub programs: &'a Programs,
    pub view: &'a GitView,
    /// Folders that the sandbox shows besides the view, outer folders first.
    pub mounts: Vec<Mount>,
    pub worktree: Option<PathBuf>,
    pub index: Option<PathBuf>,
    pub identity: Identity,
    pub most: Duration,
    /// A locked file that git inherits: the lock lasts as long as git runs, even if the daemon ends first.
    pub held: Option<Arc<File>>,
}

/// The programs that are used on a repository.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub git: PathBuf,
    pub sandbox: Option<GitSandbox>,
}

impl Programs {
    /// Finds git on the daemon's `PATH`, and the sandbox for it.
    pub async fn find(bwrap: Option<&Path>) -> Result<Programs, Rejection> {
        let git = find_git()?;
        let sandbox = GitSandbox::find(bwrap, &git).await?;
        Ok(Programs { git, sandbox })
    }
}

fn find_git() -> Result<PathBuf, Rejection> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|program| program.is_file());
    let missing =
        || Rejection::new(Code::GitFailed, "git was not found").hint("install git in a folder of the daemon's PATH");
    found.and_then(|git| git.canonicalize().ok()).ok_or_else(missing)
}

/// The output of git and its exit status.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl GitOutput {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

impl<'a> Git<'a> {
    #[must_use]
    pub fn lasting(self, most: Duration) -> Git<'a> {
        Git { most, ..self }
    }

    /// Uses another index than that of the worktree, which stays as it is.
    #[must_use]
    pub fn index(self, index: &Path) -> Git<'a> {
        Git { index: Some(index.to_owned()), ..self }
    }

    #[must_use]
    pub fn identity(self, identity: Identity) -> Git<'a> {
        Git { identity, ..self }
    }

    /// Runs git. The caller checks the exit status.
    pub async fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<GitOutput, Rejection> {
        let said = run(self.command(arguments), &name_of(arguments), self.most, None).await?;
        if self.programs.sandbox.is_some() && said.status.code() == Some(EXCHANGED) {
            let message = "a folder of the repository was exchanged for another one while git was started";
            return Err(Rejection::new(Code::InvalidState, message)
                .hint("check which program changes the repository, then try again"));
        }
        // A failure of bubblewrap must not pass for one of git.
        if !said.status.success() && said.stderr.starts_with("bwrap: ") {
            return Err(complaint(&said).hint("check whether a folder of the repository is gone, then try again"));
        }
        Ok(said)
    }

    /// Runs git and returns its output as text; fails if git fails.
    pub async fn text<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, Rejection> {
        let said = self.run(arguments).await?;
        if said.status.success() { Ok(said.text()) } else { Err(complaint(&said)) }
    }

    /// Runs git and returns its output as bytes; fails if git fails.
    pub async fn bytes<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, Rejection> {
        let said = self.run(arguments).await?;
        if said.status.success() { Ok(said.stdout) } else { Err(complaint(&said)) }
    }

    /// Runs git and returns whether it succeeded.
    pub async fn succeeds<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<bool, Rejection> {
        Ok(self.run(arguments).await?.status.success())
    }

    /// Runs git and returns its output; `None` if git fails or prints nothing.
    pub async fn maybe<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Option<String>, Rejection> {
        let said = self.run(arguments).await?;
        Ok(Some(said.text()).filter(|text| said.status.success() && !text.is_empty()))
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let folder = self.worktree.as_deref().unwrap_or(self.view.folder());
        let mut command = match &self.programs.sandbox {
            Some(sandbox) => {
                let mut mounts = self.mounts.clone();
                mounts.push(Mount::Own(self.view.folder().to_owned()));
                let mut command = start(sandbox.program());
                command.args(sandbox.arguments(&self.programs.git, &mounts, folder)).current_dir("/");
                command
            }
            None => {
                let mut command = start(&self.programs.git);
                command.current_dir(folder);
                command
            }
        };
        command.env_clear().envs(ENVIRONMENT).env("GIT_DIR", self.view.folder());
        if let Some(worktree) = &self.worktree {
            command.env("GIT_WORK_TREE", worktree);
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        let Identity { name, email } = &self.identity;
        command.envs([("GIT_AUTHOR_NAME", name), ("GIT_COMMITTER_NAME", name)]);
        command.envs([("GIT_AUTHOR_EMAIL", email), ("GIT_COMMITTER_EMAIL", email)]);
        let held = self.held.as_ref().and_then(|held| held.try_clone().ok());
        command.args(arguments).stdin(held.map_or_else(Stdio::null, Stdio::from));
        command
    }
}

/// Runs a git command that needs no repository. It reads its arguments, standard input and, for `config --list` alone,
/// the settings of the person and of the machine. Agents can write none of these, and git starts no program for them.
pub(super) async fn ask_git(arguments: &[&str], input: Vec<u8>) -> Result<GitOutput, Rejection> {
    let mut command = start(&find_git()?);
    command.env_clear().envs(PERSON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs([("LC_ALL", "C"), ("PATH", "/nonexistent"), ("GIT_DIR", "/nonexistent"), ("GIT_PAGER", "cat")]);
    command.args(arguments).current_dir("/").stdin(Stdio::piped());
    run(command, &name_of(arguments), QUICK, Some(input)).await
}

#[expect(clippy::disallowed_methods, reason = "this is the module that starts git")]
pub(super) fn start(program: &Path) -> Command {
    Command::new(program)
}

fn name_of<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    arguments.first().map(|first| OsString::from(first.as_ref()).to_string_lossy().into_owned()).unwrap_or_default()
}

async fn run(mut command: Command, name: &str, most: Duration, input: Option<Vec<u8>>) -> Result<GitOutput, Rejection> {
    let failed = |what: String| Rejection::new(Code::GitFailed, what);
    command.process_group(0).kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        failed(format!("cannot start git: {error}")).hint("check that git is installed and the folder is there")
    })?;
    let mut group = ProcessGroup::of(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let whole = async {
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // If git does not read all of it, its exit status tells.
                stdin.write_all(&input).await.ok();
            }
        };
        let (stdout, stderr, ()) = tokio::join!(read(stdout, MAX_STDOUT_BYTES), read(stderr, MAX_STDERR_BYTES), feed);
        let status = child.wait().await?;
        // From here on the id may belong to another process.
        group.0 = None;
        Ok::<_, std::io::Error>((status, stdout?, stderr?))
    };
    match tokio::time::timeout(most, whole).await {
        Ok(Ok((_, (_, Truncated::Yes), _))) => Err(failed(format!("git {name} printed too much"))),
        Ok(Ok((status, (stdout, _), (stderr, _)))) => {
            Ok(GitOutput { status, stdout, stderr: String::from_utf8_lossy(&stderr).trim().to_owned() })
        }
        Ok(Err(error)) => Err(failed(format!("cannot read the result of git {name}: {error}"))),
        Err(_) => Err(failed(format!("git {name} did not finish within {} s", most.as_secs()))
            .hint("check whether another program blocks the repository, then try again")),
    }
}

/// Turns the error output of git into a rejection.
pub(super) fn complaint(said: &GitOutput) -> Rejection {
    let lines: Vec<&str> = said.stderr.lines().filter(|line| !line.starts_with("hint: ")).collect();
    let message = match lines.join("; ") {
        empty if empty.is_empty() => format!("git ended with {}", said.status),
        text => text.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned(),
    };
    Rejection::new(Code::GitFailed, message)
}

/// The process group of git, which is killed with all its children when the caller stops waiting.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(id: Option<u32>) -> ProcessGroup {
        ProcessGroup(id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "an abandoned git had ended already");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Truncated {
    Yes,
    No,
}

/// Reads up to a limit. The rest is read and dropped, so that git does not block on its output.
async fn read(from: Option<impl AsyncRead + Unpin>, most: usize) -> std::io::Result<(Vec<u8>, Truncated)> {
    let Some(mut from) = from else { return Ok((vec![], Truncated::No)) };
    let mut bytes = Vec::new();
    (&mut from).take(most as u64).read_to_end(&mut bytes).await?;
    let beyond = tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok((bytes, if beyond > 0 { Truncated::Yes } else { Truncated::No }))
}
