//! A store that is made anew in a schema: all of it in one transaction, so that nobody finds half of it.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::artifacts::{CHUNK_BYTES, INSERT_CHUNK};
use super::connection::{Connector, HEAD, LOCKED_HEAD, NOW, Param, Question, stored, stored_seq};
use super::error::{OpenError, Problem};
use super::migrate::{self, Birth, Found, MIGRATIONS};
use super::source::{PostgresSource, Session};
use super::{log, transact};
use crate::artifact::Hashing;
use crate::node::LEASE;
use crate::offline::{Beginning, Ending, Entry, OfflineError, Reply, Sink, Source};
use crate::operational::Operation;

#[derive(Debug)]
pub struct PostgresSink {
    connector: Connector,
    making: Option<Making>,
}

#[derive(Debug)]
struct Making {
    session: Arc<Session>,
    /// What it is called, by which it is known afterwards.
    beginning: Beginning,
    incoming: Piecemeal,
}

/// The artifact that pieces go to.
#[derive(Debug, Default)]
struct Piecemeal {
    number: u64,
    n: i32,
    bytes: i64,
    buffer: Vec<u8>,
    hashing: Hashing,
}

impl Piecemeal {
    fn blob(&self) -> String {
        format!("carried.{}", self.number)
    }
}

impl Making {
    fn add(&mut self, chunk: Vec<u8>) -> Result<(), OfflineError> {
        let incoming = &mut self.incoming;
        let hash = Sha256::digest(&chunk).to_vec();
        incoming.bytes += i64::try_from(chunk.len()).unwrap_or(i64::MAX);
        let params: Vec<Param> = vec![Box::new(incoming.blob()), Box::new(incoming.n), Box::new(chunk), Box::new(hash)];
        incoming.n += 1;
        self.session.one(Question::new(INSERT_CHUNK, params)).map(drop)
    }
}

impl PostgresSink {
    pub(super) fn new(connector: Connector) -> PostgresSink {
        PostgresSink { connector, making: None }
    }

    fn session(&self) -> Result<&Session, OfflineError> {
        match &self.making {
            Some(making) => Ok(&making.session),
            None => Err(OfflineError::Unreadable(format!("{} is not being made", self.connector.address()))),
        }
    }

    fn making(&mut self) -> Result<&mut Making, OfflineError> {
        let address = self.connector.address();
        self.making.as_mut().ok_or_else(|| OfflineError::Unreadable(format!("{address} is not being made")))
    }

    fn exists(&self) -> OfflineError {
        OfflineError::Exists { store: self.connector.address().to_string() }
    }

    /// Takes away an empty store that is in the way, unless somebody serves it.
    fn clear_empty(&self, session: &Session) -> Result<(), OfflineError> {
        let address = self.connector.address();
        match session.wait(migrate::version(&session.client, address, MIGRATIONS))? {
            Found::Nothing => return Ok(()),
            Found::Foreign => return Err(OpenError::Foreign { schema: address.schema().to_owned() }.into()),
            Found::Development => return Err(OpenError::Development { schema: address.schema().to_owned() }.into()),
            Found::Version(_) => {}
        }
        // Most often there is something, and then nobody has to wait for whoever has it.
        let head = stored(&session.one(Question::new(HEAD, vec![]))?)?.head;
        if head.head >= head.floor {
            return Err(self.exists());
        }
        let head = stored(&session.one(Question::new(LOCKED_HEAD, vec![]))?)?.head;
        let kept = !session.one(Question::new("SELECT 1 FROM tokens LIMIT 1", vec![]))?.is_empty();
        if head.head >= head.floor || kept {
            return Err(self.exists());
        }
        let sql = format!(
            "SELECT host FROM nodes WHERE seen_at > {now} - {lease}",
            now = super::connection::NOW,
            lease = LEASE.as_millis()
        );
        if !session.one(Question::new(sql, vec![]))?.is_empty() {
            return Err(OfflineError::InUse { by: "a daemon that serves it".to_owned() });
        }
        // Table by table: the schema itself may be somebody else's.
        let sql = "SELECT format('DROP TABLE %I CASCADE', relname) FROM pg_class
            JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'";
        let rows = session.one(Question::new(sql, vec![Box::new(address.schema().to_owned())]))?;
        for row in rows {
            session.run(row.try_get(0).map_err(Problem::from)?)?;
        }
        Ok(())
    }
}

impl Sink for PostgresSink {
    fn begin(&mut self, beginning: &Beginning) -> Result<(), OfflineError> {
        let session = Session::open(&self.connector)?;
        let address = self.connector.address();
        session.wait(migrate::begin(&session.client, address))?;
        self.clear_empty(&session)?;
        let birth = Birth {
            log_id: beginning.log.clone(),
            project_id: beginning.project.id.clone().unwrap_or_else(|| beginning.project.name.clone()),
            project: beginning.project.name.clone(),
        };
        session.wait(migrate::in_transaction(&session.client, address, &birth, MIGRATIONS))?;
        let floor = "UPDATE log_head SET floor = $1, head = $1::bigint - 1";
        session.ask(&[Question::new(floor, vec![Box::new(stored_seq(beginning.floor))])])?;
        let beginning = beginning.clone();
        self.making = Some(Making { session: Arc::new(session), beginning, incoming: Piecemeal::default() });
        Ok(())
    }

    fn append(&mut self, rows: &[Entry]) -> Result<(), OfflineError> {
        self.session()?.ask(&[log::append(rows.iter().map(log::Raw::from).collect())]).map(drop)
    }

    fn artifact_piece(&mut self, bytes: &[u8]) -> Result<(), OfflineError> {
        let making = self.making()?;
        making.incoming.hashing.add(bytes);
        making.incoming.buffer.extend_from_slice(bytes);
        while making.incoming.buffer.len() >= CHUNK_BYTES {
            let rest = making.incoming.buffer.split_off(CHUNK_BYTES);
            let chunk = std::mem::replace(&mut making.incoming.buffer, rest);
            making.add(chunk)?;
        }
        Ok(())
    }

    fn put_artifact(&mut self) -> Result<String, OfflineError> {
        let making = self.making()?;
        let chunk = std::mem::take(&mut making.incoming.buffer);
        if !chunk.is_empty() {
            making.add(chunk)?;
        }
        let next = making.incoming.number + 1;
        let incoming = std::mem::replace(&mut making.incoming, Piecemeal { number: next, ..Piecemeal::default() });
        let (blob, sha256) = (incoming.blob(), incoming.hashing.hex());
        let sql = format!(
            "INSERT INTO artifacts (sha256, bytes, stored_at, blob) VALUES ($1, $2, {NOW}, $3)
                ON CONFLICT (sha256) DO NOTHING RETURNING 1"
        );
        let params: Vec<Param> = vec![Box::new(sha256.clone()), Box::new(incoming.bytes), Box::new(blob.clone())];
        if making.session.one(Question::new(sql, params))?.is_empty() {
            let sql = "DELETE FROM artifact_chunks WHERE blob = $1";
            making.session.one(Question::new(sql, vec![Box::new(blob)]))?;
        }
        Ok(sha256)
    }

    fn remember(&mut self, replies: &[Reply]) -> Result<(), OfflineError> {
        if replies.is_empty() {
            return Ok(());
        }
        self.session()?.ask(&[transact::put_replies(replies)]).map(drop)
    }

    fn finish(&mut self, ending: &Ending<'_>) -> Result<Box<dyn Source + '_>, OfflineError> {
        let session = self.session()?;
        session.wait(migrate::write_fold(&session.client, ending.fold))?;
        let nobody = "nobody".into();
        let mut questions = Vec::new();
        for token in ending.tokens {
            questions.push(transact::operate(&Operation::PutToken(token.clone()), &nobody)?);
        }
        // An empty store may have been served already.
        questions.push(Question::new("DELETE FROM outboxes", vec![]));
        for outbox in ending.outboxes {
            questions.push(transact::operate(&Operation::PutOutbox(outbox.clone()), &nobody)?);
        }
        let presence: Vec<_> = ending.presence.iter().map(|sign| (sign.agent.clone(), sign.presence)).collect();
        questions.push(transact::operate(&Operation::WritePresence(presence), &nobody)?);
        let head: Param = Box::new(stored_seq(ending.head));
        questions.push(Question::new("UPDATE log_head SET head = $1", vec![head]));
        session.ask(&questions)?;
        let Some(making) = &self.making else { return Err(self.exists()) };
        Ok(Box::new(PostgresSource::over(making.session.clone())?))
    }

    fn publish(&mut self) -> Result<(), OfflineError> {
        self.session()?.run("COMMIT")?;
        self.making = None;
        Ok(())
    }

    fn abort(&mut self) -> Result<(), OfflineError> {
        let Some(making) = self.making.take() else { return Ok(()) };
        // Rolled back, or over with its connection. One whose commit was lost may have been made all the same.
        drop(making.session.run("ROLLBACK"));
        drop(making.session);
        let session = Session::open(&self.connector)?;
        // Waits until nobody is making anything here.
        session.wait(migrate::begin(&session.client, self.connector.address()))?;
        let address = self.connector.address();
        if session.wait(migrate::version(&session.client, address, MIGRATIONS))? == Found::Nothing {
            return Ok(());
        }
        let head = stored(&session.one(Question::new(LOCKED_HEAD, vec![]))?)?.head;
        if head.log == making.beginning.log { Err(self.exists()) } else { Ok(()) }
    }
}
