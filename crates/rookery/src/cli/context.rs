//! What every command is given: the output, the project that is meant, and the way to its daemon.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rookery_client::{Client, Proof};

use super::failure::{Exit, Failure, Report};
use super::output::Output;
use crate::config::{Flags, ProjectSettings};
use crate::process;
use crate::project::{DaemonFile, Holder, Project, ProjectLock};

/// How long a daemon may take until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const START_POLL: Duration = Duration::from_millis(25);
/// How much of the daemon's log is read to say why it did not start.
const LOG_TAIL_BYTES: u64 = 16 << 10;

/// Whether a command may start the daemon that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    IfNeeded,
    Never,
}

/// A daemon that answers.
#[derive(Debug)]
pub struct Running {
    pub file: DaemonFile,
    pub client: Client,
}

/// The surroundings of one command.
#[derive(Debug)]
pub struct Context {
    pub out: Output,
    pub dir: Option<PathBuf>,
    pub start: Start,
}

impl Context {
    pub fn project(&self) -> anyhow::Result<Project> {
        Ok(Project::locate(self.dir.as_deref())?)
    }

    /// The project and its settings, without any flags.
    pub fn settled(&self) -> anyhow::Result<(Project, ProjectSettings)> {
        let project = self.project()?;
        let settings = ProjectSettings::load(&project, &Flags::default())?;
        Ok((project, settings))
    }

    /// A client of the project's daemon. If none runs, it is started for a command that may do so.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let project = self.project()?;
        let missing = match find(&project).await {
            Ok(running) => return Ok(running.client),
            Err(error) => error,
        };
        // A daemon that is there and refuses is not made better by a second one.
        if self.start == Start::Never || Report::of(&missing).exit != Exit::Unreachable {
            return Err(missing);
        }
        let running = start(&project, &Flags::default()).await?;
        self.out.note(&format!("started the daemon at {}", running.file.url));
        Ok(running.client)
    }
}

/// What this process was given by whoever started it for an agent.
pub fn inherited() -> Proof {
    match std::env::var("ROOKERY_SESSION") {
        Ok(key) if !key.is_empty() => Proof::Session(key),
        _ => Proof::Nothing,
    }
}

/// The project's daemon, if one answers.
pub async fn find(project: &Project) -> anyhow::Result<Running> {
    let Some(file) = DaemonFile::load(project)? else { return Err(no_daemon(project).into()) };
    // In an agent's sandbox there is no key file, but perhaps a session.
    let proof = project.person_key()?.map_or_else(inherited, Proof::Person);
    let client = Client::new(file.address(), proof)?.with_locator(Arc::new(project.clone()));
    client.check_health().await?;
    Ok(Running { file, client })
}

/// The failure where a daemon is needed and none was started.
pub fn no_daemon(project: &Project) -> Failure {
    let message = format!("no daemon runs for {}", project.root().display());
    Failure::unreachable(message).hint("start one with `rookery up`, or name another folder with --dir")
}

/// Starts a daemon in the background and waits until it answers.
pub async fn start(project: &Project, flags: &Flags) -> anyhow::Result<Running> {
    let log_before = std::fs::metadata(project.daemon_log()).map_or(0, |log| log.len());
    let mut child = process::spawn_daemon(project, flags)?;
    let answering = async {
        loop {
            if let Ok(running) = find(project).await {
                return Ok(running);
            }
            // If two commands start a daemon at once, one of the two ends at the lock: the other one will answer.
            if child.try_wait()?.is_some() && ProjectLock::holder(project)? == Holder::Nobody {
                return Err(did_not_start(project, log_before));
            }
            tokio::time::sleep(START_POLL).await;
        }
    };
    tokio::time::timeout(START_TIMEOUT, answering).await.unwrap_or_else(|_elapsed| {
        let message = format!("the daemon did not answer within {} s of its start", START_TIMEOUT.as_secs());
        Err(Failure::unreachable(message).hint(format!("read {}", project.daemon_log().display())).into())
    })
}

/// Says why a daemon ended at once, in the words that it left in its log.
fn did_not_start(project: &Project, log_before: u64) -> anyhow::Error {
    let said = log_since(project, log_before).unwrap_or_default();
    let last = |prefix: &str| said.lines().rev().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
    let reason = last("error: ").or_else(|| said.lines().last().map(str::to_owned));
    let hint = last("hint: ").unwrap_or_else(|| format!("read {}", project.daemon_log().display()));
    let reason = reason.unwrap_or_else(|| "it left no message".into());
    Failure::unreachable(format!("the daemon did not start: {reason}")).hint(hint).into()
}

fn log_since(project: &Project, offset: u64) -> std::io::Result<String> {
    let mut log = File::open(project.daemon_log())?;
    let end = log.metadata()?.len();
    // A log that was set aside starts anew.
    let offset = if offset > end { 0 } else { offset };
    log.seek(SeekFrom::Start(offset.max(end.saturating_sub(LOG_TAIL_BYTES))))?;
    let mut bytes = Vec::new();
    log.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_testkit::stub_server::StubServer;

    fn project() -> (tempfile::TempDir, Project) {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        project.prepare().unwrap();
        (temp, project)
    }

    fn file_of(daemon: &StubServer) -> DaemonFile {
        DaemonFile {
            pid: std::process::id(),
            url: daemon.url().to_owned(),
            socket: None,
            version: "0.1.0".into(),
            project: "prj_1".into(),
            store: None,
            started_at: 0,
        }
    }

    #[tokio::test]
    async fn without_a_daemon_the_exit_code_is_three() {
        let (_temp, project) = project();
        let report = Report::of(&find(&project).await.unwrap_err());
        assert_eq!(
            (report.exit, report.hint.as_str()),
            (Exit::Unreachable, "start one with `rookery up`, or name another folder with --dir")
        );
    }

    #[tokio::test]
    async fn a_stale_address_is_not_believed() {
        let (_temp, project) = project();
        let daemon = StubServer::start("200 OK\r\n\r\n{}").await.unwrap();
        let file = file_of(&daemon);
        let _published = file.clone().publish(&project).unwrap();
        assert_eq!(find(&project).await.unwrap().file, file);
        drop(daemon);
        assert_eq!(Report::of(&find(&project).await.unwrap_err()).exit, Exit::Unreachable);
    }

    #[test]
    fn a_daemon_that_ends_at_once_is_quoted() {
        let (_temp, project) = project();
        let (old, new) = ("error: old\nhint: old\n", "error: port 1 is taken\nhint: use another\n");
        std::fs::write(project.daemon_log(), format!("{old}{new}")).unwrap();
        let report = Report::of(&did_not_start(&project, old.len() as u64));
        assert_eq!(report.error, "the daemon did not start: port 1 is taken");
        assert_eq!(report.hint, "use another");
    }
}
