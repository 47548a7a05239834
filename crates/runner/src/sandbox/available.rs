//! Whether this machine has what sandboxes are made with.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::process::launch;

const PROGRAM: &str = "bwrap";

/// What this machine can do about sandboxes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Available {
    /// With bubblewrap.
    Yes { bwrap: PathBuf, version: String },
    /// It is not installed.
    Missing,
    /// It is there, and the system does not let it do its work.
    Barred { reason: String },
}

impl Available {
    /// Tried once in the life of a process, because trying means to start a program.
    pub fn here() -> &'static Available {
        static HERE: OnceLock<Available> = OnceLock::new();
        HERE.get_or_init(|| std::env::var_os("PATH").map_or(Available::Missing, |path| Available::on(&path)))
    }

    fn on(path: &std::ffi::OsStr) -> Available {
        match std::env::split_paths(path).map(|folder| folder.join(PROGRAM)).find(|program| program.is_file()) {
            Some(bwrap) => Available::try_out(bwrap),
            None => Available::Missing,
        }
    }

    /// Makes a sandbox with everything that ours have.
    fn try_out(bwrap: PathBuf) -> Available {
        let small =
            ["--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--"];
        let tried = launch::command(&bwrap).args(small).args([&bwrap.display().to_string(), "--version"]).output();
        match tried {
            Ok(output) if output.status.success() => {
                let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Available::Yes { bwrap, version }
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Available::Barred { reason: said.lines().next().unwrap_or("it says nothing").to_owned() }
            }
            Err(error) => Available::Barred { reason: error.to_string() },
        }
    }

    /// Bubblewrap, if it can make sandboxes here.
    pub fn bwrap(&self) -> Option<&Path> {
        match self {
            Available::Yes { bwrap, .. } => Some(bwrap),
            Available::Missing | Available::Barred { .. } => None,
        }
    }

    /// Why there are no sandboxes, if so.
    pub(super) fn why_not(&self) -> String {
        match self {
            Available::Yes { .. } => String::new(),
            Available::Missing => "bubblewrap is not installed".to_owned(),
            Available::Barred { reason } => format!("bubblewrap cannot make one here: {reason}"),
        }
    }

    /// What to do so that there are sandboxes, if there are none.
    pub fn mend(&self) -> Option<&'static str> {
        match self {
            Available::Yes { .. } => None,
            Available::Missing => Some("install bubblewrap, or say `sandbox: false` in the workflow file"),
            Available::Barred { .. } => {
                Some("let bubblewrap make user namespaces, or say `sandbox: false` in the workflow file")
            }
        }
    }
}

impl fmt::Display for Available {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Available::Yes { version, .. } => write!(f, "agents run in one ({version})"),
            Available::Missing | Available::Barred { .. } => {
                write!(f, "agents run without a sandbox: {}", self.why_not())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_barred_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Available::on(folder.path().as_os_str()), Available::Missing);
        let program = folder.path().join(PROGRAM);
        std::fs::write(&program, "#!/bin/sh\necho 'no namespaces' >&2\nexit 1\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let barred = Available::on(folder.path().as_os_str());
        assert_eq!(barred, Available::Barred { reason: "no namespaces".into() });
        assert!(barred.mend().is_some() && barred.to_string().contains("no namespaces"));
    }
}
