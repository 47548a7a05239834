//! The row that keeps an artifact: its hash, and the thing that names it.

use serde::{Deserialize, Serialize};

use super::{ArtifactRefId, Column, ColumnValue, Entity};
use crate::kernel::id::Seq;

/// That something names an artifact: while there is such a row, nobody removes the artifact.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArtifactRef {
    pub sha256: String,
    /// What names it, as in `task:ID`.
    pub by: String,
    /// The facts that do.
    pub named_in: Vec<Seq>,
}

impl Entity for ArtifactRef {
    type Id = ArtifactRefId;

    const TABLE: &'static str = "artifact_refs";
    const COLUMNS: &'static [Column] = &[Column::text("sha256")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.sha256.as_str().into()]
    }
}

impl ArtifactRef {
    /// Takes back that the event at this position names it; `None` if no other event does.
    pub(crate) fn without(mut self, seq: Seq) -> Option<ArtifactRef> {
        self.named_in.retain(|named| *named != seq);
        (!self.named_in.is_empty()).then_some(self)
    }
}
