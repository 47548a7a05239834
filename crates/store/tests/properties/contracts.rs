//! Random step contracts, payload schemas and groups.

use rookery_core::clutch::Ingest;
use rookery_core::model::message_type::MessageType;
use rookery_core::model::payload_type::PayloadType;
use rookery_core::tasks::CompleteTask;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use rookery_core::contracts::{DefineStepContracts, RegisterSchema};
use rookery_core::groups::{RemoveGroup, SetGroup};
use rookery_core::kernel::caller::Caller;
use rookery_core::model::contract::{ContractCheck, ExpectedPayload, StepContract};
use rookery_core::model::violation::Violations;
use rookery_core::{AgentId, AnyCommand, Key, Row};

use crate::steps::AGENTS;

pub(crate) const WORKFLOW: &str = "w";
pub(crate) const STEP: &str = "s";
pub(crate) const GROUP: &str = "team";
const TYPES: [&str; 3] = ["own.thing.v1", "own.thing.v2", "research.summary.v1"];

fn payload_type() -> impl Strategy<Value = PayloadType> {
    select(&TYPES[..]).prop_filter_map("a type", PayloadType::parse)
}

pub(crate) fn random_request() -> BoxedStrategy<(Caller, AnyCommand)> {
    let caller = prop_oneof![2 => select(&AGENTS[..]).prop_map(Caller::asserted), 1 => Just(Caller::person("anna"))];
    let register = (payload_type(), select(vec!["{}", "true"]))
        .prop_map(|(payload_type, text)| RegisterSchema { payload_type, text: text.to_owned() });
    let define = (payload_type(), any::<bool>()).prop_map(|(payload_type, more)| {
        let required = if more { vec!["more".to_owned()] } else { vec![] };
        let expects = ExpectedPayload { message_type: MessageType::TaskResult, payload_type, required };
        DefineStepContracts {
            workflow: WORKFLOW.to_owned(),
            rules: vec![StepContract { id: STEP.to_owned(), expects }],
        }
    });
    let set = subsequence(&AGENTS[..], 0..=AGENTS.len()).prop_map(|members| SetGroup {
        group: GROUP.to_owned(),
        members: members.into_iter().map(AgentId::from).collect(),
    });
    let command = prop_oneof![
        1 => register.prop_map(AnyCommand::from),
        2 => define.prop_map(AnyCommand::from),
        2 => set.prop_map(AnyCommand::from),
        1 => Just(AnyCommand::from(RemoveGroup { group: GROUP.to_owned() })),
    ];
    (caller, command).boxed()
}

/// Attaches a passed contract check to a command about a task that is bound to a step.
pub(crate) fn attach_contract_check(command: &mut AnyCommand, rows: &BTreeMap<Key, Row>) {
    let task = command.get().map(|ingest: &Ingest| &ingest.received.task);
    let Some(task) = task.or_else(|| command.get().map(|complete: &CompleteTask| &complete.task)) else { return };
    let Some(Row::Task(task)) = rows.get(&Key::Task(task.clone())) else { return };
    let check = task.bound_to().map(|bound| {
        let defined = match rows.get(&Key::StepContracts(bound.workflow.clone())) {
            Some(Row::StepContracts(workflow)) => Some(workflow.defined),
            _ => None,
        };
        ContractCheck { bound: bound.clone(), defined, violations: Violations::default() }
    });
    if let Some(ingest) = command.get_mut::<Ingest>() {
        ingest.checked = check.map(Box::new);
    } else if let Some(complete) = command.get_mut::<CompleteTask>() {
        complete.contract = check;
    }
}
