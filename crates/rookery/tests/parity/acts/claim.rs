//! Claiming a task, and assigning it to an agent.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::{Assign, Claim};
use crate::act::Who::*;
use crate::act::{Act, Given, TaskCall, Who};

pub fn family() -> Family {
    Family { name: "task_claim", acts: [claims(), assignments()].concat() }
}

fn claims() -> Vec<Act> {
    let claim = |name, given: &[Given], by: Who| Act::new(name, given, by, Claim);
    vec![
        claim("claim_free", &[Task], Ada),
        claim("claim_own", &[Task, Claimed(Ada)], Ada),
        claim("claim_own_started", &[Task, Started(Ada)], Ada),
        claim("claim_held_by_other", &[Task, Claimed(Ada)], Ben),
        claim("claim_started_by_other", &[Task, Started(Ada)], Ben),
        claim("claim_held_by_other_as_lead", &[Task, Claimed(Ada)], Lead),
        claim("claim_held_by_other_as_person", &[Task, Claimed(Ben)], Person),
        claim("claim_reserved_for_caller", &[TaskReservedFor(Ada)], Ada),
        claim("claim_reserved_for_other", &[TaskReservedFor(Ada)], Ben),
        claim("claim_failed", &[Task, Started(Ada), Failed(Ada)], Ben),
        claim("claim_completed", &[Task, Started(Ada), Completed(Ada)], Ben),
        claim("claim_cancelled", &[Task, Cancelled], Ada),
        claim("claim_blocked_by_dependency", &[TaskBlocked], Ada),
        claim("claim_requested_by_message", &[TaskRequestedBy(Ben)], Ada),
        claim("claim_as_paused_agent", &[Task, AgentPaused(Ada)], Ada),
        claim("claim_as_unregistered_agent", &[Task], Stranger),
        claim("claim_as_agent_that_left", &[Task, AgentLeft(Ada)], Ada),
        claim("claim_as_person_for_agent", &[Task], Person),
        claim("claim_unknown_task", &[], Ada),
    ]
}

fn assignments() -> Vec<Act> {
    let assign = |name, given: &[Given], by: Who, call: TaskCall| Act::new(name, given, by, call);
    vec![
        assign("assign_free_as_person", &[Task], Person, Assign(Ada)),
        assign("assign_free_as_lead", &[Task], Lead, Assign(Ada)),
        assign("assign_free_as_worker", &[Task], Ben, Assign(Ada)),
        assign("assign_started_by_other_as_person", &[Task, Started(Ben)], Person, Assign(Ada)),
        assign("assign_completed_as_person", &[Task, Started(Ben), Completed(Ben)], Person, Assign(Ada)),
        assign("assign_to_unregistered_agent_as_person", &[Task], Person, Assign(Stranger)),
    ]
}
