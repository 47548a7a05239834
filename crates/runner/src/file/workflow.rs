//! The whole file.

use std::path::Path;

use rookery_core::kernel::limit;

use super::agent::{self, Agent};
use super::context::{self, ContextConfig};
use super::cursor::{Field, Reader};
use super::fault::{At, Fault};
use super::limits::{self, Limits};
use super::params::{self, Param};
use super::setup::{self, Setup};
use super::shape::{Record, Shape, optional, required};
use super::steps::{self, Step};
use super::template::Template;

pub(super) const RECORD: Record = Record {
    name: "workflow",
    about: "A team of agents and what they shall do.",
    keys: &[
        optional("name", Shape::Text, "What the workflow is called; the name of the file if absent"),
        optional("context", context::SHAPE, "Where the channel and the documents are kept"),
        required("agents", Shape::Map { names: agent::NAME, of: &Shape::Record(&agent::RECORD) }, "The team, by name"),
        optional("params", Shape::List(&Shape::Record(&params::RECORD)), "What can be said on the command line"),
        optional("limits", Shape::Record(&limits::RECORD), "What the whole run may take"),
        optional("setup", Shape::List(&Shape::Record(&setup::RECORD)), "Commands to run first, in this order"),
        optional("kickoff", Shape::Text, "The first message; whoever it @mentions begins"),
        optional("steps", Shape::List(&Shape::Record(&steps::RECORD)), "What must come of steps of the work"),
    ],
};

#[derive(Clone, PartialEq, Debug)]
pub struct Workflow {
    pub name: Option<At<String>>,
    pub context: ContextConfig,
    pub agents: Vec<Agent>,
    /// What all agents are called, also those that more is wrong with.
    pub names: Vec<String>,
    pub params: Vec<Param>,
    pub limits: Limits,
    pub setup: Vec<Setup>,
    pub kickoff: Option<Template>,
    pub steps: Vec<Step>,
}

impl Workflow {
    pub(super) fn read(field: &Field<'_>, folder: &Path, reader: &mut Reader<'_>) -> Option<Workflow> {
        let keys = field.record(reader, &RECORD)?;
        let names: Vec<String> = keys.get("agents").map(Field::names).unwrap_or_default();
        Some(Workflow {
            name: keys.get("name").and_then(|field| name(field, reader)),
            context: keys.get("context").map(|field| ContextConfig::read(field, reader)).unwrap_or_default(),
            agents: keys.get("agents").map(|field| Agent::read_all(field, folder, reader)).unwrap_or_default(),
            params: keys.get("params").map(|field| Param::read_all(field, reader)).unwrap_or_default(),
            limits: keys.get("limits").map(|field| Limits::read(field, reader)).unwrap_or_default(),
            setup: keys.get("setup").map(|field| Setup::read_all(field, reader)).unwrap_or_default(),
            kickoff: keys.get("kickoff").and_then(|field| field.template(reader)),
            steps: keys.get("steps").map(|field| Step::read_all(field, &names, reader)).unwrap_or_default(),
            names,
        })
    }

    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name.value == name)
    }
}

fn name(field: &Field<'_>, reader: &mut Reader<'_>) -> Option<At<String>> {
    let name = field.text(reader)?;
    if name.value.trim().is_empty() || name.value.len() > limit::NAME_BYTES || name.value.contains(char::is_control) {
        let fault = Fault::new(&field.place, format!("must be one line of at most {} bytes", limit::NAME_BYTES));
        reader.fault(fault.found(field.shown(reader)));
        return None;
    }
    Some(name)
}
