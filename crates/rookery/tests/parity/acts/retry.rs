//! Retrying a failed task, and reopening one that has ended.

use super::Family;
use crate::act::Given::*;
use crate::act::TaskCall::{Reopen, Retry};
use crate::act::Who::*;
use crate::act::{Act, Given, Who};

const NO_STATUS: &str = "MCP has no status for a retry: pending also releases";

pub fn family() -> Family {
    let retry = |name, given: &[Given], by: Who| Act::new(name, given, by, Retry);
    let reopen = |name, given: &[Given], by: Who| Act::new(name, given, by, Reopen);
    let acts = vec![
        retry("retry_failed", &[Task, Started(Ada), Failed(Ada)], Ada),
        retry("retry_failed_by_other", &[Task, Started(Ada), Failed(Ada)], Ben),
        retry("retry_failed_as_lead", &[Task, Started(Ada), Failed(Ada)], Lead),
        retry("retry_failed_as_person", &[Task, Started(Ada), Failed(Ada)], Person),
        retry("retry_pending_as_person", &[Task], Person).differs(NO_STATUS),
        retry("retry_started_as_person", &[Task, Started(Ada)], Person).differs(NO_STATUS),
        retry("retry_completed_as_person", &[Task, Started(Ada), Completed(Ada)], Person),
        retry("retry_unknown_task_as_person", &[], Person),
        reopen("reopen_completed", &[Task, Started(Ada), Completed(Ada)], Ada),
        reopen("reopen_completed_as_lead", &[Task, Started(Ada), Completed(Ada)], Lead),
        reopen("reopen_completed_as_person", &[Task, Started(Ada), Completed(Ada)], Person),
        reopen("reopen_failed_as_person", &[Task, Started(Ada), Failed(Ada)], Person),
        reopen("reopen_started_as_person", &[Task, Started(Ada)], Person),
        reopen("reopen_completed_with_dependent_as_person", &[Task, Dependent, Started(Ada), Completed(Ada)], Person),
        reopen("reopen_requested_by_message", &[TaskRequestedBy(Ben), Started(Ada), Completed(Ada)], Ben),
    ];
    Family { name: "task_retry", acts }
}
