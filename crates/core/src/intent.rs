//! Effects outside of the store: decided by a fact, carried out after its commit, closed by an outcome.

use crate::model::{Column, ColumnValue, Entity, Key, ReadSet};
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::event::{AnyEvent, Event, EventStamp, RowWriter};
use crate::id::{IntentId, Seq, SiteId, WorkspaceId};
use crate::refusal::Rejection;
use crate::team::{Launch, TeamRef};
use crate::workspace::Uncommitted;

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

impl Entity for Intent {
    type Id = IntentId;

    const TABLE: &'static str = "intents";
    const COLUMNS: &'static [Column] = &[Column::integer("opened")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.opened.0.into()]
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Remove a stored body from the artifact folder. Done already if the file is not there.
    EraseArtifact { sha256: String },
    /// Make the worktree of a workspace. Done already if the repository has a note of it and the worktree is whole.
    MakeWorktree { workspace: WorkspaceId },
    /// Merge the branch of a workspace. Done already if its base branch has all of it.
    MergeWorktree { workspace: WorkspaceId, uncommitted: Uncommitted },
    /// Save what is only in the worktree of a workspace, then remove it. Done already if it is not there.
    RemoveWorktree { workspace: WorkspaceId },
    /// Start a runner for a workflow file. Done already if this generation of the team has begun since.
    LaunchTeam { of: TeamRef, launch: Launch },
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

    fn read_set(&self) -> ReadSet {
        vec![Key::Intent(self.intent.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        if cx.view.intent(&self.intent)?.is_none() {
            return Err(Rejection::new(Code::Stale, format!("intent {} is closed", self.intent)).into());
        }
        let fact = AnyEvent::new(IntentClosed { intent: self.intent.clone(), failed: self.failed.clone() });
        Ok(Decision::new(vec![fact], Reply::Done))
    }
}
