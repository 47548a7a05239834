//! What shall happen at a time. A timer is opened and closed by facts; firing one that changed meanwhile is refused.

use crate::model::{Column, ColumnValue, Entity, Key, ReadSet};
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::event::AnyEvent;
use crate::file::{ConflictEscalated, FilePath};
use crate::id::{Seq, TimerId, Timestamp};
use crate::refusal::Rejection;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Timer {
    pub id: TimerId,
    pub due: Timestamp,
    /// The `seq` of the fact that set it.
    pub version: Seq,
    pub purpose: Purpose,
}

impl Entity for Timer {
    type Id = TimerId;

    const TABLE: &'static str = "timers";
    const COLUMNS: &'static [Column] = &[Column::integer("due")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![ColumnValue::Integer(self.due.0)]
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    EscalateConflict { path: FilePath },
}

pub fn conflict_timer_id(path: &FilePath) -> TimerId {
    TimerId::new(format!("conflict:{}", path.key()))
}

/// Does what the timer is for, if it is still the one that fell due.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FireTimer {
    pub timer: TimerId,
    pub version: Seq,
}

impl Command for FireTimer {
    const NAME: &'static str = "FireTimer";

    fn read_set(&self) -> ReadSet {
        vec![Key::Timer(self.timer.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        let stale = || Undecided::from(Rejection::new(Code::Stale, format!("timer {} is not due", self.timer)));
        let timer = cx.view.timer(&self.timer)?.ok_or_else(stale)?;
        if timer.version != self.version || timer.due > cx.now {
            return Err(stale());
        }
        let fact = match &timer.purpose {
            Purpose::EscalateConflict { path } => {
                let file = cx.view.find_file(path.key())?;
                let conflict = file.and_then(|file| file.conflict.as_ref()).ok_or_else(stale)?;
                AnyEvent::new(ConflictEscalated {
                    path: path.clone(),
                    holder: conflict.holder.clone(),
                    intruder: conflict.intruder.clone(),
                    timer: timer.id.clone(),
                    timer_version: timer.version,
                })
            }
        };
        Ok(Decision::new(vec![fact], Reply::Done))
    }
}
