//! Effects outside of the store: decided by a fact, carried out after its commit, closed by an outcome.

use serde::{Deserialize, Serialize};

use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::{IntentId, Seq, SiteId};
use crate::key::{Ask, Key};
use crate::refusal::{Code, Refusal};
use crate::view::View;

/// An effect that is still to happen, or of which we do not know yet whether it happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Intent {
    pub id: IntentId,
    pub opened: Seq,
    pub effect: Effect,
    /// Where it has to happen; `None` if any node can do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Remove a stored body from the artifact folder. Done already if the file is not there.
    EraseArtifact { sha256: String },
}

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

impl CloseIntent {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::Intent(self.intent.clone()).into()]
    }

    pub(crate) fn decide(&self, view: &View) -> Result<Decision, Halt> {
        if view.intent(&self.intent)?.is_none() {
            return Err(Refusal::new(Code::Stale, format!("intent {} is closed", self.intent)).into());
        }
        let fact = Fact::IntentClosed(IntentClosed { intent: self.intent.clone(), failed: self.failed.clone() });
        Ok(Decision::new(vec![fact], Reply::Done))
    }
}

pub(crate) fn apply(old: Option<Intent>, id: &IntentId, fact: &Fact, seq: Seq) -> Option<Intent> {
    match fact {
        Fact::LogRedacted(fact) => fact
            .erases
            .iter()
            .find(|erase| erase.intent == *id)
            .map(|erase| Intent {
                id: id.clone(),
                opened: seq,
                effect: Effect::EraseArtifact { sha256: erase.sha256.clone() },
                site: None,
            })
            .or(old),
        Fact::IntentClosed(fact) if fact.intent == *id => None,
        _ => old,
    }
}
