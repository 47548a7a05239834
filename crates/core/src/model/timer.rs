//! The timer row.

use serde::{Deserialize, Serialize};

use super::file_path::FilePath;
use super::{Column, ColumnValue, Entity};
use crate::kernel::id::{Seq, TimerId, Timestamp};

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
