//! Reads: a pool of connections, each read one short transaction that also reads the head. Nothing is held across an
//! await, and a read that loses its connection is asked again on another.

use std::sync::PoisonError;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use rookery_core::traits::LogRow;
use rookery_core::{Key, Row, Table};
use tokio::time::timeout;

use super::connection::{Frame, HEAD, Question, ask, ask_each, stored};
use super::error::Problem;
use super::{log, schema, transact};
use crate::operational::{EndpointCursor, PresenceRecord, Token};
use crate::query::{LogHead, LogQuery, RowQuery};
use crate::store::{ReadError, SharedVisitor, SubmitError, Tallies};

/// How often a read is tried that loses its connection: every pooled one may be of a server that is gone.
const TRIES: usize = 3;
/// How long a server may take: longer than it lets itself work on one question.
const QUERY_TIMEOUT: Duration = Duration::from_secs(17);

#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) pool: Pool,
}

type Answers = Vec<Vec<tokio_postgres::Row>>;

/// Takes answers row by row.
trait TakeRows: Send {
    /// Begins, or begins again on another connection.
    fn begin(&mut self);

    fn take(&mut self, question: usize, row: tokio_postgres::Row) -> Result<(), Problem>;
}

/// Keeps the answers of so many questions.
struct Collecting {
    questions: usize,
    answers: Answers,
}

impl TakeRows for Collecting {
    fn begin(&mut self) {
        self.answers = (0..self.questions).map(|_| vec![]).collect();
    }

    fn take(&mut self, question: usize, row: tokio_postgres::Row) -> Result<(), Problem> {
        self.answers[question].push(row);
        Ok(())
    }
}

/// Hands the rows of each table to a visitor, and keeps the head, which is asked for last.
struct Visiting {
    tables: Vec<Table>,
    visitor: SharedVisitor,
    head: Vec<tokio_postgres::Row>,
}

impl TakeRows for Visiting {
    fn begin(&mut self) {
        self.head.clear();
        self.visitor.lock().unwrap_or_else(PoisonError::into_inner).begin();
    }

    fn take(&mut self, question: usize, row: tokio_postgres::Row) -> Result<(), Problem> {
        match self.tables.get(question) {
            Some(table) => {
                let row = schema::row_of(*table, &row)?;
                self.visitor.lock().unwrap_or_else(PoisonError::into_inner).visit(row);
            }
            None => self.head.push(row),
        }
        Ok(())
    }
}

impl Reader {
    pub(super) async fn rows(&self, keys: Vec<Key>) -> Result<(Vec<Option<Row>>, LogHead), ReadError> {
        let (tables, questions): (Vec<_>, Vec<_>) = schema::get(&keys).into_iter().unzip();
        let (answers, head) = self.at_one_moment(questions).await?;
        let mut found = Vec::new();
        for (table, rows) in tables.into_iter().zip(answers) {
            found.extend(schema::found(table, &rows)?);
        }
        Ok((transact::in_order(&keys, found), head))
    }

    pub(super) async fn lists(&self, queries: Vec<RowQuery>) -> Result<(Vec<Vec<Row>>, LogHead), ReadError> {
        let (answers, head) = self.at_one_moment(queries.iter().map(schema::list).collect()).await?;
        let mut lists = Vec::with_capacity(queries.len());
        for (query, rows) in queries.iter().zip(answers) {
            lists.push(schema::found(query.table, &rows)?.into_iter().map(|(_, row)| row).collect());
        }
        Ok((lists, head))
    }

    pub(super) async fn visit(
        &self,
        queries: Vec<RowQuery>,
        visitor: SharedVisitor,
    ) -> Result<((), LogHead), ReadError> {
        let mut questions: Vec<Question> = queries.iter().map(schema::list).collect();
        questions.push(Question::new(HEAD, vec![]));
        let tables = queries.iter().map(|query| query.table).collect();
        let mut visiting = Visiting { tables, visitor, head: vec![] };
        self.ask_each(Frame::Snapshot, &questions, &mut visiting).await?;
        Ok(((), stored(&visiting.head)?.head))
    }

    pub(super) async fn log(&self, query: LogQuery) -> Result<(Vec<LogRow>, LogHead), ReadError> {
        let (mut answers, head) = self.at_one_moment(vec![log::read(&query)]).await?;
        Ok((log::found(&query, &answers.pop().unwrap_or_default())?, head))
    }

    pub(super) async fn tallies_and_rows(
        &self,
        keys: Vec<Key>,
    ) -> Result<((Tallies, Vec<Option<Row>>), LogHead), ReadError> {
        let (tables, mut questions): (Vec<_>, Vec<_>) = schema::get(&keys).into_iter().unzip();
        questions.push(Question::new(transact::ALL_TALLIES, vec![]));
        let (mut answers, head) = self.at_one_moment(questions).await?;
        let tallies = transact::tallies(&answers.pop().unwrap_or_default())?;
        let mut found = Vec::new();
        for (table, rows) in tables.into_iter().zip(answers) {
            found.extend(schema::found(table, &rows)?);
        }
        Ok(((tallies, transact::in_order(&keys, found)), head))
    }

    pub(super) async fn presence(&self) -> Result<Vec<PresenceRecord>, ReadError> {
        let (mut answers, _) = self.at_one_moment(vec![Question::new(transact::ALL_PRESENCE, vec![])]).await?;
        Ok(transact::signs(&answers.pop().unwrap_or_default())?)
    }

    pub(super) async fn tokens(&self) -> Result<Vec<Token>, ReadError> {
        let (mut answers, _) = self.at_one_moment(vec![Question::new(transact::ALL_TOKENS, vec![])]).await?;
        Ok(transact::tokens(&answers.pop().unwrap_or_default())?)
    }

    pub(super) async fn outboxes(&self) -> Result<Vec<EndpointCursor>, ReadError> {
        let (mut answers, _) = self.at_one_moment(vec![Question::new(transact::ALL_OUTBOXES, vec![])]).await?;
        Ok(transact::outboxes(&answers.pop().unwrap_or_default())?)
    }

    /// Asks everything at one moment, with the head of that moment.
    async fn at_one_moment(&self, mut questions: Vec<Question>) -> Result<(Answers, LogHead), ReadError> {
        questions.push(Question::new(HEAD, vec![]));
        let mut answers = self.ask(Frame::Snapshot, &questions).await?;
        let head = stored(&answers.pop().unwrap_or_default())?.head;
        Ok((answers, head))
    }

    /// Writes once, whatever happens: how many rows the first statement changed. If the answer is lost, nobody knows.
    pub(super) async fn write_once(&self, questions: &[Question]) -> Result<usize, SubmitError> {
        let client = self.pool.get().await.map_err(Problem::from)?;
        let unknown = |reason: String| SubmitError::OutcomeUnknown { reason };
        match timeout(QUERY_TIMEOUT, ask(&client, Frame::Whole, questions)).await {
            Ok(Ok(answers)) => Ok(answers.first().map_or(0, Vec::len)),
            Ok(Err(error)) if error.code().is_none() => Err(unknown(Problem::from(error).to_string())),
            Ok(Err(error)) => Err(Problem::from(error).into()),
            Err(_) => {
                drop(Object::take(client));
                Err(unknown("the database does not answer".to_owned()))
            }
        }
    }

    /// Asks on any connection; on another one if that turns out to be gone.
    pub(super) async fn ask(&self, frame: Frame, questions: &[Question]) -> Result<Answers, Problem> {
        let mut collecting = Collecting { questions: questions.len(), answers: vec![] };
        self.ask_each(frame, questions, &mut collecting).await?;
        Ok(collecting.answers)
    }

    async fn ask_each(&self, frame: Frame, questions: &[Question], rows: &mut dyn TakeRows) -> Result<(), Problem> {
        let mut tries = 1;
        loop {
            let problem = match self.pool.get().await {
                Ok(client) => {
                    rows.begin();
                    let mut take = |question, row| rows.take(question, row);
                    match timeout(QUERY_TIMEOUT, ask_each(&client, frame, questions, &mut take)).await {
                        Ok(Ok(())) => return Ok(()),
                        Ok(Err(problem)) => problem,
                        Err(_) => {
                            // Whatever it still has to say, nobody shall mistake it for the answer to something else.
                            drop(Object::take(client));
                            return Err(Problem::Connection("the database does not answer".to_owned()));
                        }
                    }
                }
                Err(error) => error.into(),
            };
            if tries == TRIES || !problem.is_of_connection() {
                return Err(problem);
            }
            tries += 1;
            // Those that wait in the pool are most likely as dead.
            self.pool.retain(|client, _| !client.is_closed());
        }
    }
}
