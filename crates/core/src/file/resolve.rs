//! Ending a conflict: somebody with authority says whose work stands.

use serde::{Deserialize, Serialize};

use super::{ClaimForced, FilePath, overlapping};
use crate::actor::Caller;
use crate::agent::wakes;
use crate::command::{Decision, Halt, Reply};
use crate::fact::Fact;
use crate::id::AgentId;
use crate::key::{Ask, Key};
use crate::refusal::{Code, Refusal};
use crate::view::View;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resolve {
    pub path: FilePath,
    pub winner: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConflictResolved {
    pub path: FilePath,
    /// Whose work stands, and who holds the path from now on if `holder` still did; `None` if the conflict ended
    /// because the claim did.
    pub winner: Option<AgentId>,
    pub holder: AgentId,
    pub intruder: AgentId,
}

impl Resolve {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        vec![Key::file(&self.path).into(), Key::Lead.into(), Key::Agent(self.winner.clone()).into()]
    }

    pub(crate) fn decide(&self, view: &View, caller: &Caller) -> Result<Decision, Halt> {
        view.needs_authority(caller, "resolve a conflict")?;
        let file = view.file_known(&self.path)?;
        view.agent_here(&self.winner)?;
        let Some(conflict) = &file.conflict else {
            return Err(Refusal::new(Code::NotConflicted, format!("{} has no conflict", self.path)).into());
        };
        let mut facts = Vec::new();
        if file.holder() == Some(&conflict.holder) && self.winner != conflict.holder {
            facts = self.clears(view)?;
        }
        facts.push(Fact::ConflictResolved(ConflictResolved {
            path: file.path.clone(),
            winner: Some(self.winner.clone()),
            holder: conflict.holder.clone(),
            intruder: conflict.intruder.clone(),
        }));
        Ok(Decision::new(facts, Reply::Row(Key::file(&self.path))))
    }

    /// The path is about to change hands: its new holder must be here, and share it with nobody.
    fn clears(&self, view: &View) -> Result<Vec<Fact>, Halt> {
        let mut facts = wakes(view, &self.winner)?;
        for other in overlapping(view, &self.path, &self.winner)? {
            if other.path.key() != self.path.key() {
                facts.extend(ClaimForced::facts(other, &self.winner));
            }
        }
        Ok(facts)
    }
}
