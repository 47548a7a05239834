//! A server under test in its own process, which is killed when its handle is dropped.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::http::{self, Connection};
use crate::stopwatch::Stopwatch;
use crate::{machine, work};

#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The time from starting the process until it was ready.
    pub(crate) ready_in: Duration,
}

impl Daemon {
    /// Starts the real daemon, with its defaults, for the project in `root`.
    pub(crate) async fn start(root: &Path) -> anyhow::Result<Daemon> {
        Daemon::start_with(&sibling("rookery")?, root, &[]).await
    }

    /// Starts the real daemon on PostgreSQL.
    pub(crate) async fn start_on(root: &Path, store: &str) -> anyhow::Result<Daemon> {
        Daemon::start_program(&sibling("rookery")?, root, store).await
    }

    /// Starts another build of the daemon.
    pub(crate) async fn start_program(program: &Path, root: &Path, store: &str) -> anyhow::Result<Daemon> {
        Daemon::start_with(program, root, &["--store", store]).await
    }

    /// Starts a build of the daemon with further arguments of `up`.
    pub(crate) async fn start_with(program: &Path, root: &Path, arguments: &[&str]) -> anyhow::Result<Daemon> {
        Daemon::start_command(command(program), root, arguments).await
    }

    /// Starts a build under callgrind, which writes its instruction counts to `counts` when the daemon stops.
    pub(crate) async fn start_counted(program: &Path, root: &Path, counts: &Path) -> anyhow::Result<Daemon> {
        let mut valgrind = command(Path::new("valgrind"));
        valgrind.args(["--tool=callgrind", "--quiet"]);
        valgrind.arg(format!("--callgrind-out-file={}", counts.display())).arg(program);
        Daemon::start_command(valgrind, root, &[]).await
    }

    async fn start_command(mut command: Command, root: &Path, arguments: &[&str]) -> anyhow::Result<Daemon> {
        let log = std::fs::File::create(root.join("daemon.stderr"))?;
        command.args(["up", "--port", "0", "--dir"]).arg(root).args(arguments).stderr(log);
        command.env_remove("ROOKERY_DIR").env_remove("ROOKERY_STORE");
        command.env("ROOKERY_ENVELOPES_PER_MINUTE", u32::MAX.to_string());
        let mut daemon = Daemon::launch(command)?;
        daemon.wait_until_ready().await?;
        Ok(daemon)
    }

    /// Starts the bare HTTP server for comparison.
    pub(crate) fn echo() -> anyhow::Result<Daemon> {
        Daemon::helper(&["echo"])
    }

    /// Starts the bare MCP server for comparison.
    pub(crate) fn mcp_echo() -> anyhow::Result<Daemon> {
        Daemon::helper(&["mcp-echo"])
    }

    /// Starts the bare WebSocket server for comparison.
    pub(crate) fn ws_echo() -> anyhow::Result<Daemon> {
        Daemon::helper(&["ws-echo"])
    }

    /// Starts a bare HTTP server that sends the bytes of a file.
    pub(crate) fn bytes(file: &Path) -> anyhow::Result<Daemon> {
        Daemon::helper(&["bytes", &file.to_string_lossy()])
    }

    fn helper(arguments: &[&str]) -> anyhow::Result<Daemon> {
        let mut command = command(&std::env::current_exe()?);
        command.args(arguments);
        Daemon::launch(command)
    }

    fn launch(mut command: Command) -> anyhow::Result<Daemon> {
        let begun = Stopwatch::start();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start a server")?;
        let mut first = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut first)?;
        }
        let Some(address) = first.trim().strip_prefix("listening on http://") else {
            bail!("the server did not start; it printed {first:?} and ended with {}", child.wait()?);
        };
        Ok(Daemon { child, address: address.parse()?, ready_in: begun.elapsed() })
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let begun = Stopwatch::start();
        let mut connection = Connection::open(self.address).await?;
        let request = http::request("GET", "/readyz", None);
        while connection.ask(&request).await?.status != 200 {
            if begun.elapsed() > Duration::from_secs(30) {
                bail!("the daemon does not get ready");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.ready_in += begun.elapsed();
        Ok(())
    }

    /// Registers as many agents as there are clients.
    pub(crate) async fn announce(&self, agents: usize) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.address).await?;
        for at in 0..agents {
            let body = format!(r#"{{"id":"{}","tool":"bench","role":"worker","capabilities":[]}}"#, work::agent(at));
            let reply = connection.ask(&http::request("POST", "/agents/announce", Some(&body))).await?;
            if reply.status >= 300 {
                bail!("announcing was answered with {}: {}", reply.status, String::from_utf8_lossy(&reply.body));
            }
        }
        Ok(())
    }

    /// Resident memory in MiB: all of it, and the part that belongs to the process alone.
    pub(crate) fn memory_mib(&self) -> anyhow::Result<(f64, f64)> {
        let file = format!("/proc/{}/status", self.child.id());
        let read = |name: &str| {
            let text = machine::field(&file, name)?;
            text.split(' ').next()?.parse::<f64>().ok().map(|kib| kib / 1024.0)
        };
        Ok((read("VmRSS").context("no VmRSS")?, read("RssAnon").context("no RssAnon")?))
    }

    /// The peak of resident memory in MiB since the last reset.
    pub(crate) fn peak_memory_mib(&self) -> anyhow::Result<f64> {
        let text = machine::field(&format!("/proc/{}/status", self.child.id()), "VmHWM").context("no VmHWM")?;
        let kib: f64 = text.split(' ').next().unwrap_or_default().parse()?;
        Ok(kib / 1024.0)
    }

    pub(crate) fn reset_peak_memory(&self) -> anyhow::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").context("cannot reset the peak of memory")
    }

    /// Asks the process to stop, and waits.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Kills the process, as a crash would.
    pub(crate) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail if the process has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that starts servers")]
fn command(program: &Path) -> Command {
    Command::new(program)
}

/// A command of the real program, for a project.
pub(crate) fn rookery(root: &Path) -> anyhow::Result<Command> {
    let mut command = command(&sibling("rookery")?);
    command.current_dir(root).env_remove("ROOKERY_DIR").env_remove("ROOKERY_STORE");
    Ok(command)
}

/// The path of a program that was built with this one.
pub(crate) fn sibling(name: &str) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    if !program.is_file() {
        bail!("there is no {name} beside this program; run `cargo xtask bench`, which builds both");
    }
    Ok(program)
}
