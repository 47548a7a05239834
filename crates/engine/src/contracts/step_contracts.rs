//! What workflows expect of messages, and holding messages against it.

use rookery_core::model::Table;
use rookery_core::model::contract::{ContractCheck, ExpectedPayload, StepContract, StepContracts};
use rookery_core::model::message_type::MessageType;
use rookery_core::model::payload_type::PayloadType;
use rookery_core::model::violation::{Violation, Violations, missing};
use rookery_core::tasks::CompleteTask;
use rookery_core::{AnyCommand, Key, Row, Seq};
use rookery_store::RowQuery;
use rookery_store::query::ColumnTest;
use serde_json::Value;

use crate::contracts::ContractsHandle;
use crate::error::EngineError;
use crate::query::At;

/// A message that belongs to a step of a workflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validate<'a> {
    pub workflow: &'a str,
    pub step: &'a str,
    pub message_type: &'a MessageType,
    pub payload_type: Option<&'a PayloadType>,
    pub payload: &'a Value,
}

/// What came of holding a message against its step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Validated {
    /// The definition of the workflow that was asked; `None` if there is no such workflow. The rule that stores the message
    /// must find the same one, or the message has to be held against the new one.
    pub defined: Option<Seq>,
    /// Empty if the step expects nothing of such a message.
    pub violations: Violations,
}

impl ContractsHandle<'_> {
    /// What the steps of a workflow expect.
    pub async fn step_contracts(&self, name: &str) -> Result<Option<StepContracts>, EngineError> {
        let (mut rows, _) = self.engine.store().rows(vec![Key::StepContracts(name.to_owned())]).await?;
        Ok(rows.pop().flatten().and_then(workflow))
    }

    /// Workflows with rules in the order in which they were defined, after one that was defined then.
    pub async fn list_step_contracts(
        &self,
        after: Option<Seq>,
        limit: u32,
    ) -> Result<At<Vec<StepContracts>>, EngineError> {
        let query = RowQuery::all(Table::StepContracts)
            .with("defined", ColumnTest::Above(after.unwrap_or(Seq(0)).0.cast_signed()))
            .ordered_by("defined");
        let (rows, head) = self.engine.store().list(query.at_most(Some(limit))).await?;
        Ok(At { value: rows.into_iter().filter_map(workflow).collect(), head })
    }

    /// Holds a message against what its step expects, if that expects something of messages of its type.
    pub(crate) async fn validate(&self, message: Validate<'_>) -> Result<Validated, EngineError> {
        let Some(rules) = self.step_contracts(message.workflow).await? else {
            return Ok(Validated { defined: None, violations: Violations::default() });
        };
        let rule = rules.rule(message.step).filter(|rule| rule.expects.message_type == *message.message_type);
        let violations = match rule {
            Some(rule) => self.check(&rule.expects, message.payload_type, message.payload).await?,
            None => Violations::default(),
        };
        Ok(Validated { defined: Some(rules.defined), violations })
    }

    /// Holds the outcome of a task that is completed without a message against the step that the task is bound to: its detail
    /// is the payload, of the type that is expected.
    pub(crate) async fn check_outcome(&self, command: &mut AnyCommand) -> Result<(), EngineError> {
        let Some(complete) = command.get_mut::<CompleteTask>() else { return Ok(()) };
        let (mut rows, _) = self.engine.store().rows(vec![Key::Task(complete.task.clone())]).await?;
        let Some(Row::Task(task)) = rows.pop().flatten() else { return Ok(()) };
        let Some(bound) = task.bound_to().cloned() else { return Ok(()) };
        let rules = self.step_contracts(&bound.workflow).await?;
        let rule = rules.as_ref().and_then(|rules| rules.rule(&bound.step));
        let violations = match rule.filter(|rule| rule.expects.message_type == MessageType::TaskResult) {
            Some(StepContract { expects, .. }) => {
                let payload = complete.outcome.detail.as_ref().unwrap_or(&Value::Null);
                let found = self.check(expects, Some(&expects.payload_type), payload).await?;
                found.moved("/payload", "/outcome_detail")
            }
            None => Violations::default(),
        };
        complete.contract = Some(ContractCheck { bound, defined: rules.map(|rules| rules.defined), violations });
        Ok(())
    }

    /// Every place where a payload is not what is expected: of another type, without a required field, or against its schema.
    async fn check(
        &self,
        expects: &ExpectedPayload,
        payload_type: Option<&PayloadType>,
        payload: &Value,
    ) -> Result<Violations, EngineError> {
        let mut found = lacking(expects, payload_type, payload);
        found.extend(self.find_violations(&expects.payload_type, payload).await?);
        Ok(Violations::of(found))
    }
}

/// What can be told without the schema.
fn lacking(expects: &ExpectedPayload, payload_type: Option<&PayloadType>, payload: &Value) -> Vec<Violation> {
    let wanted = &expects.payload_type;
    let of_another = match payload_type {
        Some(given) if given == wanted => None,
        Some(given) => Some(format!("must be '{wanted}' at this step of the workflow, not '{given}'")),
        None => Some(format!("is missing; it must be '{wanted}' at this step of the workflow")),
    };
    let mut found: Vec<Violation> =
        of_another.map(|message| Violation { pointer: "/payload_type".to_owned(), message }).into_iter().collect();
    let absent = expects.required.iter().filter(|field| payload.get(field.as_str()).is_none());
    found.extend(absent.map(|field| missing("/payload", field)));
    found
}

fn workflow(row: Row) -> Option<StepContracts> {
    if let Row::StepContracts(workflow) = row { Some(workflow) } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str) -> PayloadType {
        PayloadType::parse(name).unwrap()
    }

    #[test]
    fn what_a_step_requires_is_looked_for_beside_the_schema() {
        let required = ["a", "b/c"].map(str::to_owned).to_vec();
        let expects =
            ExpectedPayload { message_type: MessageType::TaskResult, payload_type: named("x.y.v1"), required };
        let (right, other) = (named("x.y.v1"), named("x.y.v2"));
        for (payload_type, payload, pointers) in [
            (Some(&right), json!({ "a": null, "b/c": 1 }), vec![]),
            (Some(&right), json!({ "a": 1 }), vec!["/payload/b~1c"]),
            (Some(&right), json!([]), vec!["/payload/a", "/payload/b~1c"]),
            (Some(&other), json!({ "a": 1, "b/c": 1 }), vec!["/payload_type"]),
            (None, json!("text"), vec!["/payload_type", "/payload/a", "/payload/b~1c"]),
        ] {
            let found: Vec<_> =
                lacking(&expects, payload_type, &payload).into_iter().map(|found| found.pointer).collect();
            assert_eq!(found, pointers, "{payload_type:?} {payload}");
        }
    }
}
