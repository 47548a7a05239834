//! A real daemon for one test: the real program, on a free port, in its own folder.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::{Method, RequestBuilder, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::postgres::Schema;

/// The environment variable with the storage engine for tests that name no store: `postgres` or `sqlite` (the default).
pub const STORE: &str = "ROOKERY_TEST_STORE";

/// A storage engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    /// The engine that [`STORE`] names.
    pub fn from_env() -> anyhow::Result<Engine> {
        match std::env::var(STORE).as_deref() {
            Ok("postgres") => Ok(Engine::Postgres),
            Ok("sqlite" | "") | Err(_) => Ok(Engine::Sqlite),
            Ok(other) => bail!("unknown storage engine {other} in {STORE}; set it to postgres or sqlite"),
        }
    }
}

/// The program, arguments and environment of a daemon.
#[derive(Clone, Debug)]
pub struct Setup {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Setup {
    /// `program` is the `rookery` binary under test: `env!("CARGO_BIN_EXE_rookery")`.
    pub fn new(program: impl Into<PathBuf>) -> Setup {
        Setup { program: program.into(), args: vec![], env: vec![] }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Setup {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Setup {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Uses the store with this URL instead of the one that [`STORE`] names.
    #[must_use]
    pub fn store(self, url: impl Into<String>) -> Setup {
        self.arg("--store").arg(url)
    }

    /// Starts the daemon in a new temporary project folder.
    pub fn start(self) -> anyhow::Result<Daemon> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().canonicalize()?;
        self.start_in(root, Some(folder))
    }

    /// Starts the daemon in an existing folder.
    pub fn start_at(self, root: &Path) -> anyhow::Result<Daemon> {
        self.start_in(root.canonicalize()?, None)
    }

    fn start_in(self, root: PathBuf, folder: Option<tempfile::TempDir>) -> anyhow::Result<Daemon> {
        let (setup, schema) = self.with_default_store()?;
        let (child, url) = setup.launch(&root)?;
        Ok(Daemon { setup, root, _folder: folder, schema, child: Some(child), url, http: client()? })
    }

    /// Sets the store that [`STORE`] names, unless the test names one. In PostgreSQL that is a new schema.
    fn with_default_store(self) -> anyhow::Result<(Setup, Option<Schema>)> {
        if self.named_store().is_some() {
            return Ok((self, None));
        }
        match Engine::from_env()? {
            Engine::Postgres => {
                let schema = Schema::new()?;
                Ok((self.store(schema.url()), Some(schema)))
            }
            Engine::Sqlite => Ok((self, None)),
        }
    }

    fn named_store(&self) -> Option<&str> {
        let next = self.args.iter().skip_while(|arg| *arg != "--store").nth(1);
        let joined = self.args.iter().find_map(|arg| arg.strip_prefix("--store="));
        let by_env = self.env.iter().find(|(name, _)| name == "ROOKERY_STORE").map(|(_, url)| url.as_str());
        next.map(String::as_str).or(joined).or(by_env)
    }

    #[expect(clippy::disallowed_methods, reason = "this module starts the program under test")]
    fn launch(&self, root: &Path) -> anyhow::Result<(Child, String)> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(root.join("daemon.stderr"))?;
        let mut child = Command::new(&self.program)
            .args(["up", "--port", "0", "--dir"])
            .arg(root)
            .args(&self.args)
            .env_remove("ROOKERY_DIR")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start the daemon")?;
        let mut first_line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut first_line)?;
        }
        match first_line.trim().strip_prefix("listening on ") {
            Some(url) => Ok((child, url.to_owned())),
            None => {
                let status = child.wait()?;
                let stderr = std::fs::read_to_string(root.join("daemon.stderr")).unwrap_or_default();
                bail!("the daemon did not start ({status}); it printed {first_line:?} and:\n{stderr}")
            }
        }
    }
}

/// A running daemon, killed when it is dropped.
#[derive(Debug)]
pub struct Daemon {
    setup: Setup,
    root: PathBuf,
    _folder: Option<tempfile::TempDir>,
    schema: Option<Schema>,
    child: Option<Child>,
    url: String,
    http: reqwest::Client,
}

/// An HTTP response. A body that is not JSON is `Null`.
#[derive(Clone, Debug)]
pub struct HttpReply {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Daemon {
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The URL of the daemon's store, if it was named.
    pub fn store(&self) -> Option<&str> {
        self.setup.named_store()
    }

    /// The schema that was created because [`STORE`] names PostgreSQL.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The key that authenticates a person.
    pub fn person_key(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.root.join(".rookery/person.key"))?.trim().to_owned())
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<HttpReply> {
        read(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> anyhow::Result<HttpReply> {
        read(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> anyhow::Result<HttpReply> {
        read(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> anyhow::Result<HttpReply> {
        read(self.request(Method::DELETE, path)).await
    }

    /// Kills the process, as a power cut would.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Suspends the process, as a sleeping machine does, until [`Daemon::resume`] or [`Daemon::kill`].
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes a paused process.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("the daemon is not running")?;
        kill_process(Pid::from_child(child), signal).context("cannot signal the daemon")
    }

    /// Asks the daemon to stop, waits for its end, and returns its exit code.
    #[expect(clippy::disallowed_methods, reason = "this module starts the program under test")]
    pub fn stop(&mut self) -> anyhow::Result<Option<i32>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
        Ok(child.wait()?.code())
    }

    /// Runs `rookery replay --verify`, which compares the tables with the log.
    #[expect(clippy::disallowed_methods, reason = "this module starts the program under test")]
    pub fn replay_verify(&self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.setup.program);
        command.args(["replay", "--verify", "--dir"]).arg(&self.root).env_remove("ROOKERY_DIR");
        let output = command.envs(self.store().map(|url| ("ROOKERY_STORE", url))).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "rookery replay --verify failed: {stderr}");
        Ok(())
    }

    /// Returns the log rows that `rookery export` writes.
    #[expect(clippy::disallowed_methods, reason = "this module starts the program under test")]
    pub fn export(&self) -> anyhow::Result<Vec<Value>> {
        let mut command = Command::new(&self.setup.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROOKERY_")) {
            command.env_remove(name);
        }
        command.arg("export").current_dir(&self.root);
        let output = command.envs(self.store().map(|url| ("ROOKERY_STORE", url))).output()?;
        ensure!(output.status.success(), "rookery export failed: {}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout)?;
        let rows = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        // The first line describes the file; it is not a row.
        Ok(rows.into_iter().filter(|row| row.get("seq").is_some()).collect())
    }

    /// Kills the daemon and starts it again in the same folder and on the same store, on another port.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let (child, url) = self.setup.launch(&self.root)?;
        self.child = Some(child);
        self.url = url;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A test that failed must not leave a process behind.
        drop(self.kill());
    }
}

/// Sends a request and reads the whole response.
pub async fn read(request: RequestBuilder) -> anyhow::Result<HttpReply> {
    let response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await?;
    Ok(HttpReply { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
}

/// Creates an HTTP client with timeouts, so that a test fails instead of hanging.
pub fn client() -> anyhow::Result<reqwest::Client> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let builder = reqwest::Client::builder().connect_timeout(Duration::from_secs(5)).no_proxy();
    // The daemon closes connections that are idle for ten seconds. A shorter timeout here never sends a request into a
    // connection that is about to close.
    Ok(builder.pool_idle_timeout(Duration::from_secs(4)).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_with_store_keeps_it() {
        let setup = || Setup::new("rookery");
        assert_eq!(setup().arg("--no-watch").named_store(), None);
        assert_eq!(setup().store("memory:").arg("--no-watch").named_store(), Some("memory:"));
        assert_eq!(setup().arg("--store=memory:").named_store(), Some("memory:"));
        assert_eq!(setup().env("ROOKERY_STORE", "memory:").named_store(), Some("memory:"));
    }
}
