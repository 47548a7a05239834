//! A store's file that is made anew: under another name until it is whole and proven, then in its place at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};

use super::backup::{exists, failed, put_in_place, remove};
use super::connection::{self, begin, beside, commit, identity, stored, stored_seq, wal_of};
use super::error::OpenError;
use super::integrity::open_existing;
use super::lock::Lock;
use super::migrate::{self, Birth, MIGRATIONS};
use super::source::source;
use super::{checkpoint, log, transact};
use crate::artifact::{ArtifactDir, Partial};
use crate::offline::{Beginning, Ending, Entry, OfflineError, Reply, Sink, Source};
use crate::operational::Operation;

/// A store to be made at `path`, where there is none or one with an empty log.
pub fn sink(path: &Path, artifacts: ArtifactDir) -> SqliteSink {
    SqliteSink { path: path.to_owned(), artifacts, making: None }
}

#[derive(Debug)]
pub struct SqliteSink {
    path: PathBuf,
    artifacts: ArtifactDir,
    making: Option<Making>,
}

/// What is being made, while the lock of its place is held.
#[derive(Debug)]
struct Making {
    partial: PathBuf,
    /// Closed when all is written.
    connection: Option<Connection>,
    /// The artifact that is under way.
    incoming: Option<Partial>,
    /// Artifacts that were not there before.
    added: Vec<String>,
    /// The finished file, by which it is known wherever it is.
    file: Option<(u64, u64)>,
    _lock: Lock,
}

impl SqliteSink {
    fn open(&mut self) -> Result<&Connection, OfflineError> {
        match &self.making {
            Some(Making { connection: Some(connection), .. }) => Ok(connection),
            _ => Err(not_begun(&self.path)),
        }
    }

    /// The artifact that pieces go to.
    fn incoming(&mut self) -> Result<&mut Partial, OfflineError> {
        let Some(making) = &mut self.making else { return Err(not_begun(&self.path)) };
        let partial = match making.incoming.take() {
            Some(partial) => partial,
            None => self.artifacts.begin().map_err(failed(self.artifacts.folder()))?,
        };
        Ok(making.incoming.insert(partial))
    }
}

impl Sink for SqliteSink {
    fn begin(&mut self, beginning: &Beginning) -> Result<(), OfflineError> {
        super::prepare_folder(&self.path)?;
        let lock = Lock::take(&self.path)?;
        refuse_full(&self.path)?;
        let partial = beside(&self.path, ".importing");
        remove_file(&partial)?;
        let making = Making { partial, connection: None, incoming: None, added: vec![], file: None, _lock: lock };
        let making = self.making.insert(making);
        making.connection = Some(create(&making.partial, beginning)?);
        Ok(())
    }

    fn append(&mut self, rows: &[Entry]) -> Result<(), OfflineError> {
        Ok(log::append_entries(self.open()?, rows)?)
    }

    fn artifact_piece(&mut self, bytes: &[u8]) -> Result<(), OfflineError> {
        self.incoming()?.write(bytes).map_err(failed(self.artifacts.folder()))
    }

    fn put_artifact(&mut self) -> Result<String, OfflineError> {
        let name = self.incoming()?.name();
        let new = !self.artifacts.contains(&name);
        let Some(making) = &mut self.making else { return Err(not_begun(&self.path)) };
        if let Some(partial) = making.incoming.take() {
            partial.place(None).map_err(failed(self.artifacts.folder()))?;
        }
        if new {
            making.added.push(name.clone());
        }
        Ok(name)
    }

    fn remember(&mut self, replies: &[Reply]) -> Result<(), OfflineError> {
        Ok(transact::put_replies(self.open()?, replies)?)
    }

    fn finish(&mut self, ending: &Ending<'_>) -> Result<Box<dyn Source + '_>, OfflineError> {
        let connection = self.open()?;
        migrate::write_fold(connection, ending.fold)?;
        for token in ending.tokens {
            transact::operate(connection, &Operation::PutToken(token.clone()))?;
        }
        for outbox in ending.outboxes {
            transact::operate(connection, &Operation::PutOutbox(outbox.clone()))?;
        }
        let presence = ending.presence.iter().map(|sign| (sign.agent.clone(), sign.presence)).collect();
        transact::operate(connection, &Operation::WritePresence(presence))?;
        connection.execute("UPDATE log_head SET head = ?1", [stored_seq(ending.head)])?;
        commit(connection)?;
        let Some(making) = &mut self.making else { return Err(not_begun(&self.path)) };
        if let Some(connection) = making.connection.take() {
            connection.close().map_err(|(_, error)| error)?;
        }
        making.file = identity(&making.partial);
        Ok(Box::new(source(&making.partial, self.artifacts.clone())?))
    }

    fn publish(&mut self) -> Result<(), OfflineError> {
        match &self.making {
            Some(Making { partial, file: Some(_), .. }) => {
                clear_empty(&self.path)?;
                put_in_place(partial, &self.path)?;
            }
            _ => return Err(not_begun(&self.path)),
        }
        self.making = None;
        Ok(())
    }

    fn abort(&mut self) -> Result<(), OfflineError> {
        let Some(making) = self.making.take() else { return Ok(()) };
        drop((making.connection, making.incoming));
        if making.file.is_some() && identity(&self.path) == making.file {
            // It got its name, and then something failed.
            remove(&self.path)?;
        }
        // Artifacts that stay for no row are in nobody's way.
        making.added.iter().for_each(|sha256| drop(self.artifacts.erase(sha256)));
        remove_file(&making.partial)
    }
}

fn not_begun(path: &Path) -> OfflineError {
    OfflineError::Unreadable(format!("{} is not being made", path.display()))
}

/// An empty file with the schema, and an open transaction.
fn create(partial: &Path, beginning: &Beginning) -> Result<Connection, OfflineError> {
    connection::create_private(partial).map_err(failed(partial))?;
    let connection = connection::single_file(partial)?;
    let birth = Birth { log_id: &beginning.log, project: &beginning.project.name };
    migrate::prepare(&connection, partial, birth, MIGRATIONS)?;
    begin(&connection)?;
    let floor = stored_seq(beginning.floor);
    connection.execute("UPDATE log_head SET floor = ?1, head = ?1 - 1", params![floor])?;
    if let Some(id) = &beginning.project.id {
        migrate::mark_project(&connection, id)?;
    }
    Ok(connection)
}

fn remove_file(path: &Path) -> Result<(), OfflineError> {
    remove(&beside(path, "-journal"))?;
    remove(path)
}

/// Refuses to replace a store in which there is something.
fn refuse_full(path: &Path) -> Result<(), OfflineError> {
    let connection = match open_existing(path) {
        Ok(connection) => connection,
        Err(OpenError::Absent { .. }) if !path.exists() => return Ok(()),
        // Also a file of another program is something.
        Err(_) => return Err(exists(path)),
    };
    let empty = |connection: &Connection| -> Result<bool, OfflineError> {
        let head = stored(connection)?.head;
        let kept: bool = connection.query_row("SELECT EXISTS (SELECT 1 FROM tokens)", [], |row| row.get(0))?;
        Ok(head.head < head.floor && !kept)
    };
    if empty(&connection)? { Ok(()) } else { Err(exists(path)) }
}

/// What stands in the write-ahead log of an empty store would be taken for the new one's.
fn clear_empty(path: &Path) -> Result<(), OfflineError> {
    if !path.exists() {
        return Ok(());
    }
    let old = connection::writer(path)?;
    checkpoint::reset(&old, Duration::from_secs(5))?;
    old.close().map_err(|(_, error)| error)?;
    remove(&wal_of(path))?;
    remove(&beside(path, "-shm"))
}
