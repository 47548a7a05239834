//! Reading: typed questions over the derived rows, each answered with the position it is true at.

use std::collections::BTreeMap;

use rookery_core::agent::{Agent, Lead};
use rookery_core::file::File;
use rookery_core::handoff::Handoff;
use rookery_core::key::{ColumnValue, Table};
use rookery_core::log::LogRow;
use rookery_core::task::{State, Task};
use rookery_core::{AgentId, HandoffId, Key, Row, Seq, TaskId};
use rookery_store::query::Test;
use rookery_store::{Head, ListQuery, LogQuery};

use crate::engine::{Engine, EngineError};

/// A value and the head of the log that it is true at.
#[derive(Clone, PartialEq, Debug)]
pub struct At<T> {
    pub value: T,
    pub head: Head,
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
    pub state: State,
    pub held: Option<bool>,
    pub waiting: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFilter {
    All,
    Claimed,
    Conflicted,
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

impl Engine {
    pub async fn agent(&self, id: &AgentId) -> Result<At<Option<Agent>>, EngineError> {
        self.one(Key::Agent(id.clone()), |row| if let Row::Agent(agent) = row { Some(agent) } else { None }).await
    }

    pub async fn task(&self, id: &TaskId) -> Result<At<Option<Task>>, EngineError> {
        self.one(Key::Task(id.clone()), |row| if let Row::Task(task) = row { Some(task) } else { None }).await
    }

    pub async fn file(&self, key: &str) -> Result<At<Option<File>>, EngineError> {
        self.one(Key::File(key.to_owned()), |row| if let Row::File(file) = row { Some(file) } else { None }).await
    }

    pub async fn handoff(&self, id: &HandoffId) -> Result<At<Option<Handoff>>, EngineError> {
        self.one(Key::Handoff(id.clone()), |row| if let Row::Handoff(handoff) = row { Some(handoff) } else { None })
            .await
    }

    pub async fn lead(&self) -> Result<At<Option<AgentId>>, EngineError> {
        let seat = self.one(Key::Lead, |row| if let Row::Lead(lead) = row { Some(lead) } else { None }).await?;
        Ok(At { value: seat.value.and_then(|lead: Lead| lead.holder), head: seat.head })
    }

    async fn one<T>(&self, key: Key, of: impl FnOnce(Row) -> Option<T>) -> Result<At<Option<T>>, EngineError> {
        let (mut rows, head) = self.store().rows(vec![key]).await?;
        Ok(At { value: rows.pop().flatten().and_then(of), head })
    }

    /// Agents that have not left, in the order they joined.
    pub async fn agents(&self) -> Result<At<Vec<Agent>>, EngineError> {
        let (rows, head) = self.store().list(agents_query()).await?;
        Ok(At { value: agents_of(rows), head })
    }

    pub async fn tasks(&self, filter: &TaskFilter) -> Result<At<Vec<Task>>, EngineError> {
        let (rows, head) = self.store().list(filter.query()).await?;
        let mut tasks = tasks_of(rows);
        if !filter.any_of.is_empty() {
            tasks.retain(|task| filter.any_of.iter().any(|shape| shape.fits(task)));
        }
        tasks.truncate(filter.limit.map_or(usize::MAX, |limit| limit as usize));
        Ok(At { value: tasks, head })
    }

    pub async fn files(&self, filter: FileFilter) -> Result<At<Vec<File>>, EngineError> {
        let (rows, head) = self.store().list(filter.query()).await?;
        Ok(At { value: files_of(rows), head })
    }

    pub async fn handoffs(&self, status: Option<&str>, to: Option<&AgentId>) -> Result<At<Vec<Handoff>>, EngineError> {
        let mut query = ListQuery::all(Table::Handoffs).ordered_by("created");
        if let Some(status) = status {
            query = query.with("status", Test::Is(status.into()));
        }
        if let Some(to) = to {
            query = query.with("recipient", Test::Is(to.as_str().into()));
        }
        let (rows, head) = self.store().list(query).await?;
        Ok(At { value: handoffs_of(rows), head })
    }

    pub async fn snapshot(&self) -> Result<At<Snapshot>, EngineError> {
        let queries = vec![
            agents_query(),
            FileFilter::All.query(),
            TaskFilter::default().query(),
            ListQuery::all(Table::Handoffs).ordered_by("created"),
            ListQuery::all(Table::Seats),
        ];
        let (lists, head) = self.store().lists(queries).await?;
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

    pub async fn tallies(&self) -> Result<At<BTreeMap<String, u64>>, EngineError> {
        let (value, head) = self.store().tallies().await?;
        Ok(At { value, head })
    }

    pub async fn log(&self, query: LogQuery) -> Result<At<Vec<LogRow>>, EngineError> {
        let (value, head) = self.store().log(query).await?;
        Ok(At { value, head })
    }
}

impl TaskFilter {
    fn query(&self) -> ListQuery {
        let mut query = ListQuery::all(Table::Tasks).ordered_by("created");
        if let Some(assignee) = &self.assignee {
            query = query.with("assignee", Test::Is(assignee.as_str().into()));
        }
        if let Some(after) = self.after {
            query = query.with("created", Test::Above(i64::try_from(after.0).unwrap_or(i64::MAX)));
        }
        if !self.any_of.is_empty() {
            let states = self.any_of.iter().map(|shape| ColumnValue::from(shape.state.as_str())).collect();
            query = query.with("state", Test::In(states));
        } else {
            query = query.at_most(self.limit);
        }
        query
    }
}

impl TaskShape {
    pub fn of(state: State) -> TaskShape {
        TaskShape { state, held: None, waiting: None }
    }

    fn fits(&self, task: &Task) -> bool {
        task.state == self.state
            && self.held.is_none_or(|held| task.held_by().is_some() == held)
            && self.waiting.is_none_or(|waiting| task.is_waiting() == waiting)
    }
}

impl FileFilter {
    fn query(self) -> ListQuery {
        let all = ListQuery::all(Table::Files);
        match self {
            FileFilter::All => all,
            FileFilter::Claimed => all.with("holder", Test::Present),
            FileFilter::Conflicted => all.with("state", Test::Is("conflicted".into())),
        }
    }
}

fn agents_query() -> ListQuery {
    ListQuery::all(Table::Agents).ordered_by("joined")
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
