//! A program that is to be started: what, where, and with what around it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sandbox::Sandbox;

/// What programs get of the runner's own environment. Everything else is said in the workflow file, so that no secret
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
    // Where certificates are: who vouches for a server is a matter of the machine.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // The way out of the machine, where there is but one.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    // Where tools are that are not where they usually are.
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "NVM_DIR",
    "JAVA_HOME",
    "LOCALE_ARCHIVE",
];

/// How programs are started here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecShim {
    /// Our own program, which becomes the other one.
    pub rookery: PathBuf,
    /// The folder where it is written down what runs, for [`super::end_orphans`]. No agent may write there.
    pub records: PathBuf,
}

/// A program with everything that it is started with.
#[derive(Clone)]
pub struct Program {
    pub exec_shim: ExecShim,
    /// Never a line for a shell: what an agent says stays one argument.
    pub argv: Vec<OsString>,
    /// All of its environment.
    pub env: BTreeMap<OsString, OsString>,
    pub folder: PathBuf,
    /// Without it, its input is empty.
    pub stdin: Option<Vec<u8>>,
    /// Without one, it sees and reaches what the runner does.
    pub sandbox: Option<Arc<Sandbox>>,
    pub secrecy: Secrecy,
}

/// What becomes of secrets of a program's environment that it prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrecy {
    /// It is a person's own command, and prints what that person wants.
    Open,
    /// It is an agent's: nobody is told them.
    Kept,
}

impl Program {
    /// With what is [kept](kept_environment) of our environment and nothing else, without a sandbox.
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

    /// Nobody is told the secrets of its environment, whatever it prints.
    #[must_use]
    pub fn discreet(self) -> Program {
        Program { secrecy: Secrecy::Kept, ..self }
    }

    #[must_use]
    pub fn sandbox(mut self, sandbox: Option<Arc<Sandbox>>) -> Program {
        self.sandbox = sandbox;
        self
    }

    /// The program's file, as its own environment finds it.
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
    /// Its environment and what it is told may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Program");
        shown.field("program", &self.argv.first()).field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// What every program gets of our own environment.
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
    fn nothing_is_kept_that_could_be_a_secret() {
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
    fn a_program_is_found_as_its_own_path_says() {
        assert_eq!(program(&["sh", "-c", "true"]).find(), Some("/bin/sh".into()));
        assert_eq!(program(&["bin/sh"]).find(), Some("/bin/sh".into()), "from its own folder");
        assert_eq!(program(&["/bin/sh"]).find(), Some("/bin/sh".into()));
        for missing in [&["no-such-program-here"][..], &["/etc/passwd"], &["/bin"], &[]] {
            assert_eq!(program(missing).find(), None, "{missing:?}");
        }
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let shown = format!("{:?}", program(&["claude", "-p", "the prompt"]).env("KEY", "secret").stdin("the letter"));
        assert!(!shown.contains("secret") && !shown.contains("prompt") && !shown.contains("letter"), "{shown}");
    }
}
