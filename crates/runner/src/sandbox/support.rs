//! Whether this machine has what sandboxes are made with.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::process::exec_shim;

const PROGRAM: &str = "bwrap";

/// Whether programs in a sandbox can make user namespaces, in which they would have powers over mounts and networks that
/// they have nowhere else, and reach parts of the kernel that have had many faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NestedNamespaces {
    Off,
    /// This bubblewrap is older than 0.8 and cannot turn them off.
    On,
}

/// What this machine can do about sandboxes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Available {
    /// With bubblewrap.
    Yes { bwrap: PathBuf, version: String, nested: NestedNamespaces },
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
        match Available::try_with(bwrap.clone(), NestedNamespaces::Off) {
            Available::Barred { .. } => Available::try_with(bwrap, NestedNamespaces::On),
            available => available,
        }
    }

    fn try_with(bwrap: PathBuf, nested: NestedNamespaces) -> Available {
        let small = ["--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc"];
        let mut command = exec_shim::command(&bwrap);
        command.args(small).args(nested.arguments());
        let tried = command.args(["--", &bwrap.display().to_string(), "--version"]).output();
        match tried {
            Ok(output) if output.status.success() => {
                let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Available::Yes { bwrap, version, nested }
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
        self.with_namespaces().map(|(bwrap, _)| bwrap)
    }

    /// Bubblewrap, and whether its sandboxes can refuse namespaces of their own.
    pub(super) fn with_namespaces(&self) -> Option<(&Path, NestedNamespaces)> {
        match self {
            Available::Yes { bwrap, nested, .. } => Some((bwrap, *nested)),
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

impl NestedNamespaces {
    /// The arguments of bubblewrap for it.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            NestedNamespaces::Off => &["--disable-userns"],
            NestedNamespaces::On => &[],
        }
    }
}

impl fmt::Display for Available {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Available::Yes { version, nested: NestedNamespaces::Off, .. } => write!(f, "agents run in one ({version})"),
            Available::Yes { version, nested: NestedNamespaces::On, .. } => {
                write!(f, "agents run in one ({version}, which cannot turn nested user namespaces off; 0.8 can)")
            }
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

    #[test]
    fn bubblewrap_without_disable_userns_is_used_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(PROGRAM);
        let old = "#!/bin/sh\ncase \"$*\" in *disable-userns*) echo 'Unknown option' >&2; exit 1;; esac\necho bubblewrap 0.6\n";
        std::fs::write(&program, old).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let available = Available::on(folder.path().as_os_str());
        assert_eq!(available.with_namespaces().map(|(_, nested)| nested), Some(NestedNamespaces::On));
        assert!(available.mend().is_none() && available.to_string().contains("nested user namespaces"), "{available}");
    }
}
