//! The steps of a task between its start and its end: pause, review, planning; and notes about the work.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::{AddCheckpoint, Pause, PauseForInput, Plan, Review, SetPlan};
use crate::act::Who::*;
use crate::act::{Act, Given, TaskCall, Who};

pub fn family() -> Family {
    let step = |name, given: &[Given], by: Who, call: TaskCall| Act::new(name, given, by, call);
    let acts = vec![
        step("pause_started", &[Task, Started(Ada)], Ada, Pause),
        step("pause_started_for_input", &[Task, Started(Ada)], Ada, PauseForInput),
        step("pause_paused", &[Task, Started(Ada), Paused(Ada)], Ada, Pause),
        step("pause_claimed_not_started", &[Task, Claimed(Ada)], Ada, Pause),
        step("pause_reserved_not_started", &[TaskReservedFor(Ada)], Ada, Pause),
        step("pause_unclaimed", &[Task], Ada, Pause),
        step("pause_started_by_other", &[Task, Started(Ada)], Ben, Pause),
        step("pause_started_by_other_as_lead", &[Task, Started(Ada)], Lead, Pause),
        step("pause_completed", &[Task, Started(Ada), Completed(Ada)], Ada, Pause),
        step("review_started", &[Task, Started(Ada)], Ada, Review),
        step("review_in_review", &[Task, Started(Ada), InReview(Ada)], Ada, Review),
        step("review_claimed_not_started", &[Task, Claimed(Ada)], Ada, Review),
        step("review_reserved_not_started", &[TaskReservedFor(Ada)], Ada, Review),
        step("review_unclaimed", &[Task], Ada, Review),
        step("review_paused", &[Task, Started(Ada), Paused(Ada)], Ada, Review),
        step("review_started_by_other", &[Task, Started(Ada)], Ben, Review),
        step("plan_claimed", &[Task, Claimed(Ada)], Ada, Plan),
        step("plan_unclaimed", &[Task], Ada, Plan),
        step("plan_started", &[Task, Started(Ada)], Ada, Plan),
        step("set_plan_claimed", &[Task, Claimed(Ada)], Ada, SetPlan),
        step("set_plan_claimed_by_other", &[Task, Claimed(Ada)], Ben, SetPlan),
        step("set_plan_completed", &[Task, Started(Ada), Completed(Ada)], Ada, SetPlan),
        step("checkpoint_started", &[Task, Started(Ada)], Ada, AddCheckpoint),
        step("checkpoint_unclaimed", &[Task], Ada, AddCheckpoint),
        step("checkpoint_started_by_other", &[Task, Started(Ada)], Ben, AddCheckpoint),
    ];
    Family { name: "task_step", acts }
}
