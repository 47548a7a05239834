//! PostgreSQL's ceiling for the same rows in the same order: a task that locks the head row, writes all waiting rows with
//! `UNNEST`, and commits. A batch takes two round trips, without reads, decisions, encoding or notifications.
//!
//! Our store makes the schema, and the rows are copies of those that it wrote for a task of each agent.

use std::time::Duration;

use anyhow::{Context, bail};
use rookery_core::TaskId;
use rookery_store::Store;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client as Database, NoTls, Row, Statement};

use super::{Databases, MOST};
use crate::sample::Client;
use crate::work::{self, Order};

const BATCH: usize = 512;
const SCHEMA: &str = "SET search_path = rookery; SET synchronous_commit = on; SET jit = off";
const LOCK: &str = "SELECT head FROM log_head FOR UPDATE";
const TALLY: &str = "UPDATE tallies SET n = n + $1 WHERE name LIKE 'tasks%'";
const MOVE_HEAD: &str = "UPDATE log_head SET head = $1";
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
enum Value {
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Long(Option<i64>),
    Int(Option<i32>),
}

/// The rows of one agent's task, and the id in them to replace.
#[derive(Clone, Debug)]
struct Template {
    id: String,
    log: Vec<Value>,
    task: Vec<Value>,
}

/// The insertion of rows into a table.
#[derive(Debug)]
struct Insert {
    sql: String,
    /// The columns that increase with the log.
    counted: Vec<usize>,
}

struct Job {
    log: Vec<Value>,
    task: Vec<Value>,
    reply: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) struct Raw {
    jobs: mpsc::UnboundedSender<Job>,
    templates: Vec<Template>,
}

#[derive(Debug)]
pub(super) struct RawClient {
    jobs: mpsc::UnboundedSender<Job>,
    template: Template,
}

impl Raw {
    pub(super) fn open(databases: &Databases, load: &Runtime) -> anyhow::Result<Raw> {
        let url = databases.create("raw")?;
        let (templates, log, task) = load.block_on(seed(&url))?;
        let (jobs, waiting) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("raw-postgres".to_owned());
        // Ends when no client is left, or at the first error, which the clients then notice.
        thread.spawn(move || drop(runtime.block_on(write(&url, &log, &task, waiting))))?;
        Ok(Raw { jobs, templates })
    }

    pub(super) fn clients(&self, count: usize) -> Vec<RawClient> {
        let templates = self.templates.iter().take(count).cloned();
        templates.map(|template| RawClient { jobs: self.jobs.clone(), template }).collect()
    }
}

impl Client for RawClient {
    async fn act(&mut self) -> anyhow::Result<()> {
        let (id, old) = (work::mint(), &self.template.id);
        let (reply, answer) = oneshot::channel();
        let (log, task) = (with_id(&self.template.log, old, &id), with_id(&self.template.task, old, &id));
        self.jobs.send(Job { log, task, reply }).ok().context("the raw writer is gone")?;
        tokio::time::timeout(ANSWERS_WITHIN, answer).await?.context("the raw writer failed")
    }
}

/// Makes the schema with our store, and writes a task of each agent.
async fn seed(url: &str) -> anyhow::Result<(Vec<Template>, Insert, Insert)> {
    let store = work::open_postgres(url).await?;
    work::announce(&store, MOST).await?;
    let mut tasks = Vec::new();
    for at in 0..MOST {
        let id = work::mint();
        store.submit(Order::by(at).create(id.clone())).await?;
        tasks.push(id);
    }
    store.close().await;
    let database = connect(url).await?;
    let log = database.prepare("SELECT * FROM log WHERE task = $1").await?;
    let task = database.prepare("SELECT * FROM tasks WHERE key = $1").await?;
    let mut templates = Vec::new();
    for id in tasks {
        templates.push(Template {
            log: values(&database.query_one(&log, &[&id.as_str()]).await?)?,
            task: values(&database.query_one(&task, &[&id.as_str()]).await?)?,
            id: id.to_string(),
        });
    }
    Ok((templates, Insert::into("log", &log, "seq")?, Insert::into("tasks", &task, "created")?))
}

async fn connect(url: &str) -> anyhow::Result<Database> {
    let (database, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    database.batch_execute(SCHEMA).await?;
    Ok(database)
}

impl Insert {
    fn into(table: &str, found: &Statement, counted: &str) -> anyhow::Result<Insert> {
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (at, column) in found.columns().iter().enumerate() {
            names.push(column.name());
            places.push(format!("${}::{}[]", at + 1, column.type_()));
        }
        let (columns, places) = (names.join(", "), places.join(", "));
        let sql = format!("INSERT INTO {table} ({columns}) SELECT * FROM unnest({places})");
        let counted = (0..names.len()).filter(|at| names[*at] == counted).collect();
        Ok(Insert { sql, counted })
    }

    /// Converts rows to columns, with their positions in the log.
    fn columns(&self, rows: Vec<Vec<Value>>, first: i64) -> Vec<Box<dyn ToSql + Sync + Send>> {
        let mut columns: Vec<Vec<Value>> = vec![Vec::with_capacity(rows.len()); rows.first().map_or(0, Vec::len)];
        for (seq, row) in (first..).zip(rows) {
            for (at, value) in row.into_iter().enumerate() {
                columns[at].push(if self.counted.contains(&at) { Value::Long(Some(seq)) } else { value });
            }
        }
        columns.into_iter().map(array).collect()
    }
}

fn array(column: Vec<Value>) -> Box<dyn ToSql + Sync + Send> {
    macro_rules! all {
        ($kind:path) => {
            Box::new(
                column.into_iter().map(|value| if let $kind(value) = value { value } else { None }).collect::<Vec<_>>(),
            )
        };
    }
    match column.first() {
        Some(Value::Bytes(_)) => all!(Value::Bytes),
        Some(Value::Long(_)) => all!(Value::Long),
        Some(Value::Int(_)) => all!(Value::Int),
        Some(Value::Text(_)) | None => all!(Value::Text),
    }
}

fn values(row: &Row) -> anyhow::Result<Vec<Value>> {
    let value = |(at, column): (usize, &tokio_postgres::Column)| {
        Ok(match *column.type_() {
            Type::TEXT => Value::Text(row.try_get(at)?),
            Type::BYTEA => Value::Bytes(row.try_get(at)?),
            Type::INT8 => Value::Long(row.try_get(at)?),
            Type::INT4 => Value::Int(row.try_get(at)?),
            ref other => bail!("{} is a {other}", column.name()),
        })
    };
    row.columns().iter().enumerate().map(value).collect()
}

/// Replaces the id in the row.
fn with_id(values: &[Value], old: &str, new: &TaskId) -> Vec<Value> {
    let replaced = |value: &Value| match value {
        Value::Text(Some(text)) if text.contains(old) => Value::Text(Some(text.replace(old, new.as_str()))),
        Value::Bytes(Some(bytes)) => Value::Bytes(Some(work::replaced(bytes, old.as_bytes(), new.as_str().as_bytes()))),
        other => other.clone(),
    };
    values.iter().map(replaced).collect()
}

async fn write(
    url: &str,
    log: &Insert,
    task: &Insert,
    mut waiting: mpsc::UnboundedReceiver<Job>,
) -> anyhow::Result<()> {
    let database = connect(url).await?;
    let statements = Statements {
        lock: database.prepare(LOCK).await?,
        log: database.prepare(&log.sql).await?,
        task: database.prepare(&task.sql).await?,
        tally: database.prepare(TALLY).await?,
        head: database.prepare(MOVE_HEAD).await?,
    };
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        let (mut logs, mut tasks, mut replies) = (Vec::new(), Vec::new(), Vec::new());
        for job in batch.drain(..) {
            logs.push(job.log);
            tasks.push(job.task);
            replies.push(job.reply);
        }
        let (_, locked) = tokio::try_join!(database.batch_execute("BEGIN"), database.query_one(&statements.lock, &[]))?;
        let head: i64 = locked.try_get(0)?;
        let count = i64::try_from(replies.len())?;
        let newest = head + count;
        let (logs, tasks) = (log.columns(logs, head + 1), task.columns(tasks, head + 1));
        let (logs, tasks) = (borrowed(&logs), borrowed(&tasks));
        let (tally, moved): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 1]) = ([&count], [&newest]);
        tokio::try_join!(
            database.execute(&statements.log, &logs),
            database.execute(&statements.task, &tasks),
            database.execute(&statements.tally, &tally),
            database.execute(&statements.head, &moved),
            database.batch_execute("COMMIT"),
        )?;
        for reply in replies {
            // A client that stopped waiting needs no answer.
            let _ = reply.send(());
        }
    }
    Ok(())
}

struct Statements {
    lock: Statement,
    log: Statement,
    task: Statement,
    tally: Statement,
    head: Statement,
}

fn borrowed(params: &[Box<dyn ToSql + Sync + Send>]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|param| param.as_ref() as &(dyn ToSql + Sync)).collect()
}
