//! Pages of what has a place in the log.

use rookery_core::Seq;
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::HttpError;

const PAGE: u32 = 100;

/// Rejects pages without an entry.
pub fn ensure_limit(limit: Option<u32>) -> Result<(), HttpError> {
    if limit == Some(0) { Err(HttpError::invalid("limit must be at least 1")) } else { Ok(()) }
}

/// The largest page that is rendered for its reader alone. Larger ones are shared by readers, like whole lists.
const LARGEST_OWN_PAGE: u32 = 1_000;

/// Whether a list with this limit is so small that it is rendered for its reader alone.
pub fn is_small(limit: Option<u32>) -> bool {
    limit.is_some_and(|limit| limit <= LARGEST_OWN_PAGE)
}

#[derive(Debug, Deserialize, IntoParams)]
pub struct PageQuery {
    /// Only what comes after this, as `next` told it.
    after: Option<u64>,
    /// At most 100, which is also meant if it is not given.
    limit: Option<u32>,
}

impl PageQuery {
    pub fn after(&self) -> Option<Seq> {
        self.after.map(Seq)
    }

    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE).clamp(1, PAGE)
    }

    /// Where the page after this one begins, if there may be one.
    pub fn next(&self, shown: &[Seq]) -> Option<u64> {
        shown.last().filter(|_| shown.len() >= self.limit() as usize).map(|last| last.0)
    }
}
