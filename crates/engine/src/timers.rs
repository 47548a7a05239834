//! Firing what has fallen due, which is a duty. What changed meanwhile refuses.

use rookery_core::files::FireTimer;
use rookery_core::model::Table;
use rookery_core::model::task::{AlarmKind, Task};
use rookery_core::model::timer::Timer;
use rookery_core::tasks::FireAlarm;
use rookery_core::{Caller, Row, Timestamp};
use rookery_store::node::{LeaderEpoch, LeaderRole};
use rookery_store::query::ColumnTest;
use rookery_store::{RowQuery, Submission, SubmitError};

use crate::durations::millis;
use crate::engine::Engine;
use crate::error::EngineError;

/// How many timers, and how many clocks of tasks, are read in one go.
const PAGE: u32 = 100;

/// Fires every timer and every clock of a task that is due now, if that is for this node to do; how many there were.
pub async fn fire_due(engine: &Engine) -> Result<usize, EngineError> {
    let now = engine.cluster().store_now();
    let mut all = 0;
    while let Some(tenure) = engine.cluster().leader_epoch(LeaderRole::Timers) {
        let Page { fired, has_more } = fire_page(engine, tenure, now).await?;
        all += fired;
        // A page that nothing came of would only be read again.
        if !has_more || fired == 0 {
            break;
        }
    }
    Ok(all)
}

struct Page {
    fired: usize,
    /// There may be more that is due: the page was full, or a task has further dependents to unblock.
    has_more: bool,
}

async fn fire_page(engine: &Engine, tenure: LeaderEpoch, now: Timestamp) -> Result<Page, EngineError> {
    let due = |table| RowQuery::all(table).with("due", ColumnTest::AtMost(now.0)).ordered_by("due").at_most(Some(PAGE));
    let (lists, _) = engine.store().lists(vec![due(Table::Timers), due(Table::Tasks)]).await?;
    let mut has_more = lists.iter().any(|rows| rows.len() >= PAGE as usize);
    let mut fired = 0;
    for row in lists.into_iter().flatten() {
        let submission = match row {
            Row::Timer(timer) => Some(timer_fired(timer)),
            Row::Task(task) => {
                has_more |= task.clocks.get(AlarmKind::Unblock).is_some();
                clock_fired(engine, &task, now)
            }
            _ => None,
        };
        if let Some(submission) = submission {
            fired += submit(engine, submission, tenure).await?;
        }
    }
    Ok(Page { fired, has_more })
}

async fn submit(engine: &Engine, submission: Submission, tenure: LeaderEpoch) -> Result<usize, EngineError> {
    match engine.commit(submission.out_of(tenure)).await {
        Ok(_) => Ok(1),
        // Somebody else was quicker, or what it was for is over.
        Err(SubmitError::Refused(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn timer_fired(timer: Timer) -> Submission {
    Submission::internal(Caller::system(), FireTimer { timer: timer.id, version: timer.version })
}

/// What time does to a task belongs to its run and thread.
fn clock_fired(engine: &Engine, task: &Task, now: Timestamp) -> Option<Submission> {
    let (clock, alarm) = task.clocks.due(now)?;
    let backoff_millis = millis(engine.settings().retry_backoff);
    let fire = FireAlarm { task: task.id.clone(), clock, set: alarm.set, backoff_millis };
    let mut submission = Submission::internal(Caller::system(), fire);
    submission.run = Some(task.run.clone());
    submission.thread = task.origin.thread.clone();
    Some(submission)
}
