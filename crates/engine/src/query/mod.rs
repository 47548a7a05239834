//! Reading: typed questions over the derived rows, each answered with the position it is true at.

mod groups;

use std::collections::BTreeMap;

use rookery_core::model::Table;
use rookery_core::model::agent::Agent;
use rookery_core::model::file::File;
use rookery_core::model::handoff::Handoff;
use rookery_core::model::task::{Task, TaskState};
use rookery_core::traits::LogRow;
use rookery_core::{AgentId, HandoffId, Key, Row, Seq, TaskId};
use rookery_store::query::{ColumnTest, Condition, KEY};
use rookery_store::store::SharedVisitor;
use rookery_store::{LogHead, LogQuery, RowQuery};

pub use groups::Members;

use crate::engine::Engine;
use crate::error::EngineError;

/// How many tasks of an agent are looked through for those that it has not taken.
const HELD_TASKS: u32 = 1_000;

/// Reads the derived rows; every answer carries the position that it is true at.
#[derive(Clone, Copy, Debug)]
pub struct QueryHandle<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// See [`QueryHandle`].
    pub fn query(&self) -> QueryHandle<'_> {
        QueryHandle { engine: self }
    }
}

/// A value and the head of the log that it is true at.
#[derive(Clone, PartialEq, Debug)]
pub struct At<T> {
    pub value: T,
    pub head: LogHead,
}

impl<T> At<T> {
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> At<U> {
        At { value: of(self.value), head: self.head }
    }
}

/// Which tasks; every given condition holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskFilter {
    pub any_of: Vec<TaskShape>,
    pub assignee: Option<AgentId>,
    /// Tasks created after this one.
    pub after: Option<Seq>,
    pub limit: Option<u32>,
}

/// A state, and for pending tasks what else must be so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskShape {
    pub state: TaskState,
    pub held: Option<bool>,
    pub waiting: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSelection {
    Any,
    Claimed,
    Conflicted,
}

/// Which files, in the order of their paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileFilter {
    pub state: FileSelection,
    /// Files after this key.
    pub after: Option<String>,
    pub limit: Option<u32>,
}

/// Which handoffs, in the order they were offered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HandoffFilter {
    pub status: Option<&'static str>,
    pub to: Option<AgentId>,
    /// Handoffs offered after this one.
    pub after: Option<Seq>,
    pub limit: Option<u32>,
}

impl QueryHandle<'_> {
    pub async fn agent(&self, id: &AgentId) -> Result<At<Option<Agent>>, EngineError> {
        self.find(Key::Agent(id.clone()), |row| if let Row::Agent(agent) = row { Some(agent) } else { None }).await
    }

    /// What an agent's card says that it can do, in the words of the other faces: what one that announces itself again
    /// and says nothing of it goes on with.
    pub async fn declared_capabilities(&self, id: &AgentId) -> Result<Option<Vec<String>>, EngineError> {
        let known = self.agent(id).await?.value.filter(|agent| !agent.has_left());
        Ok(known.and_then(|agent| agent.profile.card).map(|card| card.words()))
    }

    pub async fn task(&self, id: &TaskId) -> Result<At<Option<Task>>, EngineError> {
        self.find(Key::Task(id.clone()), |row| if let Row::Task(task) = row { Some(task) } else { None }).await
    }

    pub async fn file(&self, key: &str) -> Result<At<Option<File>>, EngineError> {
        self.find(Key::File(key.to_owned()), |row| if let Row::File(file) = row { Some(file) } else { None }).await
    }

    pub async fn handoff(&self, id: &HandoffId) -> Result<At<Option<Handoff>>, EngineError> {
        self.find(Key::Handoff(id.clone()), |row| if let Row::Handoff(handoff) = row { Some(handoff) } else { None })
            .await
    }

    async fn find<T>(&self, key: Key, of: impl FnOnce(Row) -> Option<T>) -> Result<At<Option<T>>, EngineError> {
        let (mut rows, head) = self.engine.store().rows(vec![key]).await?;
        Ok(At { value: rows.pop().flatten().and_then(of), head })
    }

    /// Agents that have not left, in the order they joined.
    pub async fn agents(&self) -> Result<At<Vec<Agent>>, EngineError> {
        let (rows, head) = self.engine.store().list(agents_query()).await?;
        Ok(At { value: agents_of(rows), head })
    }

    pub async fn tasks(&self, filter: &TaskFilter) -> Result<At<Vec<Task>>, EngineError> {
        let (rows, head) = self.engine.store().list(filter.query()).await?;
        Ok(At { value: tasks_of(rows), head })
    }

    /// Visits the same tasks one by one, without holding all of them.
    pub async fn visit_tasks(&self, filter: &TaskFilter, visitor: SharedVisitor) -> Result<LogHead, EngineError> {
        self.visit(vec![filter.query()], visitor).await
    }

    /// The tasks that are reserved for an agent and that it has not taken, the oldest first.
    pub async fn reserved_tasks(&self, agent: &AgentId) -> Result<Vec<Task>, EngineError> {
        let open = TaskState::ALL.into_iter().filter(|state| state.is_open());
        let query = RowQuery::all(Table::Tasks)
            .with("held_by", ColumnTest::Is(agent.as_str().into()))
            .with("state", ColumnTest::In(open.map(|state| state.as_str().into()).collect()))
            .ordered_by("created")
            .at_most(Some(HELD_TASKS));
        let (rows, _) = self.engine.store().list(query).await?;
        Ok(tasks_of(rows)
            .into_iter()
            .filter(|task| task.claim.is_none() && task.reserved_for.as_ref() == Some(agent))
            .collect())
    }

    pub async fn files(&self, filter: &FileFilter) -> Result<At<Vec<File>>, EngineError> {
        let (rows, head) = self.engine.store().list(filter.query()).await?;
        Ok(At { value: files_of(rows), head })
    }

    pub async fn visit_files(&self, filter: &FileFilter, visitor: SharedVisitor) -> Result<LogHead, EngineError> {
        self.visit(vec![filter.query()], visitor).await
    }

    pub async fn handoffs(&self, filter: &HandoffFilter) -> Result<At<Vec<Handoff>>, EngineError> {
        let (rows, head) = self.engine.store().list(filter.query()).await?;
        Ok(At { value: handoffs_of(rows), head })
    }

    pub async fn visit_handoffs(&self, filter: &HandoffFilter, visitor: SharedVisitor) -> Result<LogHead, EngineError> {
        self.visit(vec![filter.query()], visitor).await
    }

    /// Visits everything at one position: agents, also those that have left, files, tasks, handoffs, and the row that
    /// names the lead.
    pub async fn visit_state(&self, visitor: SharedVisitor) -> Result<LogHead, EngineError> {
        let queries = vec![
            agents_query(),
            RowQuery::all(Table::Files),
            TaskFilter::default().query(),
            HandoffFilter::default().query(),
            RowQuery::all(Table::Leadership),
        ];
        self.visit(queries, visitor).await
    }

    async fn visit(&self, queries: Vec<RowQuery>, visitor: SharedVisitor) -> Result<LogHead, EngineError> {
        let ((), head) = self.engine.store().visit(queries, visitor).await?;
        Ok(head)
    }

    /// The head of the log.
    pub async fn head(&self) -> Result<LogHead, EngineError> {
        Ok(self.engine.store().rows(vec![]).await?.1)
    }

    pub async fn tallies(&self) -> Result<At<BTreeMap<String, u64>>, EngineError> {
        let (value, head) = self.engine.store().tallies().await?;
        Ok(At { value, head })
    }

    /// The counts, and who leads.
    pub async fn totals(&self) -> Result<At<(BTreeMap<String, u64>, Option<AgentId>)>, EngineError> {
        let ((tallies, mut rows), head) = self.engine.store().tallies_and_rows(vec![Key::lead()]).await?;
        let lead = rows.pop().flatten().and_then(|row| if let Row::Lead(lead) = row { lead.holder } else { None });
        Ok(At { value: (tallies, lead), head })
    }

    pub async fn log(&self, query: LogQuery) -> Result<At<Vec<LogRow>>, EngineError> {
        let (value, head) = self.engine.store().log(query).await?;
        Ok(At { value, head })
    }
}

impl TaskFilter {
    fn query(&self) -> RowQuery {
        let mut all = RowQuery::all(Table::Tasks).ordered_by("created").at_most(self.limit);
        if let Some(assignee) = &self.assignee {
            all = all.with("assignee", ColumnTest::Is(assignee.as_str().into()));
        }
        if let Some(after) = self.after {
            all = all.with("created", above(after));
        }
        all.with_any_of(self.any_of.iter().map(|shape| shape.conditions()).collect())
    }
}

impl TaskShape {
    pub fn of(state: TaskState) -> TaskShape {
        TaskShape { state, held: None, waiting: None }
    }

    fn conditions(self) -> Vec<Condition> {
        let is = |column, value| Condition { column, test: ColumnTest::Is(value) };
        let held = self.held.map(|held| is("reserved", held.into()));
        let waiting = self.waiting.map(|waiting| is("waiting", waiting.into()));
        [Some(is("state", self.state.as_str().into())), held, waiting].into_iter().flatten().collect()
    }
}

impl HandoffFilter {
    fn query(&self) -> RowQuery {
        let mut query = RowQuery::all(Table::Handoffs).ordered_by("created").at_most(self.limit);
        if let Some(status) = self.status {
            query = query.with("status", ColumnTest::Is(status.into()));
        }
        if let Some(to) = &self.to {
            query = query.with("recipient", ColumnTest::Is(to.as_str().into()));
        }
        if let Some(after) = self.after {
            query = query.with("created", above(after));
        }
        query
    }
}

impl FileFilter {
    fn query(&self) -> RowQuery {
        let all = RowQuery::all(Table::Files).at_most(self.limit);
        let query = match self.state {
            FileSelection::Any => all,
            FileSelection::Claimed => all.with("holder", ColumnTest::Present),
            FileSelection::Conflicted => all.with("state", ColumnTest::Is("conflicted".into())),
        };
        match &self.after {
            Some(after) => query.with(KEY, ColumnTest::After(after.clone())),
            None => query,
        }
    }
}

fn above(seq: Seq) -> ColumnTest {
    ColumnTest::Above(i64::try_from(seq.0).unwrap_or(i64::MAX))
}

fn agents_query() -> RowQuery {
    RowQuery::all(Table::Agents).ordered_by("joined")
}

fn agents_of(rows: Vec<Row>) -> Vec<Agent> {
    let agents = rows.into_iter().filter_map(|row| if let Row::Agent(agent) = row { Some(agent) } else { None });
    agents.filter(|agent| !agent.has_left()).collect()
}

fn tasks_of(rows: Vec<Row>) -> Vec<Task> {
    rows.into_iter().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect()
}

fn files_of(rows: Vec<Row>) -> Vec<File> {
    rows.into_iter().filter_map(|row| if let Row::File(file) = row { Some(file) } else { None }).collect()
}

fn handoffs_of(rows: Vec<Row>) -> Vec<Handoff> {
    rows.into_iter().filter_map(|row| if let Row::Handoff(handoff) = row { Some(handoff) } else { None }).collect()
}
