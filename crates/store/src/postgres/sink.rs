//! A store that is made anew in a schema: all of it in one transaction, so that nobody finds half of it.

use std::sync::Arc;

use super::connection::{Connector, HEAD, LOCKED_HEAD, Param, Question, stored, stored_seq};
use super::error::{OpenError, Problem};
use super::migrate::{self, Birth, Found, MIGRATIONS};
use super::source::{PostgresSource, Session};
use super::{artifacts, log, transact};
use crate::artifact::sha256_hex;
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

    fn exists(&self) -> OfflineError {
        OfflineError::Exists { store: self.connector.address().to_string() }
    }

    /// Takes away an empty store that is in the way, unless somebody serves it.
    fn clear_empty(&self, session: &Session) -> Result<(), OfflineError> {
        let address = self.connector.address();
        match session.wait(migrate::version(&session.client, address))? {
            Found::Nothing => return Ok(()),
            Found::Foreign => return Err(OpenError::Foreign { schema: address.schema().to_owned() }.into()),
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
        self.making = Some(Making { session: Arc::new(session), beginning: beginning.clone() });
        Ok(())
    }

    fn append(&mut self, rows: &[Entry]) -> Result<(), OfflineError> {
        self.session()?.ask(&[log::append(rows.iter().map(log::Raw::from).collect())]).map(drop)
    }

    fn put_artifact(&mut self, bytes: &[u8]) -> Result<String, OfflineError> {
        let (session, sha256) = (self.session()?, sha256_hex(bytes));
        session.wait(artifacts::store(&*session.client, &sha256, bytes))?;
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
        if session.wait(migrate::version(&session.client, self.connector.address()))? == Found::Nothing {
            return Ok(());
        }
        let head = stored(&session.one(Question::new(LOCKED_HEAD, vec![]))?)?.head;
        if head.log == making.beginning.log { Err(self.exists()) } else { Ok(()) }
    }
}
