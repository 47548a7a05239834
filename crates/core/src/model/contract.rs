//! The rows of schemas and step contracts.

use serde::{Deserialize, Serialize};

use super::message_type::MessageType;
use super::payload_type::PayloadType;
use super::task::Task;
use super::violation::Violations;
use super::{Column, ColumnValue, Entity, Key, Row, Undecided, View};
use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{Seq, Timestamp};
use crate::kernel::rejection::Rejection;

/// A schema that somebody registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Schema {
    pub payload_type: PayloadType,
    /// JSON, as it was sent.
    pub text: String,
    pub registered_by: String,
    pub registered: Seq,
    pub registered_at: Timestamp,
}

impl Entity for Schema {
    type Id = PayloadType;

    const TABLE: &'static str = "schemas";
    const COLUMNS: &'static [Column] = &[Column::integer("registered")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.registered.0.into()]
    }
}

/// What the steps of a workflow expect, as it was defined last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepContracts {
    pub name: String,
    pub rules: Vec<StepContract>,
    pub defined_by: String,
    /// Which definition it is: whoever decided by an older one decided by something else.
    pub defined: Seq,
    pub defined_at: Timestamp,
}

impl Entity for StepContracts {
    type Id = String;

    const TABLE: &'static str = "step_contracts";
    const COLUMNS: &'static [Column] = &[Column::integer("defined")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.defined.0.into()]
    }
}

impl StepContracts {
    pub fn rule(&self, step: &str) -> Option<&StepContract> {
        self.rules.iter().find(|rule| rule.id == step)
    }
}

/// A step of a workflow, and what it expects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepContract {
    pub id: String,
    pub expects: ExpectedPayload,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExpectedPayload {
    #[serde(rename = "type")]
    pub message_type: MessageType,
    pub payload_type: PayloadType,
    /// Fields of the payload, beside those that its schema requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
}

/// The step of a workflow that a request binds the messages to which answer it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContractBinding {
    pub workflow: String,
    pub step: String,
}

/// What came of holding a message against its step, before it is decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContractCheck {
    pub bound: ContractBinding,
    /// The definition of the workflow that was asked, if there is one.
    pub defined: Option<Seq>,
    pub violations: Violations,
}

impl ContractCheck {
    /// What answers a request that is bound to a step of a workflow is what that expects.
    pub(crate) fn ensure_fulfils(checked: Option<&ContractCheck>, task: &Task, view: &View) -> Result<(), Undecided> {
        match task.bound_to() {
            Some(bound) => ContractCheck::allows(checked, bound, view),
            None => Ok(()),
        }
    }

    /// Whether the message may be stored: it was held against the step that it belongs to, by the definition that holds now.
    fn allows(checked: Option<&ContractCheck>, bound: &ContractBinding, view: &View) -> Result<(), Undecided> {
        let now = view.workflow(&bound.workflow)?.map(|workflow| workflow.defined);
        match checked.filter(|checked| checked.bound == *bound && checked.defined == now) {
            Some(checked) => checked.violations.refusal().map_or(Ok(()), |refusal| Err(refusal.into())),
            None => Err(Rejection::new(Code::Stale, "what is expected at this step has changed meanwhile")
                .hint("send it again")
                .into()),
        }
    }
}

impl View {
    pub fn schema(&self, payload_type: &PayloadType) -> Result<Option<&Schema>, Undecided> {
        Ok(match self.get(&Key::Schema(payload_type.clone()))? {
            Some(Row::Schema(schema)) => Some(schema),
            _ => None,
        })
    }

    pub fn workflow(&self, name: &str) -> Result<Option<&StepContracts>, Undecided> {
        Ok(match self.get(&Key::StepContracts(name.to_owned()))? {
            Some(Row::StepContracts(workflow)) => Some(workflow),
            _ => None,
        })
    }

    /// What somebody set, its author, the lead and people may set anew. What nobody in particular set, anybody may.
    pub(crate) fn may_replace(&self, caller: &Caller, author: &str, what: &str) -> Result<(), Undecided> {
        let own = caller.actor.to_string() == author || author == crate::kernel::caller::Actor::Anonymous.to_string();
        if own || self.has_authority(caller)? {
            return Ok(());
        }
        Err(Rejection::new(Code::Forbidden, format!("{what} was set by {author}"))
            .hint("ask its author, the lead or a person; or choose another name")
            .into())
    }
}
