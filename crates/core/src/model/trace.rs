//! The trace that a request belongs to.

use serde::{Deserialize, Serialize};

#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trace {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
}

impl Trace {
    pub fn is_none(&self) -> bool {
        *self == Trace::default()
    }
}
