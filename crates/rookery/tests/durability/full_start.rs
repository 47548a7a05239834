//! A start on a full disk: the daemon serves reads, says that it is read-only, and writes once there is room.
//!
//! The disk is a small file system in memory that only the processes of a sandbox see. They share its network with the test.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use reqwest::Method;
use rookery_testkit::daemon::{HttpReply, client, read};
use serde_json::{Value, json};

use crate::wire::{code, eventually};

const DISK_BYTES: &str = "8388608";
const ROOKERY: &str = env!("CARGO_BIN_EXE_rookery");

/// A shell before a small disk that is mounted at `/tmp`.
struct SmallDisk {
    shell: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl SmallDisk {
    #[expect(clippy::disallowed_methods, reason = "this test starts the program under test on a disk of its own")]
    fn mount() -> anyhow::Result<SmallDisk> {
        let mut shell = Command::new("bwrap")
            .args(["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--unshare-pid", "--proc", "/proc"])
            .args(["--die-with-parent", "--size", DISK_BYTES, "--tmpfs", "/tmp", "--chdir", "/tmp", "sh"])
            .env_remove("ROOKERY_DIR")
            .env_remove("ROOKERY_STORE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start bubblewrap")?;
        let input = shell.stdin.take().context("no input")?;
        let output = BufReader::new(shell.stdout.take().context("no output")?).lines();
        Ok(SmallDisk { shell, input, output })
    }

    /// Runs a command, and returns its output.
    fn run(&mut self, command: &str) -> anyhow::Result<String> {
        writeln!(self.input, "{command} 2>&1; echo; echo --- done")?;
        let mut text = String::new();
        loop {
            match self.output.next().context("the shell ended")?? {
                line if line == "--- done" => return Ok(text),
                line => text = text + &line + "\n",
            }
        }
    }

    /// Starts a daemon, and returns its address.
    fn up(&mut self) -> anyhow::Result<String> {
        let text = self.run(&format!("{ROOKERY} up --background --port 0 --no-watch"))?;
        let url = text.lines().find_map(|line| line.strip_prefix("listening on "));
        url.map(str::to_owned).with_context(|| format!("the daemon did not start: {text}"))
    }

    fn down(&mut self) -> anyhow::Result<()> {
        let text = self.run(&format!("{ROOKERY} down"))?;
        ensure!(text.contains("stopped the daemon"), "{text}");
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Its processes end with it.
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

async fn call(method: Method, url: &str, body: Value) -> anyhow::Result<HttpReply> {
    let request = client()?.request(method, url);
    read(if body.is_null() { request } else { request.json(&body) }).await
}

async fn create_task(url: &str) -> anyhow::Result<HttpReply> {
    call(Method::POST, &format!("{url}/tasks"), json!({ "title": "a task", "assigned_by": "w1" })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_on_a_full_disk_starts_read_only_and_recovers_without_a_restart() -> anyhow::Result<()> {
    let mut disk = SmallDisk::mount()?;
    let url = disk.up()?;
    let announced =
        call(Method::POST, &format!("{url}/agents/announce"), json!({ "id": "w1", "tool": "test" })).await?;
    ensure!(announced.status.is_success(), "{announced:?}");
    for _ in 0..3 {
        ensure!(create_task(&url).await?.status.as_u16() == 201);
    }
    disk.down()?;
    disk.run("cat /dev/zero > filler")?;
    // Twice: the first start must leave enough room for the second.
    for _ in 0..2 {
        let url = disk.up()?;
        let refused = create_task(&url).await?;
        ensure!(refused.status.as_u16() == 503 && code(&refused) == "STORE_UNAVAILABLE", "{refused:?}");
        let ready = call(Method::GET, &format!("{url}/readyz"), Value::Null).await?;
        ensure!(ready.status.as_u16() == 503 && code(&ready) == "STORE_UNAVAILABLE", "{ready:?}");
        let tasks = call(Method::GET, &format!("{url}/tasks"), Value::Null).await?;
        ensure!(tasks.body.as_array().map(Vec::len) == Some(3), "reads must work: {tasks:?}");
        let status = disk.run(&format!("{ROOKERY} status"))?;
        ensure!(status.contains("the store cannot write"), "{status}");
        disk.down()?;
    }
    let url = disk.up()?;
    ensure!(create_task(&url).await?.status.as_u16() == 503);
    disk.run("rm filler")?;
    let ready = || async {
        Ok(call(Method::GET, &format!("{url}/readyz"), Value::Null).await?.status.is_success().then_some(()))
    };
    eventually("the store to be writable", ready).await?;
    ensure!(create_task(&url).await?.status.as_u16() == 201);
    let log = disk.run("cat .rookery/log/daemon.log")?;
    ensure!(!log.contains("panicked"), "{log}");
    disk.down()
}
