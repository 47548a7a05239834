//! Starting and resuming a task.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::Start;
use crate::act::Who::*;
use crate::act::{Act, Given, Who};

const FOR_SENDER: &str =
    "task.accept takes the task for its sender, who must be an agent, and never resumes it for another";
const INFORMED: &str = "the envelope informs the requester, in place of a notification";

pub fn family() -> Family {
    let start = |name, given: &[Given], by: Who| Act::new(name, given, by, Start);
    let acts = vec![
        start("start_claimed", &[Task, Claimed(Ada)], Ada),
        start("start_unclaimed", &[Task], Ada),
        start("start_own_started", &[Task, Started(Ada)], Ada),
        start("start_paused", &[Task, Started(Ada), Paused(Ada)], Ada),
        start("start_in_review", &[Task, Started(Ada), InReview(Ada)], Ada),
        start("start_reserved_for_caller", &[TaskReservedFor(Ada)], Ada),
        start("start_reserved_for_other", &[TaskReservedFor(Ada)], Ben),
        start("start_claimed_by_other", &[Task, Claimed(Ada)], Ben),
        start("start_paused_by_other", &[Task, Started(Ada), Paused(Ada)], Ben),
        start("start_claimed_by_other_as_lead", &[Task, Claimed(Ada)], Lead).differs(FOR_SENDER),
        start("start_paused_by_other_as_lead", &[Task, Started(Ada), Paused(Ada)], Lead).differs(FOR_SENDER),
        start("start_unclaimed_as_lead", &[Task], Lead),
        start("start_paused_as_person", &[Task, Started(Ada), Paused(Ada)], Person).differs(FOR_SENDER),
        start("start_blocked_by_dependency", &[TaskBlocked], Ada),
        start("start_claimed_and_blocked_by_dependency", &[TaskBlocked, Claimed(Ada)], Ada),
        start("start_failed", &[Task, Started(Ada), Failed(Ada)], Ada),
        start("start_completed", &[Task, Started(Ada), Completed(Ada)], Ada),
        start("start_requested_by_message", &[TaskRequestedBy(Ben)], Ada).differs(INFORMED),
        start("start_as_paused_agent", &[Task, AgentPaused(Ada)], Ada),
        start("start_as_unregistered_agent", &[Task], Stranger),
        start("start_unknown_task", &[], Ada),
    ];
    Family { name: "task_start", acts }
}
