//! How derived rows are named and found: by key, or by the value of an indexed column.
//!
//! Tables are described as data, so that every engine generates its loads and upserts from one description.

use serde::{Deserialize, Serialize};

use crate::clutch::PayloadType;
use crate::document::{DocumentId, Version};
use crate::file::FilePath;
use crate::id::{
    AgentId, HandoffId, IntentId, MessageId, RunId, TaskId, TeamId, TemplateId, ThreadId, TimerId, TurnId, WorkspaceId,
};
use crate::instance::{Configured, Scope};
use crate::row::Row;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Table {
    Agents,
    Tasks,
    Dependencies,
    Files,
    Handoffs,
    Leadership,
    Checkpoints,
    Timers,
    Intents,
    Runs,
    Templates,
    Messages,
    Deliveries,
    Threads,
    Senders,
    Documents,
    Versions,
    Contexts,
    Workspaces,
    ArtifactRefs,
    Schemas,
    StepContracts,
    Groups,
    Envelopes,
    Teams,
    Turns,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    Text,
    Integer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnKind,
    pub indexed: bool,
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text, indexed: true }
}

const fn integer(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Integer, indexed: true }
}

const fn plain(column: Column) -> Column {
    Column { indexed: false, ..column }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ColumnValue {
    Null,
    Text(String),
    Integer(i64),
}

impl From<Option<String>> for ColumnValue {
    fn from(value: Option<String>) -> Self {
        value.map_or(ColumnValue::Null, ColumnValue::Text)
    }
}

impl From<&str> for ColumnValue {
    fn from(value: &str) -> Self {
        ColumnValue::Text(value.to_owned())
    }
}

impl From<bool> for ColumnValue {
    fn from(value: bool) -> Self {
        ColumnValue::Integer(i64::from(value))
    }
}

impl From<u64> for ColumnValue {
    fn from(value: u64) -> Self {
        ColumnValue::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl Table {
    pub const ALL: [Table; 26] = [
        Table::Agents,
        Table::Tasks,
        Table::Dependencies,
        Table::Files,
        Table::Handoffs,
        Table::Leadership,
        Table::Checkpoints,
        Table::Timers,
        Table::Intents,
        Table::Runs,
        Table::Templates,
        Table::Messages,
        Table::Deliveries,
        Table::Threads,
        Table::Senders,
        Table::Documents,
        Table::Versions,
        Table::Contexts,
        Table::Workspaces,
        Table::ArtifactRefs,
        Table::Schemas,
        Table::StepContracts,
        Table::Groups,
        Table::Envelopes,
        Table::Teams,
        Table::Turns,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Table::Agents => "agents",
            Table::Tasks => "tasks",
            Table::Dependencies => "task_edges",
            Table::Files => "files",
            Table::Handoffs => "handoffs",
            Table::Leadership => "seats",
            Table::Checkpoints => "checkpoints",
            Table::Timers => "timers",
            Table::Intents => "intents",
            Table::Runs => "runs",
            Table::Templates => "templates",
            Table::Messages => "messages",
            Table::Deliveries => "deliveries",
            Table::Threads => "threads",
            Table::Senders => "senders",
            Table::Documents => "documents",
            Table::Versions => "document_versions",
            Table::Contexts => "contexts",
            Table::Workspaces => "workspaces",
            Table::ArtifactRefs => "artifact_refs",
            Table::Schemas => "schemas",
            Table::StepContracts => "workflow_rules",
            Table::Groups => "groups",
            Table::Envelopes => "envelopes",
            Table::Teams => "teams",
            Table::Turns => "turns",
        }
    }

    /// The columns beside key and document, in the order of [`Row::columns`].
    pub fn columns(self) -> &'static [Column] {
        const AGENTS: [Column; 2] = [integer("live"), integer("joined")];
        const TASKS: [Column; 10] = [
            integer("created"),
            text("run"),
            text("state"),
            text("assignee"),
            text("held_by"),
            plain(integer("reserved")),
            plain(integer("waiting")),
            text("parent"),
            integer("unrouted"),
            integer("due"),
        ];
        const EDGES: [Column; 1] = [text("dep")];
        const FILES: [Column; 4] = [text("holder"), text("held_key"), text("task"), text("state")];
        const HANDOFFS: [Column; 4] = [integer("created"), text("status"), text("recipient"), text("task")];
        const CHECKPOINTS: [Column; 2] = [text("task"), integer("created")];
        const TIMERS: [Column; 1] = [integer("due")];
        const INTENTS: [Column; 1] = [integer("opened")];
        const RUNS: [Column; 3] = [integer("created"), text("status"), plain(integer("ended"))];
        const TEMPLATES: [Column; 2] = [integer("created"), text("name")];
        const MESSAGES: [Column; 5] =
            [text("channel"), plain(integer("at")), text("audience"), plain(integer("sent")), text("held")];
        const DELIVERIES: [Column; 4] = [text("pending"), plain(integer("sent")), text("message"), text("state")];
        const DOCUMENTS: [Column; 1] = [text("live_in")];
        const VERSIONS: [Column; 3] = [text("document"), plain(integer("version")), text("base")];
        const CONTEXTS: [Column; 1] = [text("scope")];
        const WORKSPACES: [Column; 5] =
            [integer("created"), text("run"), text("status"), text("place"), text("branch")];
        const ARTIFACT_REFS: [Column; 1] = [text("sha256")];
        const SCHEMAS: [Column; 1] = [integer("registered")];
        const WORKFLOWS: [Column; 1] = [integer("defined")];
        const GROUPS: [Column; 1] = [integer("changed")];
        const ENVELOPES: [Column; 2] = [text("type"), integer("received")];
        const TEAMS: [Column; 2] = [integer("live"), integer("started")];
        const TURNS: [Column; 3] = [integer("started"), text("agent"), text("team")];
        match self {
            Table::Agents => &AGENTS,
            Table::Tasks => &TASKS,
            Table::Dependencies => &EDGES,
            Table::Files => &FILES,
            Table::Handoffs => &HANDOFFS,
            Table::Leadership => &[],
            Table::Checkpoints => &CHECKPOINTS,
            Table::Timers => &TIMERS,
            Table::Intents => &INTENTS,
            Table::Runs => &RUNS,
            Table::Templates => &TEMPLATES,
            Table::Messages => &MESSAGES,
            Table::Deliveries => &DELIVERIES,
            Table::Threads | Table::Senders => &[],
            Table::Documents => &DOCUMENTS,
            Table::Versions => &VERSIONS,
            Table::Contexts => &CONTEXTS,
            Table::Workspaces => &WORKSPACES,
            Table::ArtifactRefs => &ARTIFACT_REFS,
            Table::Schemas => &SCHEMAS,
            Table::StepContracts => &WORKFLOWS,
            Table::Groups => &GROUPS,
            Table::Envelopes => &ENVELOPES,
            Table::Teams => &TEAMS,
            Table::Turns => &TURNS,
        }
    }
}

/// The name of one derived row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    Agent(AgentId),
    Task(TaskId),
    Dependency {
        task: TaskId,
        dep: TaskId,
    },
    /// By the path's key, so that spellings of one path share a row.
    File(String),
    Handoff(HandoffId),
    Lead,
    Checkpoint(String),
    Timer(TimerId),
    Intent(IntentId),
    Run(RunId),
    Template(TemplateId),
    Message(MessageId),
    Delivery {
        message: MessageId,
        agent: AgentId,
    },
    Thread(ThreadId),
    /// An author of messages, of whatever kind.
    Sender(AgentId),
    Document(DocumentId),
    Version {
        document: DocumentId,
        version: u64,
    },
    /// What was configured for an instance, or for all.
    Context(Scope),
    Workspace(WorkspaceId),
    /// That something names an artifact.
    ArtifactRef {
        sha256: String,
        by: String,
    },
    Schema(PayloadType),
    /// What the steps of a workflow expect, by its name.
    StepContracts(String),
    Group(String),
    /// A message of the Clutch protocol that came in.
    Envelope(MessageId),
    Team(TeamId),
    Turn(TurnId),
}

impl Key {
    pub fn file(path: &FilePath) -> Key {
        Key::File(path.key().to_owned())
    }

    pub fn table(&self) -> Table {
        match self {
            Key::Agent(_) => Table::Agents,
            Key::Task(_) => Table::Tasks,
            Key::Dependency { .. } => Table::Dependencies,
            Key::File(_) => Table::Files,
            Key::Handoff(_) => Table::Handoffs,
            Key::Lead => Table::Leadership,
            Key::Checkpoint(_) => Table::Checkpoints,
            Key::Timer(_) => Table::Timers,
            Key::Intent(_) => Table::Intents,
            Key::Run(_) => Table::Runs,
            Key::Template(_) => Table::Templates,
            Key::Message(_) => Table::Messages,
            Key::Delivery { .. } => Table::Deliveries,
            Key::Thread(_) => Table::Threads,
            Key::Sender(_) => Table::Senders,
            Key::Document(_) => Table::Documents,
            Key::Version { .. } => Table::Versions,
            Key::Context(_) => Table::Contexts,
            Key::Workspace(_) => Table::Workspaces,
            Key::ArtifactRef { .. } => Table::ArtifactRefs,
            Key::Schema(_) => Table::Schemas,
            Key::StepContracts(_) => Table::StepContracts,
            Key::Group(_) => Table::Groups,
            Key::Envelope(_) => Table::Envelopes,
            Key::Team(_) => Table::Teams,
            Key::Turn(_) => Table::Turns,
        }
    }

    /// The primary key's text within its table.
    pub fn id(&self) -> String {
        match self {
            Key::Agent(id) => id.to_string(),
            Key::Task(id) => id.to_string(),
            Key::Dependency { task, dep } => format!("{task}>{dep}"),
            Key::File(key) => key.clone(),
            Key::Handoff(id) => id.to_string(),
            Key::Lead => "lead".to_owned(),
            Key::Checkpoint(id) => id.clone(),
            Key::Timer(id) => id.to_string(),
            Key::Intent(id) => id.to_string(),
            Key::Run(id) => id.to_string(),
            Key::Template(id) => id.to_string(),
            Key::Message(id) => id.to_string(),
            // Ids have no spaces.
            Key::Delivery { message, agent } => format!("{message} {agent}"),
            Key::Thread(id) => id.to_string(),
            Key::Sender(id) => id.to_string(),
            Key::Document(id) => id.text(),
            Key::Version { document, version } => format!("{version} {}", document.text()),
            Key::Context(scope) => scope.text(),
            Key::Workspace(id) => id.to_string(),
            Key::ArtifactRef { sha256, by } => format!("{sha256} {by}"),
            Key::Schema(id) => id.to_string(),
            Key::StepContracts(name) | Key::Group(name) => name.clone(),
            Key::Envelope(id) => id.to_string(),
            Key::Team(id) => id.to_string(),
            Key::Turn(id) => id.to_string(),
        }
    }

    /// The key of a row as it was stored; `None` if the text cannot be one.
    pub fn parse(table: Table, id: &str) -> Option<Key> {
        Some(match table {
            Table::Agents => Key::Agent(id.into()),
            Table::Tasks => Key::Task(id.into()),
            Table::Dependencies => {
                let (task, dep) = id.split_once('>')?;
                Key::Dependency { task: task.into(), dep: dep.into() }
            }
            Table::Files => Key::File(id.to_owned()),
            Table::Handoffs => Key::Handoff(id.into()),
            Table::Leadership => Key::Lead,
            Table::Checkpoints => Key::Checkpoint(id.to_owned()),
            Table::Timers => Key::Timer(id.into()),
            Table::Intents => Key::Intent(id.into()),
            Table::Runs => Key::Run(id.into()),
            Table::Templates => Key::Template(id.into()),
            Table::Messages => Key::Message(id.into()),
            Table::Deliveries => {
                let (message, agent) = id.split_once(' ')?;
                Key::Delivery { message: message.into(), agent: agent.into() }
            }
            Table::Threads => Key::Thread(id.into()),
            Table::Senders => Key::Sender(id.into()),
            Table::Documents => Key::Document(DocumentId::parse(id)?),
            Table::Versions => {
                let (version, document) = id.split_once(' ')?;
                Key::Version { document: DocumentId::parse(document)?, version: version.parse().ok()? }
            }
            Table::Contexts => Key::Context(Scope::parse(id)?),
            Table::Workspaces => Key::Workspace(id.into()),
            Table::ArtifactRefs => {
                let (sha256, by) = id.split_once(' ')?;
                Key::ArtifactRef { sha256: sha256.to_owned(), by: by.to_owned() }
            }
            Table::Schemas => Key::Schema(PayloadType::parse(id)?),
            Table::StepContracts => Key::StepContracts(id.to_owned()),
            Table::Groups => Key::Group(id.to_owned()),
            Table::Envelopes => Key::Envelope(id.into()),
            Table::Teams => Key::Team(id.into()),
            Table::Turns => Key::Turn(id.into()),
        })
    }
}

/// Rows that a rule needs and cannot name: all whose column has a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lookup {
    /// Agents that are neither offline nor gone.
    LiveAgents,
    /// Open tasks claimed by or reserved for the agent.
    TasksHeldBy(AgentId),
    /// Edges of tasks that wait for this one.
    Dependents(TaskId),
    FilesHeldBy(AgentId),
    FilesOfTask(TaskId),
    /// Claimed, locked or conflicted paths that begin with this text.
    HeldUnder(String),
    TasksOfRun(RunId),
    /// Tasks that are part of this one.
    PartsOf(TaskId),
    CheckpointsOf(TaskId),
    TemplatesNamed(String),
    /// The versions that make the text of a document.
    DocumentPieces {
        document: DocumentId,
        base: u64,
    },
    /// What was configured for instances.
    ConfiguredInstances,
    /// Those that have a worktree at a place; see [`crate::workspace::place`].
    WorkspacesAt(String),
    /// Those that have a worktree on a branch; see [`crate::workspace::branch_place`].
    WorkspacesOn(String),
    /// Teams that somebody runs.
    LiveTeams,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Match {
    Equals(ColumnValue),
    StartsWith(String),
}

impl Lookup {
    pub fn table(&self) -> Table {
        match self {
            Lookup::LiveAgents => Table::Agents,
            Lookup::TasksHeldBy(_) => Table::Tasks,
            Lookup::Dependents(_) => Table::Dependencies,
            Lookup::FilesHeldBy(_) | Lookup::FilesOfTask(_) | Lookup::HeldUnder(_) => Table::Files,
            Lookup::TasksOfRun(_) | Lookup::PartsOf(_) => Table::Tasks,
            Lookup::CheckpointsOf(_) => Table::Checkpoints,
            Lookup::TemplatesNamed(_) => Table::Templates,
            Lookup::DocumentPieces { .. } => Table::Versions,
            Lookup::ConfiguredInstances => Table::Contexts,
            Lookup::WorkspacesAt(_) | Lookup::WorkspacesOn(_) => Table::Workspaces,
            Lookup::LiveTeams => Table::Teams,
        }
    }

    /// The index of the column in the table's columns.
    pub fn column(&self) -> usize {
        let name = match self {
            Lookup::LiveAgents | Lookup::LiveTeams => "live",
            Lookup::TasksHeldBy(_) => "held_by",
            Lookup::Dependents(_) => "dep",
            Lookup::FilesHeldBy(_) => "holder",
            Lookup::FilesOfTask(_) => "task",
            Lookup::HeldUnder(_) => "held_key",
            Lookup::TasksOfRun(_) => "run",
            Lookup::PartsOf(_) => "parent",
            Lookup::CheckpointsOf(_) => "task",
            Lookup::TemplatesNamed(_) => "name",
            Lookup::DocumentPieces { .. } => "base",
            Lookup::ConfiguredInstances => "scope",
            Lookup::WorkspacesAt(_) => "place",
            Lookup::WorkspacesOn(_) => "branch",
        };
        self.table().columns().iter().position(|column| column.name == name).unwrap_or(usize::MAX)
    }

    pub fn wanted(&self) -> Match {
        match self {
            Lookup::LiveAgents | Lookup::LiveTeams => Match::Equals(ColumnValue::Integer(1)),
            Lookup::TasksHeldBy(id) | Lookup::FilesHeldBy(id) => Match::Equals(id.as_str().into()),
            Lookup::Dependents(id) | Lookup::FilesOfTask(id) => Match::Equals(id.as_str().into()),
            Lookup::HeldUnder(prefix) => Match::StartsWith(prefix.clone()),
            Lookup::TasksOfRun(id) => Match::Equals(id.as_str().into()),
            Lookup::PartsOf(id) => Match::Equals(id.as_str().into()),
            Lookup::CheckpointsOf(id) => Match::Equals(id.as_str().into()),
            Lookup::TemplatesNamed(name) => Match::Equals(name.as_str().into()),
            Lookup::DocumentPieces { document, base } => {
                Match::Equals(Version::base_text(document, *base).as_str().into())
            }
            Lookup::ConfiguredInstances => Match::Equals(Configured::INSTANCE.into()),
            Lookup::WorkspacesAt(place) | Lookup::WorkspacesOn(place) => Match::Equals(place.as_str().into()),
        }
    }

    pub fn matches(&self, row: &Row) -> bool {
        let columns = row.columns();
        match (columns.get(self.column()), self.wanted()) {
            (Some(value), Match::Equals(wanted)) => *value == wanted,
            (Some(ColumnValue::Text(value)), Match::StartsWith(prefix)) => value.starts_with(&prefix),
            _ => false,
        }
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
            Lookup::LiveAgents,
            Lookup::TasksHeldBy("a".into()),
            Lookup::Dependents("t".into()),
            Lookup::FilesHeldBy("a".into()),
            Lookup::FilesOfTask("t".into()),
            Lookup::HeldUnder("src/".into()),
            Lookup::TasksOfRun("r".into()),
            Lookup::PartsOf("t".into()),
            Lookup::CheckpointsOf("t".into()),
            Lookup::TemplatesNamed("n".into()),
            Lookup::DocumentPieces { document: DocumentId::parse("run_x notes.md").unwrap(), base: 1 },
            Lookup::ConfiguredInstances,
            Lookup::WorkspacesAt("s\n/w".into()),
            Lookup::WorkspacesOn("s\nb\n/r".into()),
            Lookup::LiveTeams,
        ];
        for lookup in lookups {
            let column = lookup.table().columns().get(lookup.column());
            assert!(column.is_some_and(|column| column.indexed), "{lookup:?}");
        }
    }

    #[test]
    fn keys_read_back_as_stored() {
        let keys = [
            Key::Agent("a".into()),
            Key::Task("t".into()),
            Key::Dependency { task: "t".into(), dep: "u".into() },
            Key::File("src/".into()),
            Key::Handoff("h".into()),
            Key::Lead,
            Key::Checkpoint("c".into()),
            Key::Timer("x".into()),
            Key::Intent("i".into()),
            Key::Run("r".into()),
            Key::Template("p".into()),
            Key::Message("m".into()),
            Key::Delivery { message: "m".into(), agent: "a@b".into() },
            Key::Thread("thr_x".into()),
            Key::Sender("person:Anna Bo".into()),
            Key::Document(DocumentId::parse("run_a/b my notes.md").unwrap()),
            Key::Version { document: DocumentId::parse("run_x my notes.md").unwrap(), version: 7 },
            Key::Context(Scope::Project),
            Key::Context(Scope::Instance("run_x".into())),
            Key::Workspace("ws_1".into()),
            Key::ArtifactRef { sha256: "ab".to_owned(), by: "task:t 1".to_owned() },
            Key::Schema(PayloadType::parse("a.b.v1").unwrap()),
            Key::StepContracts("w".to_owned()),
            Key::Group("g".to_owned()),
            Key::Envelope("msg_1".into()),
            Key::Team("@pr-1".into()),
            Key::Turn("turn_1".into()),
        ];
        for key in keys {
            assert_eq!(Key::parse(key.table(), &key.id()), Some(key));
        }
    }
}
