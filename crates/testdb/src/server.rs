//! One private server: its folder, its port, and the ways in which it can end.

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
use crate::watchdog::Undertaker;

/// Below the ports that systems give to outgoing connections, so that ours is still free after a restart.
const PORTS: std::ops::Range<u16> = 15_000..32_000;
/// Another server may take a port between our look at it and our start.
const ATTEMPTS: usize = 5;
/// Recovery after a crash is included.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// A socket's path must fit into 107 bytes; its name takes some twenty.
const LONGEST_FOLDER: usize = 80;
/// How many lines of its log are worth showing when something went wrong.
const LOG_LINES: usize = 20;

const ALWAYS: &[(&str, &str)] =
    &[("max_connections", "300"), ("max_wal_size", "2GB"), ("timezone", "UTC"), ("listen_addresses", "127.0.0.1")];
/// Nothing survives a crash of the machine, and everything is faster.
const FAST: &[(&str, &str)] = &[("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")];
const DURABLE: &[(&str, &str)] = &[("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")];

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Options {
    settings: Vec<(String, String)>,
    files: Vec<(String, String)>,
}

impl Options {
    /// Fast: fit for tests that do not crash it.
    pub fn fast() -> Options {
        Options::of(FAST)
    }

    /// A commit is on the disk when it is answered: for crash tests and benchmarks.
    pub fn durable() -> Options {
        Options::of(DURABLE)
    }

    /// Any other setting of `postgresql.conf`; the last one of a name counts.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file in the data folder, such as a certificate, for the server only.
    #[must_use]
    pub fn file(mut self, name: &str, contents: &str) -> Options {
        self.files.push((name.to_owned(), contents.to_owned()));
        self
    }

    /// Creates the server's files, starts it and waits until it answers.
    pub fn start(self) -> Result<Server> {
        Server::create(self)
    }

    fn of(durability: &[(&str, &str)]) -> Options {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Options { settings: ALWAYS.iter().chain(durability).map(own).collect(), files: vec![] }
    }
}

/// A running PostgreSQL with an empty database `rookery`, whose superuser `rookery` needs no password. It ends, and its
/// folder goes, when this is dropped or when our process ends in any other way.
#[derive(Debug)]
pub struct Server {
    options: Options,
    programs: Programs,
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
    undertaker: Undertaker,
}

impl Server {
    /// A fast one; see [`Options`] for others.
    pub fn start() -> Result<Server> {
        Options::fast().start()
    }

    /// One that survives crashes.
    pub fn durable() -> Result<Server> {
        Options::durable().start()
    }

    /// The database `rookery` by TCP.
    pub fn url(&self) -> String {
        self.url_of("rookery")
    }

    /// Another database of the server, by TCP.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://rookery@127.0.0.1:{}/{database}", self.port)
    }

    /// The database `rookery` by the unix socket in the server's folder.
    pub fn socket_url(&self) -> String {
        let folder = self.folder.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        format!("postgres://rookery@{folder}:{}/rookery", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The postmaster, unless it was stopped or killed.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// What it has logged since it was created.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Runs SQL in the database `rookery` and tells what `psql` printed, without headings.
    pub fn psql(&self, sql: &str) -> Result<String> {
        programs::psql(&self.url(), sql)
    }

    /// Ends it in order, without waiting for clients to leave.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill_process(Pid::from_child(&child), Signal::INT).context("cannot signal the server")?;
        let stopped = until(STOP_LIMIT, || matches!(child.try_wait(), Ok(Some(_))));
        if stopped.is_err() {
            child.kill().and_then(|()| child.wait()).context("cannot kill the server")?;
        }
        self.undertaker.forget()?;
        stopped.with_context(|| format!("the server did not stop and was killed\n{}", self.log_tail()))
    }

    /// Ends the postmaster and all its children at once, as a power cut would.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let postmaster = Pid::from_child(&child);
        // Stopped first, it neither starts new children nor answers the death of the first.
        kill_process(postmaster, Signal::STOP).context("cannot stop the server")?;
        let children = children_of(child.id());
        for pid in children.iter().copied().chain([postmaster]) {
            // One that has just ended by itself is as dead as it should be.
            let _ended = kill_process(pid, Signal::KILL);
        }
        child.wait().context("cannot wait for the server")?;
        self.undertaker.forget()?;
        until(STOP_LIMIT, || children.iter().all(|pid| is_dead(*pid))).context("a process of the server does not die")
    }

    /// Starts it again on the same port with the same data; one that is running is stopped before.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch()
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("the server is not running")?;
        child.wait().context("cannot wait for the server")
    }

    fn create(options: Options) -> Result<Server> {
        let programs = Programs::find()?;
        let folder = new_folder()?;
        let undertaker = Undertaker::of(&folder)?;
        let mut server = Server { options, programs, folder, port: 0, child: None, undertaker };
        server.init().context("cannot create the files of a PostgreSQL server")?;
        server.launch_on_any_port()?;
        programs::psql(&server.url_of("postgres"), "CREATE DATABASE rookery").context("cannot create the database")?;
        Ok(server)
    }

    fn init(&self) -> Result<()> {
        give_away(&self.folder)?;
        let mut initdb = self.programs.server_command("initdb");
        initdb.args(["-U", "rookery", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8", "-D"]).arg(self.data());
        programs::run(initdb)?;
        for (name, contents) in &self.options.files {
            let path = self.data().join(name);
            fs::write(&path, contents).with_context(|| format!("cannot write {name}"))?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            give_away(&path)?;
        }
        Ok(())
    }

    fn launch_on_any_port(&mut self) -> Result<()> {
        for _ in 1..ATTEMPTS {
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
        let log = File::options().create(true).append(true).open(self.log_file()).context("cannot open its log")?;
        let mut command = self.programs.server_command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder).args(["-p", &self.port.to_string()]);
        for (name, value) in &self.options.settings {
            command.args(["-c", &format!("{name}={value}")]);
        }
        // A group of its own: Ctrl-C ends the tests first, and then the server.
        command.current_dir(&self.folder).process_group(0).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("cannot start postgres")?;
        self.undertaker.watch(child.id())?;
        let ready = self.await_answer(child);
        if ready.is_err() {
            self.undertaker.forget()?;
        }
        ready
    }

    /// By the socket in our own folder: behind the port there might be another server.
    fn await_answer(&mut self, mut child: Child) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            if let Some(status) = child.try_wait().context("cannot wait for the server")? {
                bail!("the server ended as soon as it was started ({status})\n{}", self.log_tail());
            }
            if self.answers() {
                self.child = Some(child);
                return Ok(());
            }
            if watch.elapsed() > START_LIMIT {
                child.kill().and_then(|()| child.wait()).context("cannot kill the server")?;
                bail!("the server did not answer within {} s\n{}", START_LIMIT.as_secs(), self.log_tail());
            }
            thread::sleep(POLL);
        }
    }

    fn answers(&self) -> bool {
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
        // The undertaker, dropped next, deals with one that does not stop, and removes the folder.
        let _stopped = self.stop();
    }
}

/// Makes a file the server's own, which is not root's.
fn give_away(path: &Path) -> Result<()> {
    if !programs::is_root() {
        return Ok(());
    }
    let mut chown = programs::quiet("chown");
    chown.arg(format!("{0}:{0}", programs::UNPRIVILEGED)).arg(path);
    programs::run(chown)?;
    Ok(())
}

/// A folder in which a socket's path is not too long. The undertaker removes it.
fn new_folder() -> Result<PathBuf> {
    let usual = std::env::temp_dir();
    let parent = if usual.as_os_str().len() > LONGEST_FOLDER { Path::new("/tmp") } else { &usual };
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

/// As Linux tells it; elsewhere none are found, and children end by themselves soon after the postmaster.
fn children_of(parent: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| status_of(*pid).is_some_and(|(_, its_parent)| its_parent == parent);
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}

/// Nobody may have collected its exit status yet: that is dead as well.
fn is_dead(pid: Pid) -> bool {
    status_of(pid.as_raw_nonzero().get()).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

/// State and parent, which follow the name in parentheses.
fn status_of(pid: i32) -> Option<(char, u32)> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = line.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

fn until(limit: Duration, mut done: impl FnMut() -> bool) -> Result<()> {
    let watch = Stopwatch::start();
    while !done() {
        ensure!(watch.elapsed() <= limit, "still waiting after {} s", limit.as_secs());
        thread::sleep(POLL);
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
