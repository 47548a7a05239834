//! The thread that starts programs.
//!
//! A process that asked to be ended with its parent is ended with the *thread* that made it. Threads of a runtime come and go;
//! this one stays as long as the process does.

use std::io;
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct Job {
    command: Command,
    /// Whose child it will be.
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

/// Starts a program from the thread that stays.
pub(super) async fn spawn(command: Command) -> io::Result<Child> {
    let (started, answer) = oneshot::channel();
    hand_over(Job { command, runtime: Handle::current(), started })?;
    answer.await.unwrap_or_else(|_| Err(gone()))
}

fn hand_over(job: Job) -> io::Result<()> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel();
        // Without a thread the first job is told that nobody takes it.
        drop(thread::Builder::new().name("spawner".to_owned()).spawn(move || work(&jobs)));
        Mutex::new(sender)
    });
    let sent = spawner.lock().unwrap_or_else(PoisonError::into_inner).send(job);
    sent.map_err(|_| gone())
}

fn work(jobs: &mpsc::Receiver<Job>) {
    while let Ok(mut job) = jobs.recv() {
        let _within = job.runtime.enter();
        // Whoever does not wait any more drops it, and that ends it.
        drop(job.started.send(job.command.spawn()));
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts programs is gone")
}
