//! Lookups: all rows whose column has a value, for decisions that cannot name the rows that they need.

use super::agent::Agent;
use super::context_settings::Configured;
use super::document::{DocumentId, Version};
use super::file::File;
use super::message::Delivery;
use super::task::{Checkpoint, Dependency, Task};
use super::team::Team;
use super::template::Template;
use super::workspace::Workspace;
use super::{ColumnValue, DependencyId, Key, Row, RowId, Stored, Table};
use crate::kernel::id::{AgentId, RunId, TaskId};
use crate::kernel::limit;

/// All rows of a table whose column has a value, or one page of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lookup {
    table: Table,
    column: &'static str,
    wanted: Match,
    page: Option<LookupPage>,
}

/// A part of the matching rows, in the order of the texts of their ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LookupPage {
    /// The id that the page begins after.
    pub after: Option<String>,
    pub limit: usize,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Match {
    Equals(ColumnValue),
    StartsWith(String),
}

impl Lookup {
    fn equals<E: Stored>(column: &'static str, value: impl Into<ColumnValue>) -> Lookup {
        Lookup { table: E::table(), column, wanted: Match::Equals(value.into()), page: None }
    }

    pub fn page(&self) -> Option<&LookupPage> {
        self.page.as_ref()
    }

    pub fn table(&self) -> Table {
        self.table
    }

    /// The index of the column in the table's columns.
    pub fn column(&self) -> usize {
        self.table.columns().iter().position(|column| column.name == self.column).unwrap_or(usize::MAX)
    }

    pub fn wanted(&self) -> &Match {
        &self.wanted
    }

    /// The rows that it finds among all rows, a page in the order of the ids.
    pub fn find_in<'r>(&self, rows: impl Iterator<Item = (&'r Key, &'r Row)>) -> Vec<(Key, Row)> {
        let found = rows.filter(|(key, row)| key.table() == self.table && self.matches(row));
        let mut found: Vec<(Key, Row)> = found.map(|(key, row)| (key.clone(), row.clone())).collect();
        if let Some(page) = &self.page {
            found.retain(|(key, _)| page.after.as_ref().is_none_or(|after| key.id() > *after));
            found.sort_by_cached_key(|(key, _)| key.id());
            found.truncate(page.limit);
        }
        found
    }

    pub fn matches(&self, row: &Row) -> bool {
        let columns = row.columns();
        match (columns.get(self.column()), &self.wanted) {
            (Some(value), Match::Equals(wanted)) => value == wanted,
            (Some(ColumnValue::Text(value)), Match::StartsWith(prefix)) => value.starts_with(prefix),
            _ => false,
        }
    }
}

/// One function for each lookup that a decision uses.
impl Lookup {
    /// Agents that are neither offline nor gone.
    pub fn online_agents() -> Lookup {
        Lookup::equals::<Agent>("live", true)
    }

    /// Open tasks claimed by or reserved for the agent.
    pub fn tasks_held_by(agent: &AgentId) -> Lookup {
        Lookup::equals::<Task>("held_by", agent.as_str())
    }

    /// Dependencies of the tasks that wait for this one.
    pub fn dependents(task: &TaskId) -> Lookup {
        Lookup::equals::<Dependency>("dep", task.as_str())
    }

    /// The next dependencies of the tasks that wait for this one, as many as one event unblocks.
    pub fn next_dependents(task: &TaskId, after: Option<&TaskId>) -> Lookup {
        let id = |after: &TaskId| DependencyId { task: after.clone(), dep: task.clone() }.to_text();
        let page = LookupPage { after: after.map(id), limit: limit::UNBLOCKED_AT_ONCE };
        Lookup { page: Some(page), ..Lookup::dependents(task) }
    }

    pub fn files_held_by(agent: &AgentId) -> Lookup {
        Lookup::equals::<File>("holder", agent.as_str())
    }

    pub fn files_of_task(task: &TaskId) -> Lookup {
        Lookup::equals::<File>("task", task.as_str())
    }

    /// Claimed, locked or conflicted paths that start with this text.
    pub fn files_claimed_under(prefix: impl Into<String>) -> Lookup {
        Lookup { table: Table::Files, column: "held_key", wanted: Match::StartsWith(prefix.into()), page: None }
    }

    pub fn tasks_of_run(run: &RunId) -> Lookup {
        Lookup::equals::<Task>("run", run.as_str())
    }

    pub fn subtasks_of(task: &TaskId) -> Lookup {
        Lookup::equals::<Task>("parent", task.as_str())
    }

    pub fn checkpoints_of(task: &TaskId) -> Lookup {
        Lookup::equals::<Checkpoint>("task", task.as_str())
    }

    pub fn templates_named(name: &str) -> Lookup {
        Lookup::equals::<Template>("name", name)
    }

    /// The versions that together make the text of a document.
    pub fn document_pieces(document: &DocumentId, base: u64) -> Lookup {
        Lookup::equals::<Version>("base", Version::base_text(document, base).as_str())
    }

    /// The settings of instances.
    pub fn configured_instances() -> Lookup {
        Lookup::equals::<Configured>("scope", Configured::INSTANCE)
    }

    /// Workspaces with a worktree at a place; see [`crate::model::workspace::place`].
    pub fn workspaces_at(place: &str) -> Lookup {
        Lookup::equals::<Workspace>("place", place)
    }

    /// Workspaces with a worktree on a branch; see [`crate::model::workspace::branch_place`].
    pub fn workspaces_on(branch: &str) -> Lookup {
        Lookup::equals::<Workspace>("branch", branch)
    }

    /// Messages to an agent that it has not acknowledged.
    pub fn pending_deliveries(agent: &AgentId) -> Lookup {
        Lookup::equals::<Delivery>("pending", agent.as_str())
    }

    /// Teams that a runner runs.
    pub fn live_teams() -> Lookup {
        Lookup::equals::<Team>("live", true)
    }
}

/// Everything that a decision needs to see.
pub type ReadSet = Vec<ReadItem>;

/// One thing that a decision needs to see.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReadItem {
    Row(Key),
    Rows(Lookup),
    /// The newest sign of life of an agent: an input like the clock, not a derived row.
    Presence(AgentId),
}

impl From<Key> for ReadItem {
    fn from(key: Key) -> ReadItem {
        ReadItem::Row(key)
    }
}

impl From<Lookup> for ReadItem {
    fn from(lookup: Lookup) -> ReadItem {
        ReadItem::Rows(lookup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lookup_has_an_indexed_column() {
        let lookups = [
            Lookup::online_agents(),
            Lookup::tasks_held_by(&"a".into()),
            Lookup::dependents(&"t".into()),
            Lookup::next_dependents(&"t".into(), None),
            Lookup::files_held_by(&"a".into()),
            Lookup::files_of_task(&"t".into()),
            Lookup::files_claimed_under("src/"),
            Lookup::tasks_of_run(&"r".into()),
            Lookup::subtasks_of(&"t".into()),
            Lookup::checkpoints_of(&"t".into()),
            Lookup::templates_named("n"),
            Lookup::document_pieces(&DocumentId::parse("run_x notes.md").unwrap(), 1),
            Lookup::configured_instances(),
            Lookup::workspaces_at("s\n/w"),
            Lookup::workspaces_on("s\nb\n/r"),
            Lookup::live_teams(),
        ];
        for lookup in lookups {
            let column = lookup.table().columns().get(lookup.column());
            assert!(column.is_some_and(|column| column.indexed), "{lookup:?}");
        }
    }
}
