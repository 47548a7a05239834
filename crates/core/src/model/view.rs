//! The rows a batch has seen, with what its commands changed so far laid over them.
//!
//! Asking for what was never loaded is a value, [`Undecided::Missing`]; the driver loads it and asks the rule again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::agent::{Agent, Lead};
use super::document::{Document, DocumentId};
use super::envelope::Filed;
use super::file::File;
use super::file_path::FilePath;
use super::handoff::Handoff;
use super::intent::Intent;
use super::message::{Delivery, Message, Sender, Thread};
use super::task::{Dependency, Task};
use super::timer::Timer;
use super::{ColumnValue, DeliveryId, DependencyId, Key, Lookup, Match, ReadItem, ReadSet, Row, RowId, Table};
use crate::kernel::caller::{Actor, Authority, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, HandoffId, IntentId, MessageId, TaskId, ThreadId, TimerId, Timestamp};
use crate::kernel::rejection::Rejection;

/// How an agent shows that it lives, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LifeSource {
    /// A process that we watch.
    Process,
    /// An open connection.
    Connection,
    /// Heartbeats that the agent sends.
    Heartbeat,
    /// Nothing but its calls.
    Call,
}

impl LifeSource {
    pub fn as_str(self) -> &'static str {
        match self {
            LifeSource::Process => "process",
            LifeSource::Connection => "connection",
            LifeSource::Heartbeat => "heartbeat",
            LifeSource::Call => "call",
        }
    }

    pub fn parse(text: &str) -> Option<LifeSource> {
        [LifeSource::Process, LifeSource::Connection, LifeSource::Heartbeat, LifeSource::Call]
            .into_iter()
            .find(|source| source.as_str() == text)
    }
}

/// The newest sign of life of an agent. Operational: an input to decisions, never folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Presence {
    pub last_seen: Timestamp,
    pub source: LifeSource,
}

#[derive(Debug, Default)]
pub struct View {
    rows: HashMap<Key, Option<Row>>,
    /// The lookups in view; of a full page also the id of its last row, after which there may be more.
    lookups: HashMap<Lookup, Option<String>>,
    /// For each indexed column and value, the rows in view that have it.
    index: BTreeMap<(Table, usize, ColumnValue), BTreeSet<Key>>,
    presence: HashMap<AgentId, Option<Presence>>,
}

impl View {
    pub fn is_loaded(&self, ask: &ReadItem) -> bool {
        match ask {
            ReadItem::Row(key) => self.rows.contains_key(key),
            ReadItem::Rows(lookup) => self.lookups.contains_key(lookup),
            ReadItem::Presence(agent) => self.presence.contains_key(agent),
        }
    }

    /// Takes a row as the store has it. What the batch already changed is newer and stays.
    pub fn load(&mut self, key: Key, row: Option<Row>) {
        if !self.rows.contains_key(&key) {
            self.set(key, row);
        }
    }

    /// Takes the result of a lookup: afterwards every matching row is in view.
    /// A page brings its rows in the order of their ids.
    pub fn load_all(&mut self, lookup: Lookup, rows: Vec<(Key, Row)>) {
        let is_full = lookup.page().is_some_and(|page| rows.len() >= page.limit);
        let end = rows.last().filter(|_| is_full).map(|(key, _)| key.id());
        for (key, row) in rows {
            self.load(key, Some(row));
        }
        self.lookups.insert(lookup, end);
    }

    pub fn load_presence(&mut self, agent: AgentId, presence: Option<Presence>) {
        self.presence.insert(agent, presence);
    }

    pub fn set(&mut self, key: Key, row: Option<Row>) {
        let old = self.rows.insert(key.clone(), row);
        if let Some(Some(old)) = &old {
            for entry in Self::entries(old) {
                if let Some(keys) = self.index.get_mut(&entry) {
                    keys.remove(&key);
                }
            }
        }
        if let Some(Some(row)) = self.rows.get(&key) {
            for entry in Self::entries(row) {
                self.index.entry(entry).or_default().insert(key.clone());
            }
        }
    }

    /// Removes a row that is to be put back changed, or is gone.
    pub fn take(&mut self, key: &Key) -> Option<Row> {
        let row = self.rows.get_mut(key)?.take()?;
        for entry in Self::entries(&row) {
            if let Some(keys) = self.index.get_mut(&entry) {
                keys.remove(key);
            }
        }
        Some(row)
    }

    fn entries(row: &Row) -> Vec<(Table, usize, ColumnValue)> {
        let table = row.table();
        let indexed = |at: &usize| table.columns().get(*at).is_some_and(|column| column.indexed);
        row.columns()
            .into_iter()
            .enumerate()
            .filter(|(at, value)| indexed(at) && *value != ColumnValue::Null)
            .map(|(at, value)| (table, at, value))
            .collect()
    }

    /// Halts unless all of these are in view, so that what is missing is loaded in one go.
    pub fn ensure_loaded(&self, read_set: ReadSet) -> Result<(), Undecided> {
        let missing: ReadSet = read_set.into_iter().filter(|ask| !self.is_loaded(ask)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Undecided::Missing(missing)) }
    }

    pub fn get(&self, key: &Key) -> Result<Option<&Row>, Undecided> {
        match self.rows.get(key) {
            Some(row) => Ok(row.as_ref()),
            None => Err(Undecided::Missing(vec![key.clone().into()])),
        }
    }

    /// Every matching row, or those of the page.
    pub fn all(&self, lookup: &Lookup) -> Result<Vec<&Row>, Undecided> {
        let end = self.page_end(lookup)?;
        let (table, column) = (lookup.table(), lookup.column());
        let keys: Vec<&Key> = match lookup.wanted() {
            Match::Equals(value) => self.index.get(&(table, column, value.clone())).into_iter().flatten().collect(),
            Match::StartsWith(prefix) => self
                .index
                .range((table, column, ColumnValue::Text(prefix.clone()))..)
                .take_while(|((t, c, value), _)| {
                    *t == table && *c == column && matches!(value, ColumnValue::Text(text) if text.starts_with(prefix))
                })
                .flat_map(|(_, keys)| keys)
                .collect(),
        };
        let row = |key: &Key| self.rows.get(key).and_then(Option::as_ref);
        let Some(page) = lookup.page() else { return Ok(keys.into_iter().filter_map(row).collect()) };
        let mut on_page: Vec<(String, &Key)> = keys.into_iter().map(|key| (key.id(), key)).collect();
        on_page.retain(|(id, _)| {
            page.after.as_ref().is_none_or(|after| id > after) && end.is_none_or(|end| id.as_str() <= end)
        });
        on_page.sort_unstable();
        Ok(on_page.into_iter().filter_map(|(_, key)| row(key)).collect())
    }

    /// The id of the last row of a full page, after which there may be more.
    pub(crate) fn page_end(&self, lookup: &Lookup) -> Result<Option<&str>, Undecided> {
        match self.lookups.get(lookup) {
            Some(end) => Ok(end.as_deref()),
            None => Err(Undecided::Missing(vec![lookup.clone().into()])),
        }
    }

    pub fn presence(&self, agent: &AgentId) -> Result<Option<Presence>, Undecided> {
        match self.presence.get(agent) {
            Some(presence) => Ok(*presence),
            None => Err(Undecided::Missing(vec![ReadItem::Presence(agent.clone())])),
        }
    }
}

/// Typed access to rows. `find_x` returns `None` for a missing row, `x` rejects the command.
impl View {
    pub fn find_agent(&self, id: &AgentId) -> Result<Option<&Agent>, Undecided> {
        Ok(match self.get(&Key::Agent(id.clone()))? {
            Some(Row::Agent(agent)) => Some(agent),
            _ => None,
        })
    }

    pub(crate) fn agent_row(&self, id: &AgentId) -> Result<&Agent, Undecided> {
        self.find_agent(id)?.ok_or_else(|| {
            Rejection::new(Code::AgentNotFound, "Agent not found").hint("register the agent first").into()
        })
    }

    /// Known and not gone; it may be offline.
    pub(crate) fn agent(&self, id: &AgentId) -> Result<&Agent, Undecided> {
        let agent = self.agent_row(id)?;
        if agent.has_left() {
            return Err(Rejection::new(Code::AgentNotFound, format!("Agent not found: '{id}' has left the team"))
                .hint("register it again first")
                .into());
        }
        Ok(agent)
    }

    /// Here right now. Claims go to nobody else: only a fact about a live agent could end them again.
    pub(crate) fn online_agent(&self, id: &AgentId) -> Result<&Agent, Undecided> {
        let agent = self.agent(id)?;
        if !agent.is_online() {
            return Err(Rejection::new(Code::AgentOffline, format!("agent '{id}' is offline"))
                .hint("it can take this when it shows signs of life again, by a heartbeat or any call")
                .into());
        }
        Ok(agent)
    }

    pub fn find_task(&self, id: &TaskId) -> Result<Option<&Task>, Undecided> {
        Ok(match self.get(&Key::Task(id.clone()))? {
            Some(Row::Task(task)) => Some(task),
            _ => None,
        })
    }

    pub(crate) fn task(&self, id: &TaskId) -> Result<&Task, Undecided> {
        self.find_task(id)?.ok_or_else(|| Rejection::new(Code::TaskNotFound, "Task not found").into())
    }

    pub fn find_file(&self, key: &str) -> Result<Option<&File>, Undecided> {
        Ok(match self.get(&Key::File(key.to_owned()))? {
            Some(Row::File(file)) => Some(file),
            _ => None,
        })
    }

    pub(crate) fn file(&self, path: &FilePath) -> Result<&File, Undecided> {
        self.find_file(path.key())?.ok_or_else(|| Rejection::not_tracked().into())
    }

    pub(crate) fn handoff(&self, id: &HandoffId) -> Result<Option<&Handoff>, Undecided> {
        Ok(match self.get(&Key::Handoff(id.clone()))? {
            Some(Row::Handoff(handoff)) => Some(handoff),
            _ => None,
        })
    }

    pub(crate) fn timer(&self, id: &TimerId) -> Result<Option<&Timer>, Undecided> {
        Ok(match self.get(&Key::Timer(id.clone()))? {
            Some(Row::Timer(timer)) => Some(timer),
            _ => None,
        })
    }

    pub(crate) fn intent(&self, id: &IntentId) -> Result<Option<&Intent>, Undecided> {
        Ok(match self.get(&Key::Intent(id.clone()))? {
            Some(Row::Intent(intent)) => Some(intent),
            _ => None,
        })
    }

    pub fn find_message(&self, id: &MessageId) -> Result<Option<&Message>, Undecided> {
        Ok(match self.get(&Key::Message(id.clone()))? {
            Some(Row::Message(message)) => Some(message),
            _ => None,
        })
    }

    pub(crate) fn message(&self, id: &MessageId) -> Result<&Message, Undecided> {
        let missing = || Rejection::new(Code::MessageNotFound, format!("Message not found: '{id}'")).into();
        self.find_message(id)?.ok_or_else(missing)
    }

    pub(crate) fn delivery(&self, message: &MessageId, agent: &AgentId) -> Result<Option<&Delivery>, Undecided> {
        Ok(match self.get(&Key::Delivery(DeliveryId { message: message.clone(), agent: agent.clone() }))? {
            Some(Row::Delivery(delivery)) => Some(delivery),
            _ => None,
        })
    }

    pub(crate) fn thread(&self, id: &ThreadId) -> Result<Option<&Thread>, Undecided> {
        Ok(match self.get(&Key::Thread(id.clone()))? {
            Some(Row::Thread(thread)) => Some(thread),
            _ => None,
        })
    }

    pub(crate) fn sender(&self, id: &AgentId) -> Result<Option<&Sender>, Undecided> {
        Ok(match self.get(&Key::Sender(id.clone()))? {
            Some(Row::Sender(sender)) => Some(sender),
            _ => None,
        })
    }

    pub(crate) fn envelope(&self, id: &MessageId) -> Result<Option<&Filed>, Undecided> {
        Ok(match self.get(&Key::Envelope(id.clone()))? {
            Some(Row::Envelope(filed)) => Some(filed),
            _ => None,
        })
    }

    pub fn document(&self, id: &DocumentId) -> Result<Option<&Document>, Undecided> {
        Ok(match self.get(&Key::Document(id.clone()))? {
            Some(Row::Document(document)) => Some(document),
            _ => None,
        })
    }

    pub fn lead(&self) -> Result<Option<&Lead>, Undecided> {
        Ok(match self.get(&Key::lead())? {
            Some(Row::Lead(lead)) => Some(lead),
            _ => None,
        })
    }

    pub(crate) fn live_agents(&self) -> Result<Vec<&Agent>, Undecided> {
        let rows = self.all(&Lookup::online_agents())?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Agent(agent) = row { Some(agent) } else { None }).collect())
    }

    pub(crate) fn tasks_held_by(&self, agent: &AgentId) -> Result<Vec<&Task>, Undecided> {
        let rows = self.all(&Lookup::tasks_held_by(agent))?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect())
    }

    pub(crate) fn parts_of(&self, task: &TaskId) -> Result<Vec<&Task>, Undecided> {
        let rows = self.all(&Lookup::subtasks_of(task))?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Task(task) = row { Some(task) } else { None }).collect())
    }

    pub(crate) fn dependents(&self, task: &TaskId) -> Result<Vec<&Dependency>, Undecided> {
        let rows = self.all(&Lookup::dependents(task))?;
        Ok(rows.into_iter().filter_map(|row| if let Row::Dependency(edge) = row { Some(edge) } else { None }).collect())
    }

    /// The next tasks that wait for this one, and the last of them if there may be more.
    pub(crate) fn next_dependents(
        &self,
        task: &TaskId,
        after: Option<&TaskId>,
    ) -> Result<(Vec<TaskId>, Option<TaskId>), Undecided> {
        let lookup = Lookup::next_dependents(task, after);
        let waits = |row: &Row| if let Row::Dependency(edge) = row { Some(edge.task.clone()) } else { None };
        let tasks = self.all(&lookup)?.into_iter().filter_map(waits).collect();
        let end = self.page_end(&lookup)?.and_then(DependencyId::from_text);
        Ok((tasks, end.map(|end| end.task)))
    }

    /// The tasks that a task has to wait for still. Its row may name some that have ended: see [`Task::waiting_on`].
    pub(crate) fn open_dependencies<'t>(&self, task: &'t Task) -> Result<Vec<&'t TaskId>, Undecided> {
        self.ensure_loaded(task.waiting_on.iter().map(|dep| Key::Task(dep.clone()).into()).collect())?;
        let mut open = vec![];
        for dep in &task.waiting_on {
            if self.find_task(dep)?.is_none_or(|dep| !dep.state.is_finished()) {
                open.push(dep);
            }
        }
        Ok(open)
    }

    pub(crate) fn files_held_by(&self, agent: &AgentId) -> Result<Vec<&File>, Undecided> {
        self.files(&Lookup::files_held_by(agent))
    }

    pub(crate) fn files_of_task(&self, task: &TaskId) -> Result<Vec<&File>, Undecided> {
        self.files(&Lookup::files_of_task(task))
    }

    pub(crate) fn files_held_under(&self, prefix: &str) -> Result<Vec<&File>, Undecided> {
        self.files(&Lookup::files_claimed_under(prefix))
    }

    fn files(&self, lookup: &Lookup) -> Result<Vec<&File>, Undecided> {
        let rows = self.all(lookup)?;
        Ok(rows.into_iter().filter_map(|row| if let Row::File(file) = row { Some(file) } else { None }).collect())
    }

    /// A person, or the holder of the lead's position.
    pub(crate) fn has_authority(&self, caller: &Caller) -> Result<bool, Undecided> {
        if caller.power >= Authority::Lead {
            return Ok(true);
        }
        let Some(agent) = caller.actor.agent() else { return Ok(false) };
        Ok(self.lead()?.and_then(|lead| lead.holder.as_ref()) == Some(agent))
    }

    pub(crate) fn ensure_authority(&self, caller: &Caller, what: &str) -> Result<(), Undecided> {
        if self.has_authority(caller)? {
            return Ok(());
        }
        Err(Rejection::new(Code::Forbidden, format!("only the lead or a person may {what}"))
            .hint("ask the lead, or use the command line, which acts as a person")
            .into())
    }

    /// The rule on acting for an agent, for commands and for calls that only read. An agent acts for itself; the lead and
    /// people act for others. A caller without a name acts for any agent. An id that is bound to a credential needs a
    /// caller with a credential, also if that is the lead.
    pub fn ensure_may_act_for(&self, caller: &Caller, agent: &AgentId) -> Result<(), Undecided> {
        match &caller.actor {
            Actor::Agent(id) if id != agent && !self.has_authority(caller)? => {
                Err(Rejection::acts_for_other(id, agent).into())
            }
            Actor::Agent(_) | Actor::Anonymous
                if !caller.may_speak_as_bound(agent)
                    && self.find_agent(agent)?.is_some_and(|agent| agent.has_credential) =>
            {
                Err(Rejection::sealed(agent).into())
            }
            _ => Ok(()),
        }
    }

    /// As [`View::ensure_may_act_for`], for authors that need not be registered: no name of another kind may be borrowed.
    pub(crate) fn ensure_may_author_as(&self, caller: &Caller, author: &AgentId) -> Result<(), Undecided> {
        if Actor::is_reserved(author.as_str()) && caller.actor.to_string() != author.as_str() {
            let rejection = Rejection::new(Code::Forbidden, format!("'{author}' is not the name of an agent"));
            return Err(rejection
                .hint("name an agent, or yourself as person:NAME with the token of that person")
                .into());
        }
        self.ensure_may_act_for(caller, author)
    }
}

/// The reason why a command has no decision yet, or never will.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Undecided {
    Rejected(Rejection),
    /// These must be loaded first; then the command is decided again.
    Missing(ReadSet),
}

impl From<Rejection> for Undecided {
    fn from(rejection: Rejection) -> Undecided {
        Undecided::Rejected(rejection)
    }
}
