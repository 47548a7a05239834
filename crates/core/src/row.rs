//! A derived row: the document of one thing, with the columns it can be found by and the tallies it counts in.

use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Lead};
use crate::artifact::ArtifactRef;
use crate::clutch::Filed;
use crate::contract::{Schema, StepContracts};
use crate::document::{Document, Version};
use crate::file::File;
use crate::group::Group;
use crate::handoff::Handoff;
use crate::instance::Configured;
use crate::intent::Intent;
use crate::key::{ColumnValue, Table};
use crate::message::{Delivery, Message, Sender, Thread};
use crate::run::Run;
use crate::task::{Checkpoint, Dependency, Task};
use crate::team::Team;
use crate::template::Template;
use crate::timer::Timer;
use crate::turn::Turn;
use crate::workspace::Workspace;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "most rows are tasks, which are the largest: a box would help few")]
pub enum Row {
    Agent(Agent),
    Task(Task),
    Dependency(Dependency),
    File(File),
    Handoff(Handoff),
    Lead(Lead),
    Checkpoint(Checkpoint),
    Timer(Timer),
    Intent(Intent),
    Run(Run),
    Template(Template),
    Message(Message),
    Delivery(Delivery),
    Thread(Thread),
    Sender(Sender),
    Document(Document),
    Version(Version),
    Context(Configured),
    Workspace(Workspace),
    ArtifactRef(ArtifactRef),
    Schema(Schema),
    StepContracts(StepContracts),
    Group(Group),
    Envelope(Filed),
    Team(Team),
    Turn(Turn),
}

impl Row {
    pub fn table(&self) -> Table {
        match self {
            Row::Agent(_) => Table::Agents,
            Row::Task(_) => Table::Tasks,
            Row::Dependency(_) => Table::Dependencies,
            Row::File(_) => Table::Files,
            Row::Handoff(_) => Table::Handoffs,
            Row::Lead(_) => Table::Leadership,
            Row::Checkpoint(_) => Table::Checkpoints,
            Row::Timer(_) => Table::Timers,
            Row::Intent(_) => Table::Intents,
            Row::Run(_) => Table::Runs,
            Row::Template(_) => Table::Templates,
            Row::Message(_) => Table::Messages,
            Row::Delivery(_) => Table::Deliveries,
            Row::Thread(_) => Table::Threads,
            Row::Sender(_) => Table::Senders,
            Row::Document(_) => Table::Documents,
            Row::Version(_) => Table::Versions,
            Row::Context(_) => Table::Contexts,
            Row::Workspace(_) => Table::Workspaces,
            Row::ArtifactRef(_) => Table::ArtifactRefs,
            Row::Schema(_) => Table::Schemas,
            Row::StepContracts(_) => Table::StepContracts,
            Row::Group(_) => Table::Groups,
            Row::Envelope(_) => Table::Envelopes,
            Row::Team(_) => Table::Teams,
            Row::Turn(_) => Table::Turns,
        }
    }

    /// The values of [`Table::columns`], in their order.
    pub fn columns(&self) -> Vec<ColumnValue> {
        match self {
            Row::Agent(agent) => agent.columns(),
            Row::Task(task) => task.columns(),
            Row::Dependency(edge) => vec![edge.dep.as_str().into()],
            Row::File(file) => file.columns(),
            Row::Handoff(handoff) => handoff.columns(),
            Row::Lead(_) => vec![],
            Row::Checkpoint(checkpoint) => vec![checkpoint.task.as_str().into(), checkpoint.created.0.into()],
            Row::Timer(timer) => vec![ColumnValue::Integer(timer.due.0)],
            Row::Intent(intent) => vec![intent.opened.0.into()],
            Row::Run(run) => run.columns(),
            Row::Template(template) => template.columns(),
            Row::Message(message) => message.columns(),
            Row::Delivery(delivery) => delivery.columns(),
            Row::Thread(_) | Row::Sender(_) => vec![],
            Row::Document(document) => document.columns(),
            Row::Version(version) => version.columns(),
            Row::Context(configured) => configured.columns(),
            Row::Workspace(workspace) => workspace.columns(),
            Row::ArtifactRef(named) => vec![named.sha256.as_str().into()],
            Row::Schema(schema) => schema.columns(),
            Row::StepContracts(workflow) => workflow.columns(),
            Row::Group(group) => group.columns(),
            Row::Envelope(filed) => filed.columns(),
            Row::Team(team) => team.columns(),
            Row::Turn(turn) => turn.columns(),
        }
    }

    /// The counts this row is one of. The store keeps them up with the rows, so that totals need no scan.
    pub fn tallies(&self) -> Vec<&'static str> {
        match self {
            Row::Agent(agent) => agent.tallies(),
            Row::Task(task) => task.tallies(),
            Row::File(file) => file.tallies(),
            Row::Handoff(handoff) => handoff.tallies(),
            Row::Run(run) => run.tallies(),
            Row::Template(_) | Row::Workspace(_) => vec![],
            Row::Message(message) => message.tallies(),
            Row::Dependency(_) | Row::Lead(_) | Row::Checkpoint(_) | Row::Timer(_) | Row::Intent(_) => vec![],
            Row::Delivery(_) | Row::Thread(_) | Row::Sender(_) | Row::Document(_) | Row::Version(_) => vec![],
            Row::Context(_) | Row::ArtifactRef(_) | Row::Envelope(_) => vec![],
            Row::Schema(_) | Row::StepContracts(_) | Row::Group(_) | Row::Team(_) | Row::Turn(_) => vec![],
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        // Rows are plain data with string keys: writing them to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn decode(table: Table, doc: &[u8]) -> Result<Row, serde_json::Error> {
        Ok(match table {
            Table::Agents => Row::Agent(serde_json::from_slice(doc)?),
            Table::Tasks => Row::Task(serde_json::from_slice(doc)?),
            Table::Dependencies => Row::Dependency(serde_json::from_slice(doc)?),
            Table::Files => Row::File(serde_json::from_slice(doc)?),
            Table::Handoffs => Row::Handoff(serde_json::from_slice(doc)?),
            Table::Leadership => Row::Lead(serde_json::from_slice(doc)?),
            Table::Checkpoints => Row::Checkpoint(serde_json::from_slice(doc)?),
            Table::Timers => Row::Timer(serde_json::from_slice(doc)?),
            Table::Intents => Row::Intent(serde_json::from_slice(doc)?),
            Table::Runs => Row::Run(serde_json::from_slice(doc)?),
            Table::Templates => Row::Template(serde_json::from_slice(doc)?),
            Table::Messages => Row::Message(serde_json::from_slice(doc)?),
            Table::Deliveries => Row::Delivery(serde_json::from_slice(doc)?),
            Table::Threads => Row::Thread(serde_json::from_slice(doc)?),
            Table::Senders => Row::Sender(serde_json::from_slice(doc)?),
            Table::Documents => Row::Document(serde_json::from_slice(doc)?),
            Table::Versions => Row::Version(serde_json::from_slice(doc)?),
            Table::Contexts => Row::Context(serde_json::from_slice(doc)?),
            Table::Workspaces => Row::Workspace(serde_json::from_slice(doc)?),
            Table::ArtifactRefs => Row::ArtifactRef(serde_json::from_slice(doc)?),
            Table::Schemas => Row::Schema(serde_json::from_slice(doc)?),
            Table::StepContracts => Row::StepContracts(serde_json::from_slice(doc)?),
            Table::Groups => Row::Group(serde_json::from_slice(doc)?),
            Table::Envelopes => Row::Envelope(serde_json::from_slice(doc)?),
            Table::Teams => Row::Team(serde_json::from_slice(doc)?),
            Table::Turns => Row::Turn(serde_json::from_slice(doc)?),
        })
    }
}
