//! Creating a task. REST creates it in the project's own run, MCP in a run with a plan, Clutch in a run of the request.

use super::Family;
use crate::act::Given::*;
use crate::act::NewTask::*;
use crate::act::Who::*;
use crate::act::{Act, Given, NewTask, TaskCall, Who};

const OTHER_RUN: &str = "each surface creates tasks in another kind of run, and a request keeps its terms";
const TITLE_FROM_ID: &str = "a request needs no title: its task id serves";

pub fn family() -> Family {
    let create = |name, given: &[Given], by: Who, new: NewTask| Act::new(name, given, by, TaskCall::Create(new));
    let acts = vec![
        create("create_plain", &[RunWithPlan], Ada, Plain).differs(OTHER_RUN),
        create("create_as_person", &[RunWithPlan], Person, Plain).differs(OTHER_RUN),
        create("create_as_unregistered_agent", &[RunWithPlan], Stranger, Plain).differs(OTHER_RUN),
        create("create_untitled", &[RunWithPlan], Ada, Untitled).differs(TITLE_FROM_ID),
        create("create_reserved_for_other", &[RunWithPlan], Ada, ReservedFor(Ben)),
        create("create_reserved_for_unregistered_agent", &[RunWithPlan], Ada, ReservedFor(Stranger)),
        create("create_depending_on_task", &[RunWithPlan, Task], Ada, DependingOnTask).differs(OTHER_RUN),
        create("create_depending_on_unknown_task", &[RunWithPlan], Ada, DependingOnUnknown),
    ];
    Family { name: "task_create", acts }
}
