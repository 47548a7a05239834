//! Running git: an argument vector, an environment of ours, a time limit, a bound on its output.
//!
//! Beside `schemas::checker`, the only module of this crate that starts a process. A [`Git`] works on a [`View`] and
//! runs in the sandbox where there is one. [`ask_git`] is for questions that read nothing but their arguments and standard
//! input: it needs no sandbox.

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

use super::sandbox::{EXCHANGED, Mount, Sandbox};
use super::settings::Identity;
use super::view::View;

/// For commands that only ask or write a little.
pub(super) const QUICK: Duration = Duration::from_secs(60);
/// For commands that read or write the files of a whole worktree.
pub const LONG: Duration = Duration::from_secs(600);
/// The most that git may print.
const MAX_STDOUT_BYTES: usize = 64 << 20;
/// The most of its errors that is kept; of more, the end is lost.
const MAX_STDERR_BYTES: usize = 64 << 10;

/// Given to a git that looks for the settings of the person that the daemon runs for, and to no other.
const PERSON: [&str; 6] =
    ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"];

/// The whole environment of a git that works on a repository. Settings of the person and of the machine are left out;
/// all commands that we use are built into git itself, so it finds no other program, not even git again.
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

/// Git on a view of the repository.
#[derive(Clone, Debug)]
pub(super) struct Git<'a> {
    pub programs: &'a Programs,
    pub view: &'a View,
    /// Folders that the sandbox shows besides the view, outer folders first.
    pub mounts: Vec<Mount>,
    pub worktree: Option<PathBuf>,
    pub index: Option<PathBuf>,
    pub identity: Identity,
    pub most: Duration,
    /// A locked file for git to hold on to: the lock lasts as long as git does, even if we do not.
    pub held: Option<Arc<File>>,
}

/// The programs that are used on a repository.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub git: PathBuf,
    pub sandbox: Option<Sandbox>,
}

impl Programs {
    /// Looks git up on our own `PATH`, and the sandbox for it.
    pub async fn find(bwrap: Option<&Path>) -> Result<Programs, Rejection> {
        let git = find_git()?;
        let sandbox = Sandbox::find(bwrap, &git).await?;
        Ok(Programs { git, sandbox })
    }
}

fn find_git() -> Result<PathBuf, Rejection> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|program| program.is_file());
    let missing = || Rejection::new(Code::GitFailed, "there is no git").hint("install git where the daemon finds it");
    found.and_then(|git| git.canonicalize().ok()).ok_or_else(missing)
}

/// Git's answer.
#[derive(Debug)]
pub(super) struct Said {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Said {
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

    /// Runs git; how it ends is for the caller to judge.
    pub async fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Said, Rejection> {
        let said = run(self.command(arguments), &name_of(arguments), self.most, None).await?;
        if self.programs.sandbox.is_some() && said.status.code() == Some(EXCHANGED) {
            let message = "a folder of the repository was exchanged for another one while git was started";
            return Err(Rejection::new(Code::InvalidState, message).hint("look what is going on there, then try again"));
        }
        // How bubblewrap ends must not pass for an answer of git.
        if !said.status.success() && said.stderr.starts_with("bwrap: ") {
            return Err(complaint(&said).hint("look whether a folder of the repository is gone, then try again"));
        }
        Ok(said)
    }

    /// Git's output, if it succeeds.
    pub async fn text<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, Rejection> {
        let said = self.run(arguments).await?;
        if said.status.success() { Ok(said.text()) } else { Err(complaint(&said)) }
    }

    /// Git's output as it is, if it succeeds.
    pub async fn bytes<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, Rejection> {
        let said = self.run(arguments).await?;
        if said.status.success() { Ok(said.stdout) } else { Err(complaint(&said)) }
    }

    /// Whether git succeeds.
    pub async fn succeeds<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<bool, Rejection> {
        Ok(self.run(arguments).await?.status.success())
    }

    /// Git's output, if it succeeds and prints anything.
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

/// Asks git something that needs no repository: it reads its arguments, standard input and, for `config --list` alone,
/// the settings of the person and of the machine. None of these is an agent's, and no command is run for any of it.
pub(super) async fn ask_git(arguments: &[&str], input: Vec<u8>) -> Result<Said, Rejection> {
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

async fn run(mut command: Command, name: &str, most: Duration, input: Option<Vec<u8>>) -> Result<Said, Rejection> {
    let failed = |what: String| Rejection::new(Code::GitFailed, what);
    command.process_group(0).kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        failed(format!("git cannot be started: {error}")).hint("check that git is installed and the folder is there")
    })?;
    let mut group = Group::of(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let whole = async {
        let feed = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A git that does not want all of it says so by how it ends.
                stdin.write_all(&input).await.ok();
            }
        };
        let (stdout, stderr, ()) = tokio::join!(read(stdout, MAX_STDOUT_BYTES), read(stderr, MAX_STDERR_BYTES), feed);
        let status = child.wait().await?;
        // Its number may be another process's from now on.
        group.0 = None;
        Ok::<_, std::io::Error>((status, stdout?, stderr?))
    };
    match tokio::time::timeout(most, whole).await {
        Ok(Ok((_, (_, Cut::Yes), _))) => Err(failed(format!("git {name} printed more than can be taken in"))),
        Ok(Ok((status, (stdout, _), (stderr, _)))) => {
            Ok(Said { status, stdout, stderr: String::from_utf8_lossy(&stderr).trim().to_owned() })
        }
        Ok(Err(error)) => Err(failed(format!("git {name} was lost: {error}"))),
        Err(_) => Err(failed(format!("git {name} was not done within {} s", most.as_secs()))
            .hint("look whether something holds the repository up, then try again")),
    }
}

/// Turns the complaint of git into a refusal.
pub(super) fn complaint(said: &Said) -> Rejection {
    let lines: Vec<&str> = said.stderr.lines().filter(|line| !line.starts_with("hint: ")).collect();
    let message = match lines.join("; ") {
        empty if empty.is_empty() => format!("git ended with {}", said.status),
        words => words.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned(),
    };
    Rejection::new(Code::GitFailed, message)
}

/// Git and whatever it started, ended together when nobody waits any more.
struct Group(Option<Pid>);

impl Group {
    fn of(id: Option<u32>) -> Group {
        Group(id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "a git that nobody waits for had ended already");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Yes,
    No,
}

/// Everything up to a limit; the rest is read and dropped, so that git does not wait for us to take it.
async fn read(from: Option<impl AsyncRead + Unpin>, most: usize) -> std::io::Result<(Vec<u8>, Cut)> {
    let Some(mut from) = from else { return Ok((vec![], Cut::No)) };
    let mut bytes = Vec::new();
    (&mut from).take(most as u64).read_to_end(&mut bytes).await?;
    let beyond = tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok((bytes, if beyond > 0 { Cut::Yes } else { Cut::No }))
}
