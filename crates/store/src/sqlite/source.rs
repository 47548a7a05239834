//! A store's file as it is at one moment, for work on the whole of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_core::{Key, Seq, Table};
use rusqlite::Connection;

use super::backup::failed;
use super::connection::{self, begin_reading, roll_back, stored};
use super::error::OpenError;
use super::integrity::open_existing;
use super::lock::Lock;
use super::{checkpoint, log, migrate, schema, transact};
use crate::artifact::{ArtifactDir, ArtifactError, Unread};
use crate::offline::{DerivedRow, OfflineError, Origin, ProjectName, RawRow, Reply, Snapshot, Source, Take};
use crate::operational::{EndpointCursor, PresenceRecord, Token};
use crate::store::Tallies;

/// Opens a store that exists for reading. Needs no lock.
pub fn source(path: &Path, artifacts: ArtifactDir) -> Result<SqliteSource, OfflineError> {
    let connection = open_existing(path)?;
    begin_reading(&connection)?;
    let snapshot = snapshot(&connection)?;
    Ok(SqliteSource { connection, artifacts, snapshot })
}

/// Opens a store that exists for moving it away, unless a daemon has it.
pub fn origin(path: &Path, artifacts: ArtifactDir) -> Result<SqliteOrigin, OfflineError> {
    if !path.is_file() {
        return Err(OpenError::Absent { path: path.to_owned() }.into());
    }
    let lock = Lock::take(path)?;
    Ok(SqliteOrigin { source: source(path, artifacts)?, path: path.to_owned(), _lock: lock })
}

/// A read transaction that lasts.
#[derive(Debug)]
pub struct SqliteSource {
    connection: Connection,
    artifacts: ArtifactDir,
    snapshot: Snapshot,
}

#[derive(Debug)]
pub struct SqliteOrigin {
    source: SqliteSource,
    path: PathBuf,
    _lock: Lock,
}

impl SqliteSource {
    /// Says which project it is of, if the store itself does not know.
    #[must_use]
    pub fn of_project(mut self, id: Option<&str>) -> SqliteSource {
        let known = self.snapshot.project.id.take();
        self.snapshot.project.id = known.or_else(|| id.map(str::to_owned));
        self
    }
}

fn snapshot(connection: &Connection) -> Result<Snapshot, OfflineError> {
    let found = stored(connection)?;
    let name = connection.query_row("SELECT project FROM log_head", [], |row| row.get(0))?;
    Ok(Snapshot {
        head: found.head,
        format: found.format,
        project: ProjectName { id: migrate::project_id(connection)?, name },
        moved_to: migrate::moved_to(connection)?,
    })
}

impl Source for SqliteSource {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn log(&mut self, after: Seq, limit: u32) -> Result<Vec<RawRow>, OfflineError> {
        Ok(log::read_raw(&self.connection, after, limit)?)
    }

    fn rows(&mut self, table: Table, after: Option<&Key>, limit: u32) -> Result<Vec<DerivedRow>, OfflineError> {
        Ok(schema::page(&self.connection, table, after, limit)?)
    }

    fn tallies(&mut self) -> Result<Tallies, OfflineError> {
        Ok(transact::all_tallies(&self.connection)?)
    }

    fn artifact(&mut self, sha256: &str, take: &mut Take<'_>) -> Result<(), OfflineError> {
        self.artifacts.read(sha256, take).map_err(|unread| match unread {
            Unread::File(error) => ArtifactError::reading(sha256, error).into(),
            Unread::Taking(error) => error,
        })
    }

    fn artifacts(&mut self) -> Result<Vec<String>, OfflineError> {
        self.artifacts.list().map_err(failed(self.artifacts.folder()))
    }

    fn tokens(&mut self) -> Result<Vec<Token>, OfflineError> {
        Ok(transact::all_tokens(&self.connection)?)
    }

    fn outboxes(&mut self) -> Result<Vec<EndpointCursor>, OfflineError> {
        Ok(transact::all_outboxes(&self.connection)?)
    }

    fn presence(&mut self) -> Result<Vec<PresenceRecord>, OfflineError> {
        Ok(transact::all_presence(&self.connection)?)
    }

    fn replies(&mut self, after: Option<&Reply>, limit: u32) -> Result<Vec<Reply>, OfflineError> {
        Ok(transact::page_of_replies(&self.connection, after, limit)?)
    }
}

impl Origin for SqliteOrigin {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    fn leave(&mut self, to: &str) -> Result<(), OfflineError> {
        self.write(|connection| migrate::mark_moved(connection, to))
    }

    fn stay(&mut self) -> Result<(), OfflineError> {
        self.write(migrate::mark_here)
    }
}

impl SqliteOrigin {
    /// Says which project it is of, if the store itself does not know.
    #[must_use]
    pub fn of_project(self, id: Option<&str>) -> SqliteOrigin {
        SqliteOrigin { source: self.source.of_project(id), ..self }
    }

    fn write(&mut self, write: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), OfflineError> {
        // What was to be read was read; an old transaction would keep the write-ahead log from being emptied.
        roll_back(&self.source.connection)?;
        let writer = connection::writer(&self.path)?;
        write(&writer)?;
        // It is durable as it is; this only leaves one file behind.
        drop(checkpoint::reset(&writer, Duration::from_secs(1)));
        Ok(())
    }
}
