//! Removes the server and its folder when our process ends, however it ends.
//!
//! A small shell script reads from a pipe. We write the server's process id whenever it changes. When the pipe closes,
//! because we are done or were killed, the script ends the server and removes the folder.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use anyhow::{Context, Result};

use crate::programs::clean_command;

/// `QUIT` is PostgreSQL's immediate shutdown. It frees the shared memory and removes the pid file last. A stopped or stuck
/// server needs `KILL`.
const SCRIPT: &str = r#"
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 0 ]; then
    kill -QUIT "$pid"
    tries=0
    while [ -e "$1/data/postmaster.pid" ] && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    [ -e "$1/data/postmaster.pid" ] && kill -KILL "$pid"
fi
# The last children of the server may still write.
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

/// The shell and the pipe to it. Dropping it closes the pipe and waits for the cleanup.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts the shell, which removes this folder in the end.
    pub(crate) fn start(folder: &Path) -> Result<Watchdog> {
        let mut command = clean_command("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(folder);
        // Its own process group: signals to ours, by a terminal or a test runner, must not reach it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn().context("cannot start sh")?;
        let pipe = shell.stdin.take();
        Ok(Watchdog { shell, pipe })
    }

    /// Sets the process to end.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<()> {
        self.write(pid)
    }

    /// Clears the process, which has ended; another one may get its id.
    pub(crate) fn forget(&mut self) -> Result<()> {
        self.write(0)
    }

    fn write(&mut self, pid: u32) -> Result<()> {
        let pipe = self.pipe.as_mut().context("the watchdog was closed")?;
        writeln!(pipe, "{pid}").context("the watchdog has ended")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // A shell that cannot be waited for needs no cleanup.
        self.shell.wait().ok();
    }
}
