//! Defining what the steps of a workflow expect. A new definition takes the place of the one before.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::built_in;
use crate::kernel::code::Code;
use crate::kernel::id::{Seq, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::contract::{StepContract, StepContracts};
use crate::model::{EventStamp, Key, ReadItem, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefineStepContracts {
    pub workflow: String,
    pub rules: Vec<StepContract>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepContractsDefined {
    pub workflow: String,
    pub rules: Vec<StepContract>,
    pub defined_by: String,
}

impl Command for DefineStepContracts {
    const NAME: &'static str = "DefineStepContracts";

    type Reply = StepContracts;

    fn read_set(&self) -> ReadSet {
        let schemas = self.rules.iter().take(limit::WORKFLOW_STEPS).map(|rule| &rule.expects.payload_type);
        let keys = [Key::StepContracts(self.workflow.clone()), Key::lead()].into_iter();
        keys.chain(schemas.cloned().map(Key::Schema)).map(ReadItem::from).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<StepContracts>, Undecided> {
        self.check()?;
        for (at, rule) in self.rules.iter().enumerate() {
            let payload_type = &rule.expects.payload_type;
            if built_in(payload_type).is_none() && cx.view.schema(payload_type)?.is_none() {
                let message = format!("steps[{at}].expects.payload_type: no schema is registered for {payload_type}");
                return Err(Rejection::new(Code::UnknownReference, message).hint("register its schema first").into());
            }
        }
        let row = ReplySource::row(self.workflow.clone());
        if let Some(known) = cx.view.workflow(&self.workflow)? {
            if known.rules == self.rules {
                return Ok(Decision::unchanged(row));
            }
            cx.view.may_replace(cx.caller, &known.defined_by, &format!("workflow '{}'", self.workflow))?;
        }
        let fact = AnyEvent::new(StepContractsDefined {
            workflow: self.workflow.clone(),
            rules: self.rules.clone(),
            defined_by: cx.caller.actor.to_string(),
        });
        Ok(Decision::new(vec![fact], row))
    }
}

impl DefineStepContracts {
    fn check(&self) -> Result<(), Rejection> {
        limit::name("workflow", &self.workflow, limit::NAME_BYTES)?;
        let invalid = |message: String| Err(Rejection::new(Code::Invalid, message));
        if self.rules.is_empty() {
            return invalid("steps: a workflow needs at least one step".to_owned());
        }
        if self.rules.len() > limit::WORKFLOW_STEPS {
            let message = format!("steps: at most {} are taken", limit::WORKFLOW_STEPS);
            return Err(Rejection::new(Code::TooLarge, message));
        }
        let mut ids = BTreeSet::new();
        for (at, rule) in self.rules.iter().enumerate() {
            limit::name("a step's id", &rule.id, limit::NAME_BYTES)?;
            if !ids.insert(&rule.id) {
                return invalid(format!("steps[{at}].id: '{}' is the id of another step, too", rule.id));
            }
            if rule.expects.message_type.is_internal() {
                return invalid(format!("steps[{at}].expects.type: no agent sends '{}'", rule.expects.message_type));
            }
            limit::list("required", &rule.expects.required)?;
            for field in &rule.expects.required {
                limit::text("a required field's name", field, limit::NAME_BYTES)?;
            }
        }
        Ok(())
    }
}

impl StepContractsDefined {
    pub(super) fn workflow(&self, seq: Seq, at: Timestamp) -> StepContracts {
        StepContracts {
            name: self.workflow.clone(),
            rules: self.rules.clone(),
            defined_by: self.defined_by.clone(),
            defined: seq,
            defined_at: at,
        }
    }
}

impl Event for StepContractsDefined {
    const KIND: &'static str = "contract.defined";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::StepContracts(self.workflow.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.workflow.clone(), self.workflow(stamp.seq, stamp.at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::RegisterSchema;
    use crate::kernel::caller::Caller;
    use crate::model::contract::ExpectedPayload;
    use crate::model::message_type::MessageType;
    use crate::model::payload_type::PayloadType;
    use crate::testing::{World, anna, by};

    fn rule(id: &str, payload_type: &str) -> StepContract {
        let payload_type = PayloadType::parse(payload_type).unwrap();
        let expects =
            ExpectedPayload { message_type: MessageType::TaskResult, payload_type, required: vec!["x".to_owned()] };
        StepContract { id: id.to_owned(), expects }
    }

    fn define(rules: Vec<StepContract>) -> DefineStepContracts {
        DefineStepContracts { workflow: "w".to_owned(), rules }
    }

    #[test]
    fn a_definition_takes_the_place_of_the_one_before() {
        let mut w = World::of(&["lead", "a", "b"]);
        let first = define(vec![rule("one", "research.summary.v1")]);
        let second = define(vec![rule("one", "research.summary.v1"), rule("two", "code.output.v1")]);
        assert_eq!(w.does(&by("a"), first.clone()), ["contract.defined"]);
        assert_eq!(w.does(&by("b"), first.clone()), [""; 0], "the same again is fine");
        for (caller, code) in [(by("b"), Code::Forbidden), (Caller::anonymous(), Code::Forbidden)] {
            assert_eq!(w.refuses(&caller, second.clone()), code);
        }
        for (caller, rules) in [(by("a"), &second), (by("lead"), &first), (anna(), &second)] {
            assert_eq!(w.does(&caller, rules.clone()), ["contract.defined"]);
        }
        let nobodys = DefineStepContracts { workflow: "n".to_owned(), ..first };
        w.does(&Caller::anonymous(), nobodys.clone());
        w.does(&by("b"), DefineStepContracts { rules: second.rules, ..nobodys });
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn only_what_there_is_can_be_expected() {
        let mut w = World::of(&["a"]);
        assert_eq!(w.refuses(&by("a"), define(vec![rule("one", "own.thing.v1")])), Code::UnknownReference);
        let payload_type = PayloadType::parse("own.thing.v1").unwrap();
        w.does(&by("a"), RegisterSchema { payload_type, text: "{}".to_owned() });
        assert_eq!(w.does(&by("a"), define(vec![rule("one", "own.thing.v1")])), ["contract.defined"]);
    }

    #[test]
    fn steps_are_told_apart_and_expect_what_agents_send() {
        let mut w = World::of(&["a"]);
        let good = || rule("one", "code.output.v1");
        let mut internal = good();
        internal.expects.message_type = MessageType::RoutingDecision;
        let many: Vec<StepContract> =
            (0..=limit::WORKFLOW_STEPS).map(|at| rule(&format!("s{at}"), "code.output.v1")).collect();
        for (rules, code) in [
            (vec![], Code::Invalid),
            (vec![good(), good()], Code::Invalid),
            (vec![rule("a b", "code.output.v1")], Code::Invalid),
            (vec![internal], Code::Invalid),
            (many, Code::TooLarge),
        ] {
            assert_eq!(w.refuses(&by("a"), define(rules)), code);
        }
        let nameless = DefineStepContracts { workflow: String::new(), rules: vec![good()] };
        assert_eq!(w.refuses(&by("a"), nameless), Code::Invalid);
    }
}
