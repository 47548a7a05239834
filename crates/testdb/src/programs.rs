//! PostgreSQL's own programs: where they are, and how to call them. The only place of this crate that starts processes.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Where Debian keeps the programs of each version, none of which is on the search path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// PostgreSQL refuses to run as root; there it runs as the user that its package creates.
pub(crate) const UNPRIVILEGED: &str = "postgres";

/// The folder with the programs of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// What `pg_config` names, else Debian's newest version, else where `initdb` is on the search path.
    pub fn find() -> Result<Programs> {
        let candidates = configured().into_iter().chain(packaged()).chain(on_path());
        // The development package brings a `pg_config` without a server: only `initdb` tells that there is one.
        match candidates.into_iter().find(|folder| folder.join("initdb").is_file()) {
            Some(folder) => Ok(Programs { folder }),
            None => bail!("there is no PostgreSQL server on this machine; on Debian: apt-get install postgresql"),
        }
    }

    /// One of them, as the user we are.
    pub(crate) fn command(&self, program: &str) -> Command {
        quiet(self.folder.join(program))
    }

    /// One of those that own the data: as root, as the user `postgres`.
    pub(crate) fn server_command(&self, program: &str) -> Command {
        if !is_root() {
            return self.command(program);
        }
        let (user, group) = (format!("--reuid={UNPRIVILEGED}"), format!("--regid={UNPRIVILEGED}"));
        let mut command = quiet("setpriv");
        command.args([&user, &group, "--init-groups", "--"]).arg(self.folder.join(program));
        command
    }
}

/// Runs SQL with `psql` and tells what it printed, without headings. The URL must be one that libpq understands.
pub fn psql(url: &str, sql: &str) -> Result<String> {
    let mut command = Programs::find()?.command("psql");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]);
    run(command)
}

/// Runs it to its end; what it wrote to stdout, or an error with what it wrote to stderr.
pub(crate) fn run(mut command: Command) -> Result<String> {
    let name = Path::new(command.get_program()).to_owned();
    let output = command.output().with_context(|| format!("cannot start {}", name.display()))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", name.display(), output.status, complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A command that hears only what we tell it: `PGHOST` and its kin would lead it elsewhere.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that starts processes")]
pub(crate) fn quiet(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn configured() -> Option<PathBuf> {
    let mut command = quiet("pg_config");
    command.arg("--bindir");
    run(command).ok().map(PathBuf::from)
}

/// Debian's versions, the newest first.
fn packaged() -> Vec<PathBuf> {
    let entries = fs::read_dir(DEBIAN).into_iter().flatten().filter_map(Result::ok);
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let initdb = env::split_paths(&path).map(|folder| folder.join("initdb")).find(|file| file.is_file())?;
    // A link leads to the folder where the others are as well.
    Some(initdb.canonicalize().ok()?.parent()?.to_owned())
}
