//! The sandbox for git, where bubblewrap works.
//!
//! It contains programs and libraries of the system, the view (`view.rs`), and the parts of the repository that the command
//! needs; no home, no network, no other processes. Bubblewrap takes paths, and the folder at a path can be exchanged before
//! it is mounted. So the first program inside compares each mounted folder with the one that the daemon holds open, by
//! device and inode, and starts git only if all are equal. From then on the mounts cannot change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rookery_core::{Code, Rejection};

use super::process::start;
use crate::held::{HeldFolder, Inode};

/// Folders of programs and their libraries. Missing ones are left out.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ld.so.cache",
];
const BEGINNING: [&str; 8] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--cap-drop",
    "ALL",
];
/// The exit code if a folder was exchanged before git could start.
pub(super) const EXCHANGED: i32 = 125;
/// The exit code of a shell that does not find a program or its libraries.
const NOT_FOUND: i32 = 127;
/// The script that checks the mounts. Takes pairs of an inode and a path, then `--` and the program, which finds no others.
const CHECKED: &str = r#"
PATH=/usr/bin:/bin
while [ "$1" != -- ]; do
    [ "$(stat -c %d:%i -- "$2")" = "$1" ] || exit 125
    shift 2
done
shift
PATH=/nonexistent
exec "$@"
"#;
/// The timeout of the trial run of git in the sandbox.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Bubblewrap, after a successful trial run of git in it.
#[derive(Clone, Debug)]
pub(super) struct GitSandbox {
    bwrap: PathBuf,
}

/// A part of the machine that git sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Mount {
    Read(PathBuf, Inode),
    Write(PathBuf, Inode),
    /// A folder that no agent can exchange.
    Own(PathBuf),
    /// An empty folder in place of the real one.
    Hidden(PathBuf),
}

impl GitSandbox {
    /// The sandbox for a git program, if bubblewrap exists and git can run in it. Each pair is tried once. A trial that fails
    /// for another reason than the machine's setup is an error: load on the machine must not let git run without its sandbox.
    pub async fn find(bwrap: Option<&Path>, git: &Path) -> Result<Option<GitSandbox>, Rejection> {
        static TRIED: Mutex<Vec<(PathBuf, PathBuf, bool)>> = Mutex::new(Vec::new());
        let Some(bwrap) = bwrap else { return Ok(None) };
        let known = {
            let tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
            tried.iter().find(|(one, other, _)| one == bwrap && other == git).map(|(.., works)| *works)
        };
        let sandbox = GitSandbox { bwrap: bwrap.to_owned() };
        let works = match known {
            Some(works) => works,
            None => {
                let works = sandbox.try_out(git).await?;
                TRIED.lock().unwrap_or_else(PoisonError::into_inner).push((bwrap.to_owned(), git.to_owned(), works));
                works
            }
        };
        Ok(works.then_some(sandbox))
    }

    /// Tries whether git runs in a sandbox on this machine.
    async fn try_out(&self, git: &Path) -> Result<bool, Rejection> {
        let failed = |reason: String| {
            Rejection::new(Code::GitFailed, format!("cannot create the sandbox for git: {reason}"))
                .hint("try again; 'rookery doctor' checks whether sandboxes work here")
        };
        let shown = HeldFolder::open(Path::new("/usr")).and_then(|usr| usr.inode());
        let mounts: Vec<Mount> = shown.into_iter().map(|inode| Mount::Read("/usr".into(), inode)).collect();
        let mut command = start(&self.bwrap);
        command.env_clear().args(self.arguments(git, &mounts, Path::new("/"))).arg("--version");
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = match tokio::time::timeout(TRIAL_TIMEOUT, command.output()).await {
            Ok(output) => output.map_err(|error| failed(error.to_string()))?,
            Err(_) => return Err(failed("it does not answer".to_owned())),
        };
        if output.status.success() {
            return Ok(true);
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let no_shell = said.starts_with("bwrap: execvp");
        if no_shell || matches!(output.status.code(), Some(EXCHANGED | NOT_FOUND)) {
            tracing::warn!(
                said,
                "git cannot run in a sandbox on this machine; it runs without one, but never with the repository's settings"
            );
            return Ok(false);
        }
        Err(failed(said.trim().to_owned()))
    }

    pub fn program(&self) -> &Path {
        &self.bwrap
    }

    /// The arguments of bubblewrap, up to those of git.
    pub fn arguments(&self, git: &Path, mounts: &[Mount], folder: &Path) -> Vec<OsString> {
        let mut all: Vec<OsString> = BEGINNING.iter().map(Into::into).collect();
        all.extend(["--dev", "/dev", "--tmpfs", "/tmp"].map(Into::into));
        for path in SYSTEM.iter().map(Path::new).chain(prefix(git)) {
            all.extend(["--ro-bind-try".into(), path.into(), path.into()]);
        }
        for mount in mounts {
            match mount {
                Mount::Read(path, _) => all.extend(["--ro-bind".into(), path.into(), path.into()]),
                Mount::Write(path, _) | Mount::Own(path) => all.extend(["--bind".into(), path.into(), path.into()]),
                Mount::Hidden(path) => all.extend(["--tmpfs".into(), path.into()]),
            }
        }
        all.extend(["--chdir".into(), folder.into(), "--".into()]);
        all.extend(["/bin/sh", "-c", CHECKED, "git"].map(Into::into));
        for mount in mounts {
            if let Mount::Read(path, inode) | Mount::Write(path, inode) = mount {
                all.extend([format!("{}:{}", inode.device, inode.number).into(), path.into()]);
            }
        }
        all.extend(["--".into(), git.into()]);
        all
    }
}

/// The folder that a program was installed in, unless the system's folders contain it.
fn prefix(program: &Path) -> Option<&Path> {
    let folder = program.parent()?;
    let prefix = if folder.ends_with("bin") { folder.parent()? } else { folder };
    let known = prefix.parent().is_none() || SYSTEM.iter().any(|system| prefix.starts_with(system));
    let home = std::env::var_os("HOME").is_some_and(|home| Path::new(&home) == prefix);
    match (known, home) {
        (true, _) => None,
        (false, true) => Some(folder),
        (false, false) => Some(prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_shows_the_folder_of_git_without_its_home() {
        assert_eq!(prefix(Path::new("/usr/local/bin/git")), None);
        assert_eq!(prefix(Path::new("/home/ann/conda/bin/git")), Some(Path::new("/home/ann/conda")));
        assert_eq!(prefix(Path::new("/bin/git")), None);
    }
}
