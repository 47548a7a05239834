//! Failing a task.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::{Fail, FailRetryable, FailWithoutError};
use crate::act::Who::*;
use crate::act::{Act, Given, Who};

const INFORMED: &str = "the envelope informs the requester, in place of a notification";
const NEEDS_ERROR: &str = "task_update_status needs an error; the payload of task.error is kept whatever it is";

pub fn family() -> Family {
    let fail = |name, given: &[Given], by: Who| Act::new(name, given, by, Fail);
    let acts = vec![
        fail("fail_started", &[Task, Started(Ada)], Ada),
        fail("fail_claimed_not_started", &[Task, Claimed(Ada)], Ada),
        fail("fail_reserved_not_started", &[TaskReservedFor(Ada)], Ada),
        fail("fail_unclaimed", &[Task], Ada),
        fail("fail_paused", &[Task, Started(Ada), Paused(Ada)], Ada),
        fail("fail_in_review", &[Task, Started(Ada), InReview(Ada)], Ada),
        fail("fail_claimed_and_blocked_by_dependency", &[TaskBlocked, Claimed(Ada)], Ada),
        fail("fail_started_by_other", &[Task, Started(Ada)], Ben),
        fail("fail_claimed_by_other", &[Task, Claimed(Ada)], Ben),
        fail("fail_started_by_other_as_lead", &[Task, Started(Ada)], Lead),
        fail("fail_started_as_person", &[Task, Started(Ada)], Person),
        fail("fail_failed", &[Task, Started(Ada), Failed(Ada)], Ada),
        fail("fail_completed", &[Task, Started(Ada), Completed(Ada)], Ada),
        fail("fail_requested_by_message", &[TaskRequestedBy(Ben), Started(Ada)], Ada).differs(INFORMED),
        Act::new("fail_started_without_error", &[Task, Started(Ada)], Ada, FailWithoutError).differs(NEEDS_ERROR),
        Act::new("fail_started_retryable", &[Task, Started(Ada)], Ada, FailRetryable),
        Act::new("fail_requested_by_message_retryable", &[TaskRequestedBy(Ben), Started(Ada)], Ada, FailRetryable),
    ];
    Family { name: "task_fail", acts }
}
