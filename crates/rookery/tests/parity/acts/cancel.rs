//! Cancelling and skipping a task.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::{Cancel, Skip};
use crate::act::Who::*;
use crate::act::{Act, Given, Who};

const INFORMED: &str = "the envelope informs the requester and the holder, in place of a notification";

pub fn family() -> Family {
    let cancel = |name, given: &[Given], by: Who| Act::new(name, given, by, Cancel);
    let skip = |name, given: &[Given], by: Who| Act::new(name, given, by, Skip);
    let acts = vec![
        cancel("cancel_unheld", &[Task], Ben),
        cancel("cancel_unheld_as_unregistered_agent", &[Task], Stranger),
        cancel("cancel_unheld_as_person", &[Task], Person),
        cancel("cancel_held_as_holder", &[Task, Started(Ada)], Ada),
        cancel("cancel_held_by_other", &[Task, Started(Ada)], Ben),
        cancel("cancel_held_by_other_as_lead", &[Task, Started(Ada)], Lead),
        cancel("cancel_held_by_other_as_person", &[Task, Started(Ada)], Person),
        cancel("cancel_held_by_agent_with_inbox_as_person", &[AgentCard(Ada), Task, Started(Ada)], Person)
            .differs(INFORMED),
        cancel("cancel_reserved_for_other", &[TaskReservedFor(Ada)], Ben),
        cancel("cancel_requested_unheld_as_requester", &[TaskRequestedBy(Ben)], Ben),
        cancel("cancel_requested_unheld_as_other", &[TaskRequestedBy(Ben)], Ada),
        cancel("cancel_requested_held_as_requester", &[TaskRequestedBy(Ben), Started(Ada)], Ben),
        cancel("cancel_requested_held_as_holder", &[TaskRequestedBy(Ben), Started(Ada)], Ada).differs(INFORMED),
        cancel("cancel_requested_held_as_unregistered_agent", &[TaskRequestedBy(Ben), Started(Ada)], Stranger),
        cancel("cancel_requested_held_as_lead", &[TaskRequestedBy(Ben), Started(Ada)], Lead).differs(INFORMED),
        cancel("cancel_requested_held_as_person", &[TaskRequestedBy(Ben), Started(Ada)], Person).differs(INFORMED),
        cancel("cancel_with_dependent_as_person", &[Task, Dependent], Person),
        cancel("cancel_failed_as_person", &[Task, Started(Ada), Failed(Ada)], Person),
        cancel("cancel_completed_as_person", &[Task, Started(Ada), Completed(Ada)], Person),
        cancel("cancel_unknown_task_as_person", &[], Person),
        skip("skip_unheld", &[Task], Ben),
        skip("skip_started_as_holder", &[Task, Started(Ada)], Ada),
        skip("skip_claimed_by_other", &[Task, Claimed(Ada)], Ben),
        skip("skip_failed", &[Task, Started(Ada), Failed(Ada)], Ada),
        skip("skip_requested_unheld_as_other", &[TaskRequestedBy(Ben)], Ada),
    ];
    Family { name: "task_cancel", acts }
}
