//! Finds PostgreSQL's programs and builds the commands that run them. Every process of this crate starts from such a
//! command.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Debian's folder for the programs of each version, which are not on the search path.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";

/// The user that the package creates. PostgreSQL refuses to run as root, so root starts it as this user.
pub(crate) const UNPRIVILEGED: &str = "postgres";

/// The folder with the programs of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Finds the folder that `pg_config` names, else Debian's newest version, else the folder of `initdb` on the search path.
    pub fn find() -> Result<Programs> {
        let candidates = from_pg_config().into_iter().chain(debian_folders()).chain(from_path());
        // The development package has a `pg_config` but no server. Only `initdb` proves that there is one.
        match candidates.into_iter().find(|folder| folder.join("initdb").is_file()) {
            Some(folder) => Ok(Programs { folder }),
            None => bail!("no PostgreSQL server is installed; on Debian, run: apt-get install postgresql"),
        }
    }

    /// A command that runs as our user.
    pub(crate) fn command(&self, program: &str) -> Command {
        clean_command(self.folder.join(program))
    }

    /// A command that owns the data: if we are root, it runs as the user `postgres`.
    pub(crate) fn server_command(&self, program: &str) -> Command {
        if !is_root() {
            return self.command(program);
        }
        let (user, group) = (format!("--reuid={UNPRIVILEGED}"), format!("--regid={UNPRIVILEGED}"));
        let mut command = clean_command("setpriv");
        command.args([&user, &group, "--init-groups", "--"]).arg(self.folder.join(program));
        command
    }
}

/// Runs SQL with `psql` and returns its output, without headings. The URL must be one that libpq understands.
pub fn psql(url: &str, sql: &str) -> Result<String> {
    let mut command = Programs::find()?.command("psql");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]);
    run(command)
}

/// Runs a command and returns its stdout, or an error with its stderr.
pub(crate) fn run(mut command: Command) -> Result<String> {
    let name = Path::new(command.get_program()).to_owned();
    let output = command.output().with_context(|| format!("cannot start {}", name.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", name.display(), output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A command without the `PG*` variables, such as `PGHOST`, that would change its target.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that builds commands")]
pub(crate) fn clean_command(program: impl AsRef<OsStr>) -> Command {
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

fn from_pg_config() -> Option<PathBuf> {
    let mut command = clean_command("pg_config");
    command.arg("--bindir");
    run(command).ok().map(PathBuf::from)
}

/// The folders of Debian's versions, the newest first.
fn debian_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(DEBIAN_FOLDER).into_iter().flatten().filter_map(Result::ok);
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn from_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let initdb = env::split_paths(&path).map(|folder| folder.join("initdb")).find(|file| file.is_file())?;
    // Follows a link to the folder that has the other programs too.
    Some(initdb.canonicalize().ok()?.parent()?.to_owned())
}
