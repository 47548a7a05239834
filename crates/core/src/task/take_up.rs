//! Taking a task that may have failed before: it is tried again and claimed in one step.

use serde::{Deserialize, Serialize};

use super::release::retried;
use super::{ClaimTask, Task, TaskState};
use crate::command::{Command, Decision, DecisionContext, Reply, Undecided};
use crate::id::{AgentId, TaskId};
use crate::model::{Key, ReadSet};

/// As [`ClaimTask`], and a failed task is put back into the queue first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TakeUp {
    pub task: TaskId,
    pub agent: AgentId,
}

impl Command for TakeUp {
    const NAME: &'static str = "TakeUpTask";

    fn read_set(&self) -> ReadSet {
        super::read_set(&self.task, Some(&self.agent))
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision, Undecided> {
        let task = cx.view.task(&self.task)?;
        if task.state != TaskState::Failed {
            return ClaimTask { task: self.task.clone(), agent: self.agent.clone() }.decide(cx);
        }
        let again = Task { state: TaskState::Pending, ..task.clone() };
        let mut facts = vec![retried(task)];
        facts.extend(super::claim::grant(cx.view, cx.caller, &again, &self.agent)?);
        Ok(Decision::new(facts, Reply::Row(Key::Task(self.task.clone()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::testing::{World, by, complete, fail, start};

    #[test]
    fn a_failed_task_is_tried_again_by_whoever_takes_it() {
        let mut w = World::of(&["a", "b"]);
        w.creates("t", &[]);
        let take = |agent: &str| TakeUp { task: "t".into(), agent: agent.into() };
        assert_eq!(w.does(&by("a"), take("a")), ["task.claimed"]);
        assert_eq!(w.does(&by("a"), take("a")), [""; 0]);
        assert_eq!(w.refuses(&by("b"), take("b")), Code::AlreadyClaimed);
        w.does(&by("a"), start(None, "t"));
        w.does(&by("a"), fail("t"));
        assert_eq!(w.does(&by("b"), take("b")), ["task.retried", "task.claimed"]);
        assert_eq!((w.holder("t"), w.task("t").attempt, w.task("t").state), (Some("b"), 2, TaskState::Pending));
        w.does(&by("b"), start(None, "t"));
        w.does(&by("b"), complete("t"));
        assert_eq!(w.refuses(&by("a"), take("a")), Code::InvalidTransition);
    }
}
