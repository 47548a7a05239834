//! Ending a conflict: somebody with authority says whose work stands.

use serde::{Deserialize, Serialize};

use super::{overlap_asks, overlapping, taken};
use crate::kernel::code::Code;
use crate::kernel::id::AgentId;
use crate::kernel::rejection::Rejection;
use crate::model::file::File;
use crate::model::file_path::FilePath;
use crate::model::timer::{Timer, conflict_timer_id};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResolveConflict {
    pub path: FilePath,
    pub winner: AgentId,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConflictResolved {
    pub path: FilePath,
    /// Whose work stands, and who holds the path from now on if it was claimed; `None` if the conflict ended because
    /// the claim did.
    pub winner: Option<AgentId>,
    pub holder: AgentId,
    pub intruder: AgentId,
}

impl Command for ResolveConflict {
    const NAME: &'static str = "ResolveConflict";

    type Reply = File;

    fn read_set(&self) -> ReadSet {
        let mut read_set = overlap_asks(&self.path);
        read_set.extend([Key::lead().into(), Key::Agent(self.winner.clone()).into()]);
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<File>, Undecided> {
        cx.view.ensure_authority(cx.caller, "resolve a conflict")?;
        let file = cx.view.file(&self.path)?;
        cx.view.online_agent(&self.winner)?;
        let Some(conflict) = &file.conflict else {
            return Err(Rejection::new(Code::NotConflicted, format!("{} has no conflict", self.path)).into());
        };
        let mut facts = Vec::new();
        if file.claim.is_some() {
            // The path passes to the winner: what others hold above or below it would overlap.
            let mut others = overlapping(cx.view, &self.path, &self.winner)?;
            others.retain(|other| other.path.key() != self.path.key());
            facts = taken(cx.view, &others, &self.winner)?;
        }
        facts.push(AnyEvent::new(ConflictResolved {
            path: file.path.clone(),
            winner: Some(self.winner.clone()),
            // The claim may have been handed over since: the fact names the one it is taken from.
            holder: file.holder().unwrap_or(&conflict.holder).clone(),
            intruder: conflict.intruder.clone(),
        }));
        Ok(Decision::new(facts, ReplySource::row(self.path.key().to_owned())))
    }
}

impl ConflictResolved {
    /// The conflict about a path goes with the claim.
    pub(crate) fn without_winner(file: &File) -> Option<AnyEvent> {
        let conflict = file.conflict.as_ref()?;
        Some(AnyEvent::new(ConflictResolved {
            path: file.path.clone(),
            winner: None,
            holder: conflict.holder.clone(),
            intruder: conflict.intruder.clone(),
        }))
    }
}

impl Event for ConflictResolved {
    const KIND: &'static str = "file.conflict_resolved";

    fn subject(&self) -> Subject<'_> {
        Subject { path: Some(&self.path), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::file(&self.path), Key::Timer(conflict_timer_id(&self.path))]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        File::change(rows, &self.path, |file| file.resolve_conflict(self.winner.as_ref(), stamp));
        rows.remove::<Timer>(conflict_timer_id(&self.path));
    }
}
