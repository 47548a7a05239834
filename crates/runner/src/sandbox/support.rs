//! Detects whether this machine can create sandboxes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::process::exec_shim;

const PROGRAM: &str = "bwrap";

/// Whether programs in a sandbox can create user namespaces. In one, they would have powers over mounts and networks that
/// they have nowhere else, and reach parts of the kernel that have had many vulnerabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NestedNamespaces {
    Off,
    /// This bubblewrap is older than 0.8 and cannot turn them off.
    On,
}

/// The sandbox support of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SandboxSupport {
    /// Bubblewrap works.
    Yes { bwrap: PathBuf, version: String, nested: NestedNamespaces },
    /// Bubblewrap is not installed.
    Missing,
    /// Bubblewrap is installed, but the system does not allow it to create namespaces.
    Blocked { reason: String },
}

impl SandboxSupport {
    /// Detected once in the life of the process, because the test starts a program.
    pub fn of_this_machine() -> &'static SandboxSupport {
        static HERE: OnceLock<SandboxSupport> = OnceLock::new();
        HERE.get_or_init(|| {
            std::env::var_os("PATH").map_or(SandboxSupport::Missing, |path| SandboxSupport::on_path(&path))
        })
    }

    fn on_path(path: &std::ffi::OsStr) -> SandboxSupport {
        match std::env::split_paths(path).map(|folder| folder.join(PROGRAM)).find(|program| program.is_file()) {
            Some(bwrap) => SandboxSupport::detect(bwrap),
            None => SandboxSupport::Missing,
        }
    }

    /// Creates a test sandbox with all features that ours use.
    fn detect(bwrap: PathBuf) -> SandboxSupport {
        match SandboxSupport::try_with(bwrap.clone(), NestedNamespaces::Off) {
            SandboxSupport::Blocked { .. } => SandboxSupport::try_with(bwrap, NestedNamespaces::On),
            available => available,
        }
    }

    fn try_with(bwrap: PathBuf, nested: NestedNamespaces) -> SandboxSupport {
        let small = ["--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc"];
        let mut command = exec_shim::command(&bwrap);
        command.args(small).args(nested.arguments());
        let tried = command.args(["--", &bwrap.display().to_string(), "--version"]).output();
        match tried {
            Ok(output) if output.status.success() => {
                let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                SandboxSupport::Yes { bwrap, version, nested }
            }
            Ok(output) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                SandboxSupport::Blocked { reason: stderr.lines().next().unwrap_or("it printed no reason").to_owned() }
            }
            Err(error) => SandboxSupport::Blocked { reason: error.to_string() },
        }
    }

    /// The path of bubblewrap, if it can create sandboxes here.
    pub fn bwrap(&self) -> Option<&Path> {
        self.with_namespaces().map(|(bwrap, _)| bwrap)
    }

    /// The path of bubblewrap, and whether nested namespaces can be turned off.
    pub(super) fn with_namespaces(&self) -> Option<(&Path, NestedNamespaces)> {
        match self {
            SandboxSupport::Yes { bwrap, nested, .. } => Some((bwrap, *nested)),
            SandboxSupport::Missing | SandboxSupport::Blocked { .. } => None,
        }
    }

    /// The reason why there is no support; empty if there is.
    pub(super) fn reason(&self) -> String {
        match self {
            SandboxSupport::Yes { .. } => String::new(),
            SandboxSupport::Missing => "bubblewrap is not installed".to_owned(),
            SandboxSupport::Blocked { reason } => format!("bubblewrap cannot create one here: {reason}"),
        }
    }

    /// Instructions for enabling sandboxes, if there is no support.
    pub fn fix_hint(&self) -> Option<&'static str> {
        match self {
            SandboxSupport::Yes { .. } => None,
            SandboxSupport::Missing => Some("install bubblewrap, or set `sandbox: false` in the workflow file"),
            SandboxSupport::Blocked { .. } => {
                Some("allow bubblewrap to create user namespaces, or set `sandbox: false` in the workflow file")
            }
        }
    }
}

impl NestedNamespaces {
    /// The corresponding arguments of bubblewrap.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            NestedNamespaces::Off => &["--disable-userns"],
            NestedNamespaces::On => &[],
        }
    }
}

impl fmt::Display for SandboxSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SandboxSupport::Yes { version, nested: NestedNamespaces::Off, .. } => {
                write!(f, "agents run in a sandbox ({version})")
            }
            SandboxSupport::Yes { version, nested: NestedNamespaces::On, .. } => {
                write!(f, "agents run in a sandbox ({version}, which cannot turn nested user namespaces off; 0.8 can)")
            }
            SandboxSupport::Missing | SandboxSupport::Blocked { .. } => {
                write!(f, "agents run without a sandbox: {}", self.reason())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_blocked_bubblewrap_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(SandboxSupport::on_path(folder.path().as_os_str()), SandboxSupport::Missing);
        let program = folder.path().join(PROGRAM);
        std::fs::write(&program, "#!/bin/sh\necho 'no namespaces' >&2\nexit 1\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let blocked = SandboxSupport::on_path(folder.path().as_os_str());
        assert_eq!(blocked, SandboxSupport::Blocked { reason: "no namespaces".into() });
        assert!(blocked.fix_hint().is_some() && blocked.to_string().contains("no namespaces"));
    }

    #[test]
    fn bubblewrap_without_disable_userns_is_used_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(PROGRAM);
        let old = "#!/bin/sh\ncase \"$*\" in *disable-userns*) echo 'Unknown option' >&2; exit 1;; esac\necho bubblewrap 0.6\n";
        std::fs::write(&program, old).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let available = SandboxSupport::on_path(folder.path().as_os_str());
        assert_eq!(available.with_namespaces().map(|(_, nested)| nested), Some(NestedNamespaces::On));
        assert!(
            available.fix_hint().is_none() && available.to_string().contains("nested user namespaces"),
            "{available}"
        );
    }
}
