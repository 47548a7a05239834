//! A program to start: its arguments, folder, environment and sandbox.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sandbox::Sandbox;

/// Variables that programs inherit from the runner. All others must be given in the workflow file, so that no secret
/// reaches an agent by accident.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TMPDIR",
    // Locations of certificates: the machine decides which authorities to trust.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // Proxies, which may be the only way out of the machine.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    // Locations of tools in unusual places.
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "NVM_DIR",
    "JAVA_HOME",
    "LOCALE_ARCHIVE",
];

/// Settings for starting programs through the `exec` shim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecShim {
    /// The `rookery` executable, which becomes the other program.
    pub rookery: PathBuf,
    /// The folder for records of running programs, which [`super::end_orphans`] reads. No agent may write there.
    pub records: PathBuf,
}

/// A program with everything that it is started with.
#[derive(Clone)]
pub struct Program {
    pub exec_shim: ExecShim,
    /// Never passed through a shell: a text of an agent remains one argument.
    pub argv: Vec<OsString>,
    /// The complete environment.
    pub env: BTreeMap<OsString, OsString>,
    pub folder: PathBuf,
    /// The text on standard input; `None` for empty input.
    pub stdin: Option<Vec<u8>>,
    /// `None` gives the program the view and the network of the runner.
    pub sandbox: Option<Arc<Sandbox>>,
    pub secrecy: Secrecy,
}

/// Handling of secrets of the environment that a program prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrecy {
    /// Output passes unchanged, for a person's own command.
    Open,
    /// Secrets are removed from the output, for an agent's program.
    Kept,
}

impl Program {
    /// A program with the [kept](kept_environment) part of the runner's environment and no sandbox.
    pub fn new(
        exec_shim: ExecShim,
        folder: impl Into<PathBuf>,
        argv: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Program {
        let argv = argv.into_iter().map(Into::into).collect();
        let (env, folder) = (kept_environment(), folder.into());
        Program { exec_shim, argv, env, folder, stdin: None, sandbox: None, secrecy: Secrecy::Open }
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Program {
        self.env.insert(name.into(), value.into());
        self
    }

    #[must_use]
    pub fn envs(mut self, all: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>) -> Program {
        self.env.extend(all.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    #[must_use]
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Program {
        self.stdin = Some(text.into());
        self
    }

    /// Removes the secrets of the environment from the output.
    #[must_use]
    pub fn discreet(self) -> Program {
        Program { secrecy: Secrecy::Kept, ..self }
    }

    #[must_use]
    pub fn sandbox(mut self, sandbox: Option<Arc<Sandbox>>) -> Program {
        self.sandbox = sandbox;
        self
    }

    /// Finds the executable as the program's own `PATH` says.
    pub(super) fn find(&self) -> Option<PathBuf> {
        let name = Path::new(self.argv.first()?);
        if name.components().count() > 1 {
            let path = self.folder.join(name);
            return is_executable(&path).then_some(path);
        }
        let paths = self.env.get(OsStr::new("PATH"))?;
        std::env::split_paths(paths).map(|folder| self.folder.join(folder).join(name)).find(|path| is_executable(path))
    }
}

impl fmt::Debug for Program {
    /// Leaves out the environment, the arguments and the input, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Program");
        shown.field("program", &self.argv.first()).field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// The part of the runner's environment that every program gets.
pub fn kept_environment() -> BTreeMap<OsString, OsString> {
    std::env::vars_os().filter(|(name, _)| is_kept(name)).collect()
}

fn is_kept(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| KEPT.contains(&name) || name.starts_with("LC_"))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(argv: &[&str]) -> Program {
        let exec_shim = ExecShim { rookery: "rookery".into(), records: "records".into() };
        let mut program = Program::new(exec_shim, "/", argv.iter().copied());
        program.env = BTreeMap::from([("PATH".into(), "/nowhere:/bin:usr/bin".into())]);
        program
    }

    #[test]
    fn environment_that_could_hold_secrets_is_not_inherited() {
        for kept in ["PATH", "HOME", "LC_ALL", "LANG", "TERM"] {
            assert!(is_kept(OsStr::new(kept)), "{kept}");
        }
        for other in
            ["ROOKERY_SESSION", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "SSH_AUTH_SOCK", "LCX"]
        {
            assert!(!is_kept(OsStr::new(other)), "{other}");
        }
    }

    #[test]
    fn program_is_found_by_its_own_path() {
        assert_eq!(program(&["sh", "-c", "true"]).find(), Some("/bin/sh".into()));
        assert_eq!(program(&["bin/sh"]).find(), Some("/bin/sh".into()), "from its own folder");
        assert_eq!(program(&["/bin/sh"]).find(), Some("/bin/sh".into()));
        for missing in [&["no-such-program-here"][..], &["/etc/passwd"], &["/bin"], &[]] {
            assert_eq!(program(missing).find(), None, "{missing:?}");
        }
    }

    #[test]
    fn debug_output_hides_secrets() {
        let shown = format!("{:?}", program(&["claude", "-p", "the prompt"]).env("KEY", "secret").stdin("the letter"));
        assert!(!shown.contains("secret") && !shown.contains("prompt") && !shown.contains("letter"), "{shown}");
    }
}
