//! Running git: an argument vector, a clean environment, a time limit, a bound on what it may say.
//!
//! The only module of this crate that starts a process.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rookery_core::{Code, Refusal};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// For what only asks or writes a little.
const QUICK: Duration = Duration::from_secs(60);
/// For what reads or writes the files of a whole worktree.
pub const LONG: Duration = Duration::from_secs(600);
/// What git may answer.
const MOST_SAID: usize = 64 << 20;
/// What git may complain; of more, the end is lost.
const MOST_COMPLAINED: usize = 64 << 10;

/// A git that looks at all worktrees dies if another git is just writing the files of a new one, ours or anybody's. It
/// has changed nothing then, so it is asked again: this often, with this pause.
const HALF_MADE_TRIES: u32 = 100;
const HALF_MADE_PAUSE: Duration = Duration::from_millis(20);

/// What git is given of our own environment: where its programs and settings are, and nothing that points it elsewhere.
const KEPT: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_LFS_SKIP_SMUDGE",
];

/// Said with every call. A repository's hooks are programs that anybody who may write there can leave behind, so they do
/// not run here; nothing stays behind in the background; and what is written is there after a power cut.
const ALWAYS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.fsync=all",
    "advice.addEmbeddedRepo=false",
];

/// Git in a folder.
#[derive(Clone, Debug)]
pub struct Git {
    folder: PathBuf,
    index: Option<PathBuf>,
    identity: Option<(&'static str, &'static str)>,
    most: Duration,
    held: Option<Arc<File>>,
}

#[derive(Debug)]
pub struct Said {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Said {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

impl Git {
    pub fn at(folder: &Path) -> Git {
        Git { folder: folder.to_owned(), index: None, identity: None, most: QUICK, held: None }
    }

    #[must_use]
    pub fn lasting(self, most: Duration) -> Git {
        Git { most, ..self }
    }

    /// With a locked file for it to hold on to: the lock lasts as long as git does, even if we do not.
    #[must_use]
    pub fn holding(self, held: Option<Arc<File>>) -> Git {
        Git { held, ..self }
    }

    /// With another index than that of the worktree, which stays as it is.
    #[must_use]
    pub fn index(self, index: &Path) -> Git {
        Git { index: Some(index.to_owned()), ..self }
    }

    /// As somebody, whoever the settings say it is.
    #[must_use]
    pub fn identity(self, name: &'static str, email: &'static str) -> Git {
        Git { identity: Some((name, email)), ..self }
    }

    /// What git says and how it ends, whichever way.
    pub async fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Said, Refusal> {
        for _ in 0..HALF_MADE_TRIES {
            let said = self.once(arguments).await?;
            if !met_half_made(&said) {
                return Ok(said);
            }
            tokio::time::sleep(HALF_MADE_PAUSE).await;
        }
        self.once(arguments).await
    }

    async fn once<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Said, Refusal> {
        let name = arguments.first().map(|first| first.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        let mut child = self.command(arguments).spawn().map_err(|error| self.not_started(&error))?;
        let mut group = Group::of(child.id());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let whole = async {
            let (stdout, stderr) = tokio::join!(read(stdout, MOST_SAID), read(stderr, MOST_COMPLAINED));
            let status = child.wait().await?;
            // Its number may be somebody else's from now on.
            group.0 = None;
            Ok::<_, std::io::Error>((status, stdout?, stderr?))
        };
        let failed = |what: String| Refusal::new(Code::GitFailed, what);
        match tokio::time::timeout(self.most, whole).await {
            Ok(Ok((_, (_, Cut::Yes), _))) => Err(failed(format!("git {name} said more than can be taken in"))),
            Ok(Ok((status, (stdout, _), (stderr, _)))) => {
                Ok(Said { status, stdout, stderr: String::from_utf8_lossy(&stderr).trim().to_owned() })
            }
            Ok(Err(error)) => Err(failed(format!("git {name} was lost: {error}"))),
            Err(_) => Err(failed(format!("git {name} was not done within {} s", self.most.as_secs()))
                .hint("look whether something holds the repository up, then try again")),
        }
    }

    /// What git says if it succeeds.
    pub async fn text<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, Refusal> {
        let said = self.run(arguments).await?;
        if said.status.success() { Ok(said.text()) } else { Err(complaint(&said)) }
    }

    /// Whether git succeeds.
    pub async fn succeeds<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<bool, Refusal> {
        Ok(self.run(arguments).await?.status.success())
    }

    /// What git says, or nothing if there is nothing to say.
    pub async fn maybe<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Option<String>, Refusal> {
        let said = self.run(arguments).await?;
        Ok(Some(said.text()).filter(|text| said.status.success() && !text.is_empty()))
    }

    fn not_started(&self, error: &std::io::Error) -> Refusal {
        if self.folder.is_dir() {
            return Refusal::new(Code::GitFailed, format!("git cannot be started: {error}"))
                .hint("install git where the daemon finds it");
        }
        Refusal::new(Code::GitFailed, format!("there is no folder {}", self.folder.display()))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the module that starts git")]
    fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true"), ("GIT_ASKPASS", "true")]);
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        if let Some((name, email)) = self.identity {
            command.envs([("GIT_AUTHOR_NAME", name), ("GIT_COMMITTER_NAME", name)]);
            command.envs([("GIT_AUTHOR_EMAIL", email), ("GIT_COMMITTER_EMAIL", email)]);
        }
        command.args(ALWAYS.iter().flat_map(|setting| ["-c", *setting])).args(arguments);
        command.current_dir(&self.folder).process_group(0).kill_on_drop(true);
        let held = self.held.as_ref().and_then(|held| held.try_clone().ok());
        command.stdin(held.map_or_else(Stdio::null, Stdio::from)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Whether git died of a worktree that is only half there.
fn met_half_made(said: &Said) -> bool {
    !said.status.success()
        && said.stderr.lines().any(|line| line.contains("failed to read ") && line.contains("worktrees/"))
}

/// What git complained about, as the reason for a refusal.
pub fn complaint(said: &Said) -> Refusal {
    let lines: Vec<&str> = said.stderr.lines().filter(|line| !line.starts_with("hint: ")).collect();
    let message = match lines.join("; ") {
        empty if empty.is_empty() => format!("git ended with {}", said.status),
        words => words.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned(),
    };
    Refusal::new(Code::GitFailed, message)
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

/// Everything up to a limit; what is beyond is read and dropped, so that nobody waits for us to take it.
async fn read(from: Option<impl AsyncRead + Unpin>, most: usize) -> std::io::Result<(Vec<u8>, Cut)> {
    let Some(mut from) = from else { return Ok((vec![], Cut::No)) };
    let mut bytes = Vec::new();
    (&mut from).take(most as u64).read_to_end(&mut bytes).await?;
    let beyond = tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok((bytes, if beyond > 0 { Cut::Yes } else { Cut::No }))
}
