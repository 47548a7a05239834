//! Giving a task back.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::{Release, SetPending};
use crate::act::Who::*;
use crate::act::{Act, Given, Who};

const NOTHING_TO_RELEASE: &str = "task_release is for the holder; the status changes also take unclaimed tasks";

pub fn family() -> Family {
    let release = |name, given: &[Given], by: Who| Act::new(name, given, by, Release);
    let set_pending = |name, given: &[Given], by: Who| Act::new(name, given, by, SetPending);
    let acts = vec![
        release("release_claimed", &[Task, Claimed(Ada)], Ada),
        release("release_started", &[Task, Started(Ada)], Ada),
        release("release_in_review", &[Task, Started(Ada), InReview(Ada)], Ada),
        release("release_paused", &[Task, Started(Ada), Paused(Ada)], Ada),
        release("release_reserved_for_caller", &[TaskReservedFor(Ada)], Ada),
        release("release_reserved_for_other", &[TaskReservedFor(Ada)], Ben),
        release("release_claimed_by_other", &[Task, Claimed(Ada)], Ben),
        release("release_started_by_other_as_lead", &[Task, Started(Ada)], Lead),
        release("release_started_as_person", &[Task, Started(Ada)], Person),
        release("release_unclaimed", &[Task], Ada).differs(NOTHING_TO_RELEASE),
        release("release_failed", &[Task, Started(Ada), Failed(Ada)], Ada).differs(NOTHING_TO_RELEASE),
        release("release_completed", &[Task, Started(Ada), Completed(Ada)], Ada),
        release("release_requested_by_message", &[TaskRequestedBy(Ben), Started(Ada)], Ada),
        release("release_unknown_task", &[], Ada),
        set_pending("set_pending_claimed", &[Task, Claimed(Ada)], Ada),
        set_pending("set_pending_claimed_by_other", &[Task, Claimed(Ada)], Ben),
        set_pending("set_pending_unclaimed", &[Task], Ada),
        set_pending("set_pending_failed", &[Task, Started(Ada), Failed(Ada)], Ada),
    ];
    Family { name: "task_release", acts }
}
