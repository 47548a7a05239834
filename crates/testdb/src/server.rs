//! A private server: its folder, its port, and the ways to end it.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, Permissions};
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{self, Programs};
use crate::watchdog::Watchdog;

/// Below the range for outgoing connections, so that the port is still free after a restart.
const PORTS: std::ops::Range<u16> = 15_000..32_000;
/// Another program may take a port between the check and the start.
const PORT_ATTEMPTS: usize = 5;
/// Includes recovery after a crash.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The path of a Unix socket must fit into 107 bytes, of which the file name takes about twenty.
const MAX_FOLDER_LENGTH: usize = 80;
/// The number of log lines in an error.
const LOG_LINES: usize = 20;

const ALWAYS: &[(&str, &str)] =
    &[("max_connections", "300"), ("max_wal_size", "2GB"), ("timezone", "UTC"), ("listen_addresses", "127.0.0.1")];
/// Faster, but data does not survive a crash of the machine.
const FAST: &[(&str, &str)] = &[("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")];
const DURABLE: &[(&str, &str)] = &[("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")];

/// The settings and files of a server.
#[derive(Clone, Debug)]
pub struct Options {
    settings: Vec<(String, String)>,
    files: Vec<(String, String)>,
}

impl Options {
    /// Settings for speed, for tests that do not crash the server.
    pub fn fast() -> Options {
        Options::of(FAST)
    }

    /// Settings for durable commits, for crash tests and benchmarks.
    pub fn durable() -> Options {
        Options::of(DURABLE)
    }

    /// Adds a setting of `postgresql.conf`; the last value of a name counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a file in the data folder, such as a certificate, that only the server can read.
    #[must_use]
    pub fn file(mut self, name: &str, contents: &str) -> Options {
        self.files.push((name.to_owned(), contents.to_owned()));
        self
    }

    /// Creates the server's files, starts it and waits until it is ready.
    pub fn start(self) -> Result<Server> {
        Server::create(self)
    }

    fn of(durability: &[(&str, &str)]) -> Options {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Options { settings: ALWAYS.iter().chain(durability).map(own).collect(), files: vec![] }
    }
}

/// A running PostgreSQL with an empty database `rookery`, whose superuser `rookery` needs no password. The server ends, and
/// its folder is removed, when this value is dropped or our process ends in any other way.
#[derive(Debug)]
pub struct Server {
    options: Options,
    programs: Programs,
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
    watchdog: Watchdog,
}

impl Server {
    /// Starts a server with [`Options::fast`].
    pub fn start() -> Result<Server> {
        Options::fast().start()
    }

    /// Starts a server with [`Options::durable`].
    pub fn durable() -> Result<Server> {
        Options::durable().start()
    }

    /// The TCP URL of the database `rookery`.
    pub fn url(&self) -> String {
        self.url_of("rookery")
    }

    /// The TCP URL of another database.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://rookery@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of the database `rookery` by the Unix socket in the server's folder.
    pub fn socket_url(&self) -> String {
        let folder = self.folder.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        format!("postgres://rookery@{folder}:{}/rookery", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the postmaster, unless it was stopped or killed.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The server's log since it was created.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Runs SQL in the database `rookery` and returns the output of `psql`, without headings.
    pub fn psql(&self, sql: &str) -> Result<String> {
        programs::psql(&self.url(), sql)
    }

    /// Shuts the server down without waiting for clients to disconnect.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill_process(Pid::from_child(&child), Signal::INT).context("cannot signal the server")?;
        let stopped = wait_until(STOP_TIMEOUT, || matches!(child.try_wait(), Ok(Some(_))));
        if stopped.is_err() {
            child.kill().and_then(|()| child.wait()).context("cannot kill the server")?;
        }
        self.watchdog.forget()?;
        stopped.with_context(|| format!("the server did not stop and was killed\n{}", self.log_tail()))
    }

    /// Kills the postmaster and all its children, as a power cut would.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let postmaster = Pid::from_child(&child);
        // A stopped postmaster neither starts new children nor reacts to the death of the first one.
        kill_process(postmaster, Signal::STOP).context("cannot stop the server")?;
        let children = children_of(child.id());
        for pid in children.iter().copied().chain([postmaster]) {
            // Fails if the process has just ended by itself.
            kill_process(pid, Signal::KILL).ok();
        }
        child.wait().context("cannot wait for the server")?;
        self.watchdog.forget()?;
        wait_until(STOP_TIMEOUT, || children.iter().all(|pid| is_dead(*pid)))
            .context("a process of the server does not die")
    }

    /// Starts the server again on the same port with the same data, after stopping it if it runs.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch()
    }

    /// Waits until the server ends by itself.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the server is not running")?;
        child.wait().context("cannot wait for the server")
    }

    fn create(options: Options) -> Result<Server> {
        let programs = Programs::find()?;
        let folder = new_folder()?;
        let watchdog = Watchdog::start(&folder)?;
        let mut server = Server { options, programs, folder, port: 0, child: None, watchdog };
        server.init().context("cannot create the files of a PostgreSQL server")?;
        server.launch_on_any_port()?;
        programs::psql(&server.url_of("postgres"), "CREATE DATABASE rookery").context("cannot create the database")?;
        Ok(server)
    }

    fn init(&self) -> Result<()> {
        chown_to_server(&self.folder)?;
        let mut initdb = self.programs.server_command("initdb");
        initdb.args(["-U", "rookery", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8", "-D"]).arg(self.data());
        programs::run(initdb)?;
        for (name, contents) in &self.options.files {
            let path = self.data().join(name);
            fs::write(&path, contents).with_context(|| format!("cannot write {name}"))?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            chown_to_server(&path)?;
        }
        Ok(())
    }

    fn launch_on_any_port(&mut self) -> Result<()> {
        for _ in 1..PORT_ATTEMPTS {
            self.port = free_port()?;
            match self.launch() {
                Err(_) if self.log_tail().contains("could not bind") => {}
                result => return result,
            }
        }
        self.port = free_port()?;
        self.launch()
    }

    fn launch(&mut self) -> Result<()> {
        let log =
            File::options().create(true).append(true).open(self.log_file()).context("cannot open the server's log")?;
        let mut command = self.programs.server_command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder).args(["-p", &self.port.to_string()]);
        for (name, value) in &self.options.settings {
            command.args(["-c", &format!("{name}={value}")]);
        }
        // Its own process group: Ctrl-C ends the tests first, and then the server.
        command.current_dir(&self.folder).process_group(0).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("cannot start postgres")?;
        self.watchdog.watch(child.id())?;
        let ready = self.wait_until_ready(child);
        if ready.is_err() {
            self.watchdog.forget()?;
        }
        ready
    }

    /// Waits until the server answers on the socket in its folder. Another server might listen on the port.
    fn wait_until_ready(&mut self, mut child: Child) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            if let Some(status) = child.try_wait().context("cannot wait for the server")? {
                bail!("the server ended right after its start ({status})\n{}", self.log_tail());
            }
            if self.is_ready() {
                self.child = Some(child);
                return Ok(());
            }
            if watch.elapsed() > START_TIMEOUT {
                child.kill().and_then(|()| child.wait()).context("cannot kill the server")?;
                bail!("the server did not answer within {} s\n{}", START_TIMEOUT.as_secs(), self.log_tail());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn is_ready(&self) -> bool {
        let mut command = self.programs.command("pg_isready");
        command.args(["-q", "-U", "rookery", "-d", "postgres", "-p", &self.port.to_string(), "-h"]).arg(&self.folder);
        programs::run(command).is_ok()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The watchdog, dropped next, kills a server that does not stop, and removes the folder.
        self.stop().ok();
    }
}

/// Makes the server's user the owner of a file, if we are root.
fn chown_to_server(path: &Path) -> Result<()> {
    if !programs::is_root() {
        return Ok(());
    }
    let mut chown = programs::clean_command("chown");
    chown.arg(format!("{0}:{0}", programs::UNPRIVILEGED)).arg(path);
    programs::run(chown)?;
    Ok(())
}

/// Creates a folder whose path is short enough for a socket. The watchdog removes it.
fn new_folder() -> Result<PathBuf> {
    let usual = std::env::temp_dir();
    let parent = if usual.as_os_str().len() > MAX_FOLDER_LENGTH { Path::new("/tmp") } else { &usual };
    let folder = tempfile::Builder::new()
        .prefix("rookery-pg-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in(parent)
        .with_context(|| format!("cannot create a folder in {}", parent.display()))?;
    Ok(folder.keep())
}

fn free_port() -> Result<u16> {
    for _ in 0..1_000 {
        let random = RandomState::new().hash_one("port");
        let offset = u16::try_from(random % u64::from(PORTS.end - PORTS.start))?;
        let port = PORTS.start + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port from {} to {} is free", PORTS.start, PORTS.end)
}

/// Reads the children from `/proc`. Other systems have none there; children end by themselves soon after the postmaster.
fn children_of(parent: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| status_of(*pid).is_some_and(|(_, ppid)| ppid == parent);
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}

/// Whether a process is gone, or a zombie whose exit status was not collected yet.
fn is_dead(pid: Pid) -> bool {
    status_of(pid.as_raw_nonzero().get()).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

/// The state and the parent of a process, which follow its name in parentheses.
fn status_of(pid: i32) -> Option<(char, u32)> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> Result<()> {
    let watch = Stopwatch::start();
    while !done() {
        ensure!(watch.elapsed() <= limit, "still waiting after {} s", limit.as_secs());
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

#[derive(Debug)]
struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "limits waiting for a process; there is no clock to inject")]
    fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
