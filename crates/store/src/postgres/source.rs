//! A schema as it is at one moment, for work on the whole of it.

use std::sync::Arc;

use deadpool_postgres::ClientWrapper;
use rookery_core::{Key, Seq, Table};
use tokio::runtime::Handle;

use super::connection::{Connector, Frame, HEAD, LOCKED_HEAD, NOW, Param, Question, ask, some_text, stored, text};
use super::error::{OpenError, Problem};
use super::migrate::{self, Found, MIGRATIONS};
use super::{log, schema, transact};
use crate::artifact::{ArtifactError, Hashing};
use crate::node::LEASE;
use crate::offline::{DerivedRow, OfflineError, Origin, ProjectName, RawRow, Reply, Snapshot, Source, Take};
use crate::operational::{EndpointCursor, PresenceRecord, Token};
use crate::store::Tallies;

/// A connection for a thread that may block.
pub(super) struct Session {
    handle: Handle,
    pub(super) client: ClientWrapper,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn open(connector: &Connector) -> Result<Session, OfflineError> {
        let handle = Handle::current();
        let client = handle.block_on(connector.patient()).map_err(|error| OpenError::Unreachable {
            address: connector.address().to_string(),
            reason: Problem::Sql(error).to_string(),
        })?;
        Ok(Session { handle, client })
    }

    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    pub(super) fn run(&self, sql: &str) -> Result<(), OfflineError> {
        Ok(self.wait(self.client.batch_execute(sql)).map_err(Problem::from)?)
    }

    pub(super) fn ask(&self, questions: &[Question]) -> Result<Vec<Vec<tokio_postgres::Row>>, OfflineError> {
        Ok(self.wait(ask(&self.client, Frame::Bare, questions)).map_err(Problem::from)?)
    }

    pub(super) fn one(&self, question: Question) -> Result<Vec<tokio_postgres::Row>, OfflineError> {
        Ok(self.ask(&[question])?.pop().unwrap_or_default())
    }
}

/// A transaction that lasts, and sees one moment.
#[derive(Debug)]
pub struct PostgresSource {
    session: Arc<Session>,
    snapshot: Snapshot,
}

impl PostgresSource {
    pub(super) fn open(connector: &Connector) -> Result<PostgresSource, OfflineError> {
        let session = Session::open(connector)?;
        refuse_absent(&session, connector)?;
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        PostgresSource::over(Arc::new(session))
    }

    /// What the open transaction of a session sees.
    pub(super) fn over(session: Arc<Session>) -> Result<PostgresSource, OfflineError> {
        let found = stored(&session.one(Question::new(HEAD, vec![]))?)?;
        let name = session.one(Question::new("SELECT project FROM log_head", vec![]))?;
        let name = name.first().map(|row| text(row, 0)).transpose()?.unwrap_or_default();
        let snapshot = Snapshot {
            head: found.head,
            format: found.format,
            project: ProjectName { id: meta(&session, "project_id")?, name },
            moved_to: found.moved_to,
        };
        Ok(PostgresSource { session, snapshot })
    }
}

fn refuse_absent(session: &Session, connector: &Connector) -> Result<(), OfflineError> {
    let address = connector.address();
    match session.wait(migrate::version(&session.client, address, MIGRATIONS))? {
        Found::Version(_) => Ok(()),
        Found::Development => Err(OpenError::Development { schema: address.schema().to_owned() }.into()),
        Found::Nothing | Found::Foreign => {
            Err(OpenError::Absent { address: address.to_string(), schema: address.schema().to_owned() }.into())
        }
    }
}

fn meta(session: &Session, name: &'static str) -> Result<Option<String>, OfflineError> {
    let found = session.one(Question::new("SELECT value FROM meta WHERE name = $1", vec![Box::new(name)]))?;
    Ok(found.first().map(|row| text(row, 0)).transpose()?)
}

impl Source for PostgresSource {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn log(&mut self, after: Seq, limit: u32) -> Result<Vec<RawRow>, OfflineError> {
        Ok(log::raw(&self.session.one(log::read_raw(after, limit))?)?)
    }

    fn rows(&mut self, table: Table, after: Option<&Key>, limit: u32) -> Result<Vec<DerivedRow>, OfflineError> {
        let after = after.map(Key::id).unwrap_or_default();
        Ok(schema::with_columns(table, &self.session.one(schema::page(table, &after, limit.into()))?)?)
    }

    fn tallies(&mut self) -> Result<Tallies, OfflineError> {
        Ok(transact::tallies(&self.session.one(Question::new(transact::ALL_TALLIES, vec![]))?)?)
    }

    fn artifact(&mut self, sha256: &str, take: &mut Take<'_>) -> Result<(), OfflineError> {
        let name = || -> Param { Box::new(sha256.to_owned()) };
        let there = Question::new("SELECT blob FROM artifacts WHERE sha256 = $1", vec![name()]);
        let there = self.session.one(there)?;
        let Some(row) = there.first() else { return Err(ArtifactError::Absent { sha256: sha256.to_owned() }.into()) };
        let blob: String = row.try_get(0).map_err(Problem::from)?;
        let (mut hashing, mut n) = (Hashing::default(), 0_i32);
        let sql = "SELECT data FROM artifact_chunks WHERE blob = $1 AND n = $2";
        loop {
            let rows = self.session.one(Question::new(sql, vec![Box::new(blob.clone()), Box::new(n)]))?;
            let Some(row) = rows.first() else { break };
            let data: &[u8] = row.try_get(0).map_err(Problem::from)?;
            hashing.add(data);
            take(data)?;
            n += 1;
        }
        if hashing.hex() != sha256 {
            return Err(ArtifactError::Damaged { sha256: sha256.to_owned() }.into());
        }
        Ok(())
    }

    fn artifacts(&mut self) -> Result<Vec<String>, OfflineError> {
        let rows = self.session.one(Question::new("SELECT sha256 FROM artifacts ORDER BY sha256", vec![]))?;
        let names = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>();
        Ok(names.map_err(Problem::from)?)
    }

    fn tokens(&mut self) -> Result<Vec<Token>, OfflineError> {
        Ok(transact::tokens(&self.session.one(Question::new(transact::ALL_TOKENS, vec![]))?)?)
    }

    fn outboxes(&mut self) -> Result<Vec<EndpointCursor>, OfflineError> {
        Ok(transact::outboxes(&self.session.one(Question::new(transact::ALL_OUTBOXES, vec![]))?)?)
    }

    fn presence(&mut self) -> Result<Vec<PresenceRecord>, OfflineError> {
        Ok(transact::signs(&self.session.one(Question::new(transact::ALL_PRESENCE, vec![]))?)?)
    }

    fn replies(&mut self, after: Option<&Reply>, limit: u32) -> Result<Vec<Reply>, OfflineError> {
        Ok(transact::replies(&self.session.one(transact::page_of_replies(after, limit))?)?)
    }
}

/// A store that nobody else writes: the head is locked on one connection and read on another.
#[derive(Debug)]
pub struct PostgresOrigin {
    source: PostgresSource,
    lock: Session,
}

impl PostgresOrigin {
    pub(super) fn open(connector: &Connector) -> Result<PostgresOrigin, OfflineError> {
        let lock = Session::open(connector)?;
        refuse_absent(&lock, connector)?;
        hold(&lock)?;
        let lease = LEASE.as_millis();
        let sql = format!("SELECT host, pid, url FROM nodes WHERE seen_at > {NOW} - {lease} ORDER BY started_at");
        if let Some(row) = lock.one(Question::new(sql, vec![]))?.first() {
            let (host, pid) = (text(row, 0)?, row.try_get::<_, i64>(1).map_err(Problem::from)?);
            let url = some_text(row, 2)?.map(|url| format!(" at {url}")).unwrap_or_default();
            return Err(OfflineError::InUse { by: format!("process {pid} on {host}{url}") });
        }
        // Read after the lock: nothing was added since.
        Ok(PostgresOrigin { source: PostgresSource::open(connector)?, lock })
    }

    fn write(&mut self, question: Question) -> Result<(), OfflineError> {
        self.lock.ask(&[question])?;
        self.lock.run("COMMIT")?;
        hold(&self.lock)
    }
}

fn hold(session: &Session) -> Result<(), OfflineError> {
    session.run("BEGIN")?;
    session.run("SET LOCAL lock_timeout = '12s'")?;
    session.one(Question::new(LOCKED_HEAD, vec![])).map(drop)
}

impl Origin for PostgresOrigin {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    fn leave(&mut self, to: &str) -> Result<(), OfflineError> {
        let sql = "UPDATE log_head SET moved_to = $1";
        self.write(Question::new(sql, vec![Box::new(super::text::stored(to))]))
    }

    fn stay(&mut self) -> Result<(), OfflineError> {
        self.write(Question::new("UPDATE log_head SET moved_to = NULL", vec![]))
    }
}
