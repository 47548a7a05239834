//! The thread that starts programs.
//!
//! The kernel ends a process with the *thread* of the parent that created it. Threads of the runtime come and go; this one lives
//! as long as the process.

use std::io;
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct SpawnJob {
    command: Command,
    /// The runtime that will wait for the child.
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

/// Starts a program from the permanent thread.
pub(super) async fn spawn(command: Command) -> io::Result<Child> {
    let (started, answer) = oneshot::channel();
    hand_over(SpawnJob { command, runtime: Handle::current(), started })?;
    answer.await.unwrap_or_else(|_| Err(gone()))
}

fn hand_over(job: SpawnJob) -> io::Result<()> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<SpawnJob>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel();
        // If the thread cannot be created, its channel is closed and every job fails.
        drop(thread::Builder::new().name("spawner".to_owned()).spawn(move || work(&jobs)));
        Mutex::new(sender)
    });
    let sent = spawner.lock().unwrap_or_else(PoisonError::into_inner).send(job);
    sent.map_err(|_| gone())
}

fn work(jobs: &mpsc::Receiver<SpawnJob>) {
    while let Ok(mut job) = jobs.recv() {
        let guard = job.runtime.enter();
        // If the caller no longer waits, the child is dropped, and that kills it.
        drop(job.started.send(job.command.spawn()));
        drop(guard);
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts programs has ended")
}
