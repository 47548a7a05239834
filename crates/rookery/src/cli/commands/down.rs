//! `rookery down`

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::cli::Failure;
use crate::cli::context::Context;
use crate::process;
use crate::project::{DaemonFile, Holder, Project, ProjectLock};

/// A daemon closes its streams and ends within this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_POLL: Duration = Duration::from_millis(25);

/// Stop the daemon of this project
///
/// Waits up to 10 seconds until it has ended. No claim, task or message is lost: everything is in the log.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(context: &Context, _args: Args) -> anyhow::Result<()> {
    let project = context.project()?;
    let Some(pid) = daemon_process(&project)? else {
        context.out.note("no daemon runs for this project");
        return Ok(());
    };
    process::terminate(pid).with_context(|| format!("cannot signal process {pid}"))?;
    let stopped = async {
        while ProjectLock::holder(&project)? == Holder::Process(pid) {
            tokio::time::sleep(STOP_POLL).await;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(STOP_TIMEOUT, stopped).await {
        Ok(stopped) => stopped?,
        Err(_elapsed) => {
            let failure = Failure::new(format!("process {pid} is still there after {} s", STOP_TIMEOUT.as_secs()));
            let hint = format!("read {}, then end it with `kill -9 {pid}`", project.daemon_log().display());
            return Err(failure.hint(hint).into());
        }
    }
    context.out.done(&json!({ "stopped": pid }), &format!("stopped the daemon (process {pid})"))
}

/// The daemon's process. Only who holds the project's lock is signalled, and only if it is the daemon that published
/// its address: a stale `daemon.json` may name a stranger's process, and an import or restore holds the lock too.
fn daemon_process(project: &Project) -> anyhow::Result<Option<u32>> {
    let published = DaemonFile::load(project)?.map(|file| file.pid);
    match ProjectLock::holder(project)? {
        Holder::Nobody => Ok(None),
        Holder::Process(pid) if published == Some(pid) => Ok(Some(pid)),
        Holder::Process(pid) => {
            let failure =
                Failure::new(format!("process {pid} is working on the project and is not a daemon that serves"));
            Err(failure.hint("it may be starting, importing or restoring: wait until it is done").into())
        }
        Holder::Unnamed => {
            let failure = Failure::new("another process is just taking the project");
            Err(failure.hint("try again in a moment").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_daemon_that_holds_the_lock_is_stopped() {
        let temp = tempfile::tempdir().unwrap();
        let project = Project::at(temp.path()).unwrap();
        project.prepare().unwrap();
        let file = |pid| DaemonFile {
            pid,
            url: "http://127.0.0.1:1".into(),
            socket: None,
            version: "0".into(),
            project: "p".into(),
            store: None,
            started_at: 0,
        };
        let stale = file(1).publish(&project).unwrap();
        assert_eq!(daemon_process(&project).unwrap(), None, "a stale file names nobody");
        let _lock = ProjectLock::acquire(&project).unwrap();
        assert!(daemon_process(&project).is_err(), "the holder is not the daemon of the file");
        drop(stale);
        let _published = file(std::process::id()).publish(&project).unwrap();
        assert_eq!(daemon_process(&project).unwrap(), Some(std::process::id()));
    }
}
