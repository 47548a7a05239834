//! SQLite's ceiling for the same rows: a thread that only writes them, many in one commit.
//!
//! Our store makes the database, and the rows are copies of those that it wrote for each agent, with the same columns, indexes
//! and bytes, even when the schema changes. The settings and the handling of the write-ahead log are the store's, too.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use anyhow::Context;
use rookery_store::sqlite::Upkeep;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tokio::sync::oneshot;

use crate::sample::Client;
use crate::work;

const BATCH: usize = 512;
const PRAGMAS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA cache_size = -32768;
    PRAGMA temp_store = MEMORY;
";

/// The rows to write repeatedly: one of the log and one of another table.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The id in the rows to replace.
    pub(crate) id: String,
    /// The seq of the log row.
    pub(crate) seq: u64,
}

/// The table of the other row, and the other changes of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) table: &'static str,
    /// The column with its position in the log.
    pub(crate) place: &'static str,
    /// The tallies that count the row.
    pub(crate) tallies: &'static str,
    pub(crate) mint: fn() -> String,
}

/// The rows of one pattern.
#[derive(Clone, Debug)]
struct Template {
    id: String,
    log: Row,
    other: Row,
}

/// A row as read from its table.
#[derive(Clone, Debug)]
struct Row {
    insert: String,
    values: Vec<Value>,
    /// The columns that increase with the log.
    counted: Vec<usize>,
}

type Rows = (Vec<Value>, Vec<Value>);

/// Rows to write in one commit, together with other waiting rows.
struct Job {
    rows: Vec<Rows>,
    reply: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(crate) struct Raw {
    jobs: Sender<Job>,
    templates: Vec<Template>,
    target: Target,
}

#[derive(Debug)]
pub(crate) struct RawClient {
    jobs: Sender<Job>,
    template: Template,
    at_once: usize,
    mint: fn() -> String,
}

impl Raw {
    /// Starts a writer for a database that our store made, with a pattern for each client.
    pub(crate) fn open(path: &Path, target: Target, patterns: Vec<Pattern>) -> anyhow::Result<Raw> {
        let connection = Connection::open(path)?;
        connection.execute_batch(PRAGMAS)?;
        let templates = patterns
            .into_iter()
            .map(|pattern| Template::read(&connection, target, pattern))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let template = templates.first().cloned().context("there is nothing to copy")?;
        let (jobs, waiting) = channel();
        let writer = Writer { connection, path: path.to_owned(), template, tallies: target.tallies, waiting };
        std::thread::Builder::new().name("raw-writer".to_owned()).spawn(move || writer.run())?;
        let (path, upkeep) = (path.to_owned(), std::thread::Builder::new().name("raw-checkpoint".to_owned()));
        upkeep.spawn(move || checkpoint(&path))?;
        Ok(Raw { jobs, templates, target })
    }

    pub(crate) fn clients(&self, count: usize) -> Vec<RawClient> {
        self.bulk_clients(count, 1)
    }

    /// Creates clients that each write this many rows at once.
    pub(crate) fn bulk_clients(&self, count: usize, at_once: usize) -> Vec<RawClient> {
        let client = |template| RawClient { jobs: self.jobs.clone(), template, at_once, mint: self.target.mint };
        self.templates.iter().take(count).cloned().map(client).collect()
    }
}

impl Template {
    fn read(connection: &Connection, target: Target, pattern: Pattern) -> anyhow::Result<Template> {
        let Pattern { id, seq } = pattern;
        Ok(Template {
            log: Row::read(connection, "log", "seq", &seq.to_string(), &["seq"])?,
            other: Row::read(connection, target.table, "key", &id, &[target.place])?,
            id,
        })
    }

    fn with_id(&self, new: &str) -> Rows {
        (self.log.with_id(&self.id, new), self.other.with_id(&self.id, new))
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

    /// Replaces the id in the row.
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
        let rows = (0..self.at_once).map(|_| self.template.with_id(&(self.mint)())).collect();
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job { rows, reply }).ok().context("the raw writer is gone")?;
        answer.await.context("the raw writer failed")
    }
}

struct Writer {
    connection: Connection,
    path: PathBuf,
    template: Template,
    tallies: &'static str,
    waiting: Receiver<Job>,
}

impl Writer {
    /// Runs until no client is left, or until the first error, which the clients then notice.
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
                    while batch.iter().map(|job| job.rows.len()).sum::<usize>() < BATCH
                        && let Ok(job) = self.waiting.try_recv()
                    {
                        batch.push(job);
                    }
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
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let (mut seq, mut replies) = (head, Vec::with_capacity(batch.len()));
        let mut log = self.connection.prepare_cached(&self.template.log.insert)?;
        let mut other = self.connection.prepare_cached(&self.template.other.insert)?;
        for Job { rows, reply } in batch {
            for (log_row, other_row) in rows {
                seq += 1;
                log.execute(params_from_iter(counted(log_row, &self.template.log, seq)))?;
                other.execute(params_from_iter(counted(other_row, &self.template.other, seq)))?;
            }
            replies.push(reply);
        }
        let tally = "UPDATE tallies SET n = n + ?1 WHERE name LIKE ?2";
        self.connection.prepare_cached(tally)?.execute((seq - head, self.tallies))?;
        self.connection.prepare_cached("UPDATE log_head SET head = ?1")?.execute([seq])?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        for reply in replies {
            // A client that stopped waiting needs no answer.
            let _ = reply.send(());
        }
        Ok(seq)
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

/// Checkpoints the write-ahead log beside the writer, as long as the process lives.
fn checkpoint(path: &Path) {
    let upkeep = Upkeep::default();
    let Ok(connection) = Connection::open(path) else { return };
    loop {
        std::thread::sleep(upkeep.every);
        if wal_bytes(path) > upkeep.above_bytes {
            // An error only leaves the log longer.
            drop(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        }
    }
}

fn wal_bytes(path: &Path) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    std::fs::metadata(name).map_or(0, |found| found.len())
}
