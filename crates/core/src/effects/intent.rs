//! Effects outside of the store: decided by a fact, carried out after its commit, closed by an outcome.

use serde::{Deserialize, Serialize};

use crate::kernel::code::Code;
use crate::kernel::id::IntentId;
use crate::kernel::rejection::Rejection;
use crate::model::intent::Intent;
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource};

/// Tells how an effect ended. A second telling is refused as stale.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CloseIntent {
    pub intent: IntentId,
    pub failed: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IntentClosed {
    pub intent: IntentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Event for IntentClosed {
    const KIND: &'static str = "intent.closed";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Intent(self.intent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.remove::<Intent>(self.intent.clone());
    }

    fn closes_intent(&self) -> Option<&IntentId> {
        Some(&self.intent)
    }
}

impl Command for CloseIntent {
    const NAME: &'static str = "CloseIntent";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Intent(self.intent.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        if cx.view.intent(&self.intent)?.is_none() {
            return Err(Rejection::new(Code::Stale, format!("intent {} is closed", self.intent)).into());
        }
        let fact = AnyEvent::new(IntentClosed { intent: self.intent.clone(), failed: self.failed.clone() });
        Ok(Decision::new(vec![fact], ReplySource::done()))
    }
}
