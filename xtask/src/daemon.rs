//! A debug daemon on a port of its own and an empty project, for checks that talk to it from outside.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;

use crate::process::{Program, Running};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How many lines of its log are worth showing when something went wrong.
const LOG_LINES: usize = 40;

#[derive(Debug)]
pub(crate) struct Daemon {
    // Dropped in this order: the process ends before its project goes.
    running: Running,
    project: TempDir,
    url: String,
    log: PathBuf,
}

impl Daemon {
    /// Starts it and waits until it listens. Its log goes to a file that is kept.
    pub(crate) fn start(rookery: &Path, log: &Path) -> Result<Self> {
        let project =
            tempfile::Builder::new().prefix("rookery-").tempdir().context("cannot create a project folder")?;
        let log_file = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let program =
            Program::new(rookery).args(["up", "--port", "0", "--dir"]).arg(project.path()).dir(project.path());
        let (running, line) = program.start_until_first_line(log_file, START_LIMIT).with_context(|| {
            format!(
                "the daemon did not start; the end of its log:\n{}",
                tail(&fs::read_to_string(log).unwrap_or_default())
            )
        })?;
        let url = listening_url(&line)?.to_owned();
        Ok(Self { running, project, url, log: log.to_owned() })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The folder of its project.
    pub(crate) fn project(&self) -> &Path {
        self.project.path()
    }

    /// The secret with which a caller may do what the project's owner may.
    pub(crate) fn person_key(&self) -> Result<String> {
        let path = self.project.path().join(".rookery/person.key");
        Ok(fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?.trim().to_owned())
    }

    /// The end of its log, for a message about something that went wrong.
    pub(crate) fn log_tail(&self) -> String {
        tail(&fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Stops it as a service manager would, and insists on a clean end.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { running, project, .. } = self;
        running.terminate_within(STOP_LIMIT)?;
        project.close().context("cannot remove the project folder")
    }
}

/// The address in the first line of the daemon's stdout.
fn listening_url(line: &str) -> Result<&str> {
    line.strip_prefix("listening on ")
        .map(str::trim)
        .filter(|url| url.starts_with("http://"))
        .ok_or_else(|| anyhow!("the daemon's first line is not `listening on http://…` but `{line}`"))
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_the_address() {
        assert_eq!(listening_url("listening on http://127.0.0.1:4700").unwrap(), "http://127.0.0.1:4700");
        assert_eq!(listening_url("listening on http://[::1]:80\r").unwrap(), "http://[::1]:80");
    }

    #[test]
    fn another_first_line_is_shown_in_the_error() {
        for line in ["", "listening on", "listening on /run/rookery.sock", "port 4700 is taken"] {
            let error = listening_url(line).unwrap_err().to_string();
            assert!(error.ends_with(&format!("but `{line}`")), "{error}");
        }
    }

    #[test]
    fn the_tail_is_short_and_keeps_the_end() {
        let log: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let tail = tail(&log);
        assert!(tail.starts_with("line 61\n") && tail.ends_with("line 100"), "{tail}");
    }
}
