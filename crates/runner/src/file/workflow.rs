//! The top level of a workflow file.

use std::path::Path;

use rookery_core::kernel::limit;

use super::agent::{self, Agent};
use super::context::{self, ContextConfig};
use super::cursor::{Field, FileReader};
use super::fault::{FileFault, InFile};
use super::limits::{self, TeamLimits};
use super::params::{self, WorkflowParam};
use super::setup::{self, Setup};
use super::shape::{Record, Shape, optional_key, required_key};
use super::steps::{self, StepConfig};
use super::template::TextTemplate;

pub(super) const RECORD: Record = Record {
    name: "workflow",
    about: "A team of agents and their work.",
    keys: &[
        optional_key("name", Shape::Text, "The name of the workflow; the name of the file if absent"),
        optional_key("context", context::SHAPE, "The location of the channel and the documents"),
        required_key(
            "agents",
            Shape::Map { names: agent::NAME, of: &Shape::Record(&agent::RECORD) },
            "The team, by name",
        ),
        optional_key("params", Shape::List(&Shape::Record(&params::RECORD)), "Parameters for the command line"),
        optional_key("limits", Shape::Record(&limits::RECORD), "Limits of the whole run"),
        optional_key("setup", Shape::List(&Shape::Record(&setup::RECORD)), "Commands to run first, in this order"),
        optional_key("kickoff", Shape::Text, "The first message; the agents that it @mentions begin"),
        optional_key("steps", Shape::List(&Shape::Record(&steps::RECORD)), "Expected results of the steps of the work"),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct Workflow {
    pub name: Option<InFile<String>>,
    pub context: ContextConfig,
    pub agents: Vec<Agent>,
    /// The names of all agents, including those with faults.
    pub names: Vec<String>,
    pub params: Vec<WorkflowParam>,
    pub limits: TeamLimits,
    pub setup: Vec<Setup>,
    pub kickoff: Option<TextTemplate>,
    pub steps: Vec<StepConfig>,
}

impl Workflow {
    pub(super) fn read(field: &Field<'_>, folder: &Path, reader: &mut FileReader<'_>) -> Option<Workflow> {
        let keys = field.record(reader, &RECORD)?;
        let names: Vec<String> = keys.get("agents").map(Field::names).unwrap_or_default();
        Some(Workflow {
            name: keys.get("name").and_then(|field| name(field, reader)),
            context: keys.get("context").map(|field| ContextConfig::read(field, reader)).unwrap_or_default(),
            agents: keys.get("agents").map(|field| Agent::read_all(field, folder, reader)).unwrap_or_default(),
            params: keys.get("params").map(|field| WorkflowParam::read_all(field, reader)).unwrap_or_default(),
            limits: keys.get("limits").map(|field| TeamLimits::read(field, reader)).unwrap_or_default(),
            setup: keys.get("setup").map(|field| Setup::read_all(field, reader)).unwrap_or_default(),
            kickoff: keys.get("kickoff").and_then(|field| field.template(reader)),
            steps: keys.get("steps").map(|field| StepConfig::read_all(field, &names, reader)).unwrap_or_default(),
            names,
        })
    }

    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name.value == name)
    }
}

fn name(field: &Field<'_>, reader: &mut FileReader<'_>) -> Option<InFile<String>> {
    let name = field.text(reader)?;
    if name.value.trim().is_empty() || name.value.len() > limit::NAME_BYTES || name.value.contains(char::is_control) {
        let fault = FileFault::new(&field.place, format!("must be one line of at most {} bytes", limit::NAME_BYTES));
        reader.fault(fault.found(field.describe(reader)));
        return None;
    }
    Some(name)
}
