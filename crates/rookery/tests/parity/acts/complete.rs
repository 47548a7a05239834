//! Completing a task.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::{Complete, CompleteTwice, CompleteWithoutOutcome};
use crate::act::Who::*;
use crate::act::{Act, Given, Who};

const INFORMED: &str = "the envelope informs the requester, in place of a notification";
const NEEDS_OUTCOME: &str = "task_update_status needs an outcome; the payload of task.result is kept whatever it is";

pub fn family() -> Family {
    let complete = |name, given: &[Given], by: Who| Act::new(name, given, by, Complete);
    let acts = vec![
        complete("complete_started", &[Task, Started(Ada)], Ada),
        complete("complete_in_review", &[Task, Started(Ada), InReview(Ada)], Ada),
        complete("complete_paused", &[Task, Started(Ada), Paused(Ada)], Ada),
        complete("complete_claimed_not_started", &[Task, Claimed(Ada)], Ada),
        complete("complete_reserved_not_started", &[TaskReservedFor(Ada)], Ada),
        complete("complete_unclaimed", &[Task], Ada),
        complete("complete_claimed_and_blocked_by_dependency", &[TaskBlocked, Claimed(Ada)], Ada),
        complete("complete_unclaimed_and_blocked_by_dependency", &[TaskBlocked], Ada),
        complete("complete_completed", &[Task, Started(Ada), Completed(Ada)], Ada),
        complete("complete_failed", &[Task, Started(Ada), Failed(Ada)], Ada),
        complete("complete_cancelled", &[Task, Cancelled], Ada),
        complete("complete_started_by_other", &[Task, Started(Ada)], Ben),
        complete("complete_claimed_by_other", &[Task, Claimed(Ada)], Ben),
        complete("complete_reserved_for_other", &[TaskReservedFor(Ada)], Ben),
        complete("complete_started_by_other_as_lead", &[Task, Started(Ada)], Lead),
        complete("complete_claimed_by_other_as_lead", &[Task, Claimed(Ada)], Lead),
        complete("complete_started_as_person", &[Task, Started(Ada)], Person),
        complete("complete_claimed_as_person", &[Task, Claimed(Ada)], Person),
        complete("complete_started_with_dependent", &[Task, Dependent, Started(Ada)], Ada),
        complete("complete_requested_by_message", &[TaskRequestedBy(Ben), Started(Ada)], Ada).differs(INFORMED),
        complete("complete_unknown_task", &[], Ada),
        Act::new("complete_started_without_outcome", &[Task, Started(Ada)], Ada, CompleteWithoutOutcome)
            .differs(NEEDS_OUTCOME),
        Act::new("complete_started_twice", &[Task, Started(Ada)], Ada, CompleteTwice),
        Act::new("complete_claimed_twice", &[Task, Claimed(Ada)], Ada, CompleteTwice),
    ];
    Family { name: "task_complete", acts }
}
