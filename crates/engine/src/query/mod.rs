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
use rookery_store::query::{ColumnTest, KEY};
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

/// Everything at one position.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    pub agents: Vec<Agent>,
    pub files: Vec<File>,
    pub tasks: Vec<Task>,
    pub handoffs: Vec<Handoff>,
    pub lead: Option<AgentId>,
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
        let (lists, head) = self.engine.store().lists(filter.queries()).await?;
        let mut tasks = tasks_of(lists.into_iter().flatten().collect());
        // Each list is in order; together they need not be, and shapes may overlap.
        tasks.sort_by_key(|task| task.created);
        tasks.dedup_by(|one, other| one.id == other.id);
        tasks.truncate(filter.limit.map_or(usize::MAX, |limit| limit as usize));
        Ok(At { value: tasks, head })
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

    pub async fn handoffs(&self, filter: &HandoffFilter) -> Result<At<Vec<Handoff>>, EngineError> {
        let mut query = RowQuery::all(Table::Handoffs).ordered_by("created").at_most(filter.limit);
        if let Some(status) = filter.status {
            query = query.with("status", ColumnTest::Is(status.into()));
        }
        if let Some(to) = &filter.to {
            query = query.with("recipient", ColumnTest::Is(to.as_str().into()));
        }
        if let Some(after) = filter.after {
            query = query.with("created", above(after));
        }
        let (rows, head) = self.engine.store().list(query).await?;
        Ok(At { value: handoffs_of(rows), head })
    }

    pub async fn snapshot(&self) -> Result<At<Snapshot>, EngineError> {
        let queries = vec![
            agents_query(),
            RowQuery::all(Table::Files),
            RowQuery::all(Table::Tasks).ordered_by("created"),
            RowQuery::all(Table::Handoffs).ordered_by("created"),
            RowQuery::all(Table::Leadership),
        ];
        let (lists, head) = self.engine.store().lists(queries).await?;
        let mut lists = lists.into_iter();
        let mut next = || lists.next().unwrap_or_default();
        let value = Snapshot {
            agents: agents_of(next()),
            files: files_of(next()),
            tasks: tasks_of(next()),
            handoffs: handoffs_of(next()),
            lead: next().into_iter().find_map(|row| if let Row::Lead(lead) = row { lead.holder } else { None }),
        };
        Ok(At { value, head })
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
    /// One list for each shape, so that none is longer than what is asked for.
    fn queries(&self) -> Vec<RowQuery> {
        let mut all = RowQuery::all(Table::Tasks).ordered_by("created").at_most(self.limit);
        if let Some(assignee) = &self.assignee {
            all = all.with("assignee", ColumnTest::Is(assignee.as_str().into()));
        }
        if let Some(after) = self.after {
            all = all.with("created", above(after));
        }
        if self.any_of.is_empty() {
            return vec![all];
        }
        self.any_of.iter().map(|shape| shape.narrow(all.clone())).collect()
    }
}

impl TaskShape {
    pub fn of(state: TaskState) -> TaskShape {
        TaskShape { state, held: None, waiting: None }
    }

    fn narrow(&self, query: RowQuery) -> RowQuery {
        let mut query = query.with("state", ColumnTest::Is(self.state.as_str().into()));
        if let Some(held) = self.held {
            query = query.with("reserved", ColumnTest::Is(held.into()));
        }
        if let Some(waiting) = self.waiting {
            query = query.with("waiting", ColumnTest::Is(waiting.into()));
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
