//! Firing what has fallen due, which is a duty. A timer that changed meanwhile refuses.

use rookery_core::key::Table;
use rookery_core::timer::FireTimer;
use rookery_core::{Caller, Row};
use rookery_store::node::Duty;
use rookery_store::query::Test;
use rookery_store::{ListQuery, Submission};

use crate::engine::{Engine, EngineError};

/// How many timers are fired in one go.
const PAGE: u32 = 100;

/// Fires every timer that is due now, if that is for this node to do; how many there were.
pub async fn fire_due(engine: &Engine) -> Result<usize, EngineError> {
    let Some(tenure) = engine.tenure(Duty::Timers) else { return Ok(0) };
    let now = engine.store_now();
    let due = ListQuery::all(Table::Timers).with("due", Test::AtMost(now.0)).ordered_by("due").at_most(Some(PAGE));
    let (rows, _) = engine.store().list(due).await?;
    let mut fired = 0;
    for row in rows {
        let Row::Timer(timer) = row else { continue };
        let command = FireTimer { timer: timer.id, version: timer.version };
        match engine.store().submit(Submission::internal(Caller::system(), command).out_of(tenure)).await {
            Ok(_) => fired += 1,
            // Somebody else was quicker, or what it was for is over.
            Err(rookery_store::SubmitError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(fired)
}
