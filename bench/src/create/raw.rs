//! What SQLite can do at best with the same rows: a thread that does nothing but write them, many in one commit.
//!
//! The database is made by our own store, and the rows are copies of what it wrote for a task of each agent: the same
//! columns, indexes and bytes, whatever the schema becomes. The settings and the care for the write-ahead log are the
//! store's, too.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use anyhow::Context;
use rookery_core::TaskId;
use rookery_store::Store;
use rookery_store::sqlite::Upkeep;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::MOST;
use crate::sample::Client;
use crate::work::{self, Order};

const BATCH: usize = 512;
const PRAGMAS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -32768;
    PRAGMA temp_store = MEMORY;
";

/// The rows of one agent's task, and the id in them that another takes the place of.
#[derive(Clone, Debug)]
struct Template {
    id: String,
    log: Row,
    task: Row,
}

/// A row as it was found in its table.
#[derive(Clone, Debug)]
struct Row {
    insert: String,
    values: Vec<Value>,
    /// Columns that count up with the log.
    counted: Vec<usize>,
}

type Job = (Vec<Value>, Vec<Value>, oneshot::Sender<()>);

#[derive(Debug)]
pub(super) struct Raw {
    jobs: Sender<Job>,
    templates: Vec<Template>,
}

#[derive(Debug)]
pub(super) struct RawClient {
    jobs: Sender<Job>,
    template: Template,
}

impl Raw {
    pub(super) fn open(folder: &Path, load: &Runtime) -> anyhow::Result<Raw> {
        let path = folder.join("raw.db");
        let tasks = load.block_on(seed(&path))?;
        let connection = Connection::open(&path)?;
        connection.execute_batch(PRAGMAS)?;
        let templates =
            tasks.into_iter().map(|id| Template::read(&connection, id)).collect::<anyhow::Result<Vec<_>>>()?;
        let template = templates.first().cloned().context("there is no task to copy")?;
        let (jobs, waiting) = channel();
        let writer = Writer { connection, path: path.clone(), template, waiting };
        std::thread::Builder::new().name("raw-writer".to_owned()).spawn(move || writer.run())?;
        let upkeep = std::thread::Builder::new().name("raw-checkpoint".to_owned());
        upkeep.spawn(move || checkpoint(&path))?;
        Ok(Raw { jobs, templates })
    }

    pub(super) fn clients(&self, count: usize) -> Vec<RawClient> {
        let templates = self.templates.iter().take(count).cloned();
        templates.map(|template| RawClient { jobs: self.jobs.clone(), template }).collect()
    }
}

/// Lets the store make the database and write a task of each agent into it.
async fn seed(path: &Path) -> anyhow::Result<Vec<TaskId>> {
    let store = work::open(path)?;
    work::announce(&store, MOST).await?;
    let mut tasks = Vec::new();
    for at in 0..MOST {
        let id = work::mint();
        store.submit(Order::by(at).create(id.clone())).await?;
        tasks.push(id);
    }
    store.close().await;
    Ok(tasks)
}

impl Template {
    fn read(connection: &Connection, id: TaskId) -> anyhow::Result<Template> {
        let id = id.to_string();
        Ok(Template {
            log: Row::read(connection, "log", "task", &id, &["seq"])?,
            task: Row::read(connection, "tasks", "key", &id, &["created"])?,
            id,
        })
    }
}

impl Row {
    fn read(connection: &Connection, table: &str, by: &str, id: &str, counted: &[&str]) -> anyhow::Result<Row> {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table} WHERE {by} = ?1"))?;
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let values = statement.query_row([id], |row| (0..names.len()).map(|at| row.get(at)).collect())?;
        let places = vec!["?"; names.len()].join(", ");
        let insert = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
        let counted = (0..names.len()).filter(|at| counted.contains(&names[*at].as_str())).collect();
        Ok(Row { insert, values, counted })
    }

    /// The row with another id in it.
    fn with_id(&self, old: &str, new: &str) -> Vec<Value> {
        self.values
            .iter()
            .map(|value| match value {
                Value::Text(text) if text.contains(old) => Value::Text(text.replace(old, new)),
                Value::Blob(bytes) => Value::Blob(work::replaced(bytes, old.as_bytes(), new.as_bytes())),
                other => other.clone(),
            })
            .collect()
    }
}

impl Client for RawClient {
    async fn act(&mut self) -> anyhow::Result<()> {
        let id = work::mint();
        let log = self.template.log.with_id(&self.template.id, id.as_str());
        let task = self.template.task.with_id(&self.template.id, id.as_str());
        let (reply, answer) = oneshot::channel();
        self.jobs.send((log, task, reply)).ok().context("the raw writer is gone")?;
        answer.await.context("the raw writer failed")
    }
}

struct Writer {
    connection: Connection,
    path: PathBuf,
    template: Template,
    waiting: Receiver<Job>,
}

impl Writer {
    /// Ends when no client is left, or at the first failure, which the clients then notice.
    fn run(self) {
        drop(self.work());
    }

    fn work(&self) -> rusqlite::Result<()> {
        let upkeep = Upkeep::default();
        let mut head: i64 = self.connection.query_row("SELECT head FROM log_head", [], |row| row.get(0))?;
        loop {
            match self.waiting.recv_timeout(upkeep.idle) {
                Ok(first) => {
                    let mut batch = vec![first];
                    batch.extend(self.waiting.try_iter().take(BATCH - 1));
                    head = self.commit(batch, head)?;
                    if wal_bytes(&self.path) > upkeep.bound_bytes {
                        self.reset()?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.reset()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn commit(&self, batch: Vec<Job>, head: i64) -> rusqlite::Result<i64> {
        let count = batch.len() as i64;
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut replies = Vec::with_capacity(batch.len());
        let mut log = self.connection.prepare_cached(&self.template.log.insert)?;
        let mut task = self.connection.prepare_cached(&self.template.task.insert)?;
        for (seq, (log_row, task_row, reply)) in (head + 1..).zip(batch) {
            log.execute(params_from_iter(counted(log_row, &self.template.log, seq)))?;
            task.execute(params_from_iter(counted(task_row, &self.template.task, seq)))?;
            replies.push(reply);
        }
        self.connection.prepare_cached("UPDATE tallies SET n = n + ?1 WHERE name LIKE 'tasks%'")?.execute([count])?;
        self.connection.prepare_cached("UPDATE log_head SET head = ?1")?.execute([head + count])?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        for reply in replies {
            // Whoever no longer waits needs no answer.
            let _ = reply.send(());
        }
        Ok(head + count)
    }

    fn reset(&self) -> rusqlite::Result<()> {
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }
}

fn counted(mut values: Vec<Value>, row: &Row, seq: i64) -> Vec<Value> {
    for at in &row.counted {
        values[*at] = Value::Integer(seq);
    }
    values
}

/// Moves the write-ahead log into the database beside the writer, for as long as the process lives.
fn checkpoint(path: &Path) {
    let upkeep = Upkeep::default();
    let Ok(connection) = Connection::open(path) else { return };
    loop {
        std::thread::sleep(upkeep.every);
        if wal_bytes(path) > upkeep.above_bytes {
            // A failure only leaves the log longer.
            drop(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        }
    }
}

fn wal_bytes(path: &Path) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    std::fs::metadata(name).map_or(0, |found| found.len())
}
