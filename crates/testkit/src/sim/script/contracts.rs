//! Step contracts, schemas and groups of agents.

use rand::Rng;
use rand::seq::IndexedRandom;
use rookery_core::AnyCommand;
use rookery_core::contracts::{DefineStepContracts, RegisterSchema};
use rookery_core::groups::{RemoveGroup, SetGroup};
use rookery_core::model::contract::{ExpectedPayload, StepContract};
use rookery_core::model::message_type::MessageType;
use rookery_core::model::payload_type::PayloadType;

use super::Script;

/// The name of a group that exists from time to time.
pub(super) const GROUP: &str = "team";
const PAYLOAD_TYPES: [&str; 3] = ["own.thing.v1", "own.thing.v2", "research.summary.v1"];

impl Script<'_> {
    pub(super) fn contract_command(&mut self) -> AnyCommand {
        let group = GROUP.to_owned();
        match (self.rng.random_range(0..6), self.payload_type()) {
            (0, Some(payload_type)) => self.register_schema(payload_type).into(),
            (1..3, Some(payload_type)) => self.define_contracts(payload_type).into(),
            (3..5, _) => {
                let count = self.rng.random_range(0..3);
                SetGroup { group, members: self.agents.choose_multiple(self.rng, count).cloned().collect() }.into()
            }
            _ => RemoveGroup { group }.into(),
        }
    }

    fn payload_type(&mut self) -> Option<PayloadType> {
        PAYLOAD_TYPES.choose(self.rng).and_then(|text| PayloadType::parse(text))
    }

    fn register_schema(&mut self, payload_type: PayloadType) -> RegisterSchema {
        let text = if self.rng.random_bool(0.8) { "{}" } else { "true" };
        RegisterSchema { payload_type, text: text.to_owned() }
    }

    fn define_contracts(&mut self, payload_type: PayloadType) -> DefineStepContracts {
        let required = if self.rng.random_bool(0.5) { vec!["more".to_owned()] } else { vec![] };
        let expects = ExpectedPayload { message_type: MessageType::TaskResult, payload_type, required };
        DefineStepContracts { workflow: "w".to_owned(), rules: vec![StepContract { id: "s".to_owned(), expects }] }
    }
}
