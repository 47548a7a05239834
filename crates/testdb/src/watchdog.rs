//! Sees to it that neither the server nor its folder outlives us, whatever becomes of us.
//!
//! A small shell reads our pipe. We write the server's process id whenever it changes. When the pipe closes, because we
//! are done, or were killed without a chance to clean up, it ends the server and removes the folder.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use anyhow::{Context, Result};

use crate::programs::quiet;

/// `QUIT` is PostgreSQL's immediate end, which also gives back its shared memory; its last act is to remove its pid file.
/// One that is stopped or stuck needs `KILL`.
const SCRIPT: &str = r#"
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 0 ]; then
    kill -QUIT "$pid"
    tries=0
    while [ -e "$1/data/postmaster.pid" ] && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    [ -e "$1/data/postmaster.pid" ] && kill -KILL "$pid"
fi
# Its last children may still be writing.
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

#[derive(Debug)]
pub(crate) struct Undertaker {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Undertaker {
    pub(crate) fn of(folder: &Path) -> Result<Undertaker> {
        let mut command = quiet("sh");
        command.args(["-c", SCRIPT, "undertaker"]).arg(folder);
        // A group of its own: what is sent to ours, by a terminal or a test runner, must not reach it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = command.spawn().context("cannot start sh")?;
        let pipe = shell.stdin.take();
        Ok(Undertaker { shell, pipe })
    }

    /// From now on this is the process to end.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<()> {
        self.tell(pid)
    }

    /// The process has ended; another may get its number.
    pub(crate) fn forget(&mut self) -> Result<()> {
        self.tell(0)
    }

    fn tell(&mut self, pid: u32) -> Result<()> {
        let pipe = self.pipe.as_mut().context("the undertaker has gone")?;
        writeln!(pipe, "{pid}").context("the undertaker has ended")
    }
}

impl Drop for Undertaker {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Nothing is to be done about one that cannot be waited for.
        let _ended = self.shell.wait();
    }
}
