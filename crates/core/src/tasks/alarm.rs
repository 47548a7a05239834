//! What becomes of a task when one of its clocks goes off.

use serde::{Deserialize, Serialize};

use super::TaskReleased;
use super::cancel::{CancelTo, end_unfinished};
use super::complete::freed_files;
use super::retry::retry_or_exhaust;
use super::subtasks::open_parts;
use super::unblock::unblock_next;
use crate::kernel::caller::Actor;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, Seq, TaskId, Timestamp};
use crate::kernel::rejection::Rejection;
use crate::kernel::time::iso;
use crate::model::agent::Agent;
use crate::model::file::ReleaseReason;
use crate::model::notification::{Audience, NotificationRule};
use crate::model::requested_in::RequestedIn;
use crate::model::run::Run;
use crate::model::task::{AlarmKind, ReleaseCause, Task, TaskState, task_keys};
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided, View, run};
use crate::runs;
use crate::runs::Ended;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

/// A pause is over: the task is given to somebody from here on, also to those who were asked in vain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoutingResumed {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What the pause was for.
    pub clock: AlarmKind,
}

impl Event for RoutingResumed {
    const KIND: &'static str = "routing.resumed";

    fn subject(&self) -> Subject<'_> {
        Subject::task(&self.task, self.run.as_ref())
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Task(self.task.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, _stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.resume_routing(self.clock));
    }
}

/// Does what a clock of a task is for, if it is still the one that went off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FireAlarm {
    pub task: TaskId,
    pub clock: AlarmKind,
    /// The `seq` of the fact that set it.
    pub set: Seq,
    /// The pause before a second attempt, if this ends the first.
    pub backoff_millis: u64,
}

/// Which time was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    Runtime,
    Deadline,
}

impl TimeLimit {
    pub fn code(self) -> &'static str {
        match self {
            TimeLimit::Runtime => "RUNTIME_EXCEEDED",
            TimeLimit::Deadline => "DEADLINE_EXCEEDED",
        }
    }
}

/// The time for a task, or for one attempt at it, was over. It has failed with that; another attempt may follow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskTimedOut {
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub holder: Option<AgentId>,
    /// Whom it was given to who had not accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<AgentId>,
    pub from: TaskState,
    pub attempt: u32,
    pub limit: TimeLimit,
    /// When the time was over.
    pub due: Timestamp,
    pub reason: String,
    #[serde(default, skip_serializing_if = "RequestedIn::is_none")]
    pub requested_in: RequestedIn,
}

impl Event for TaskTimedOut {
    const KIND: &'static str = "task.timed_out";

    fn subject(&self) -> Subject<'_> {
        let holder = self.holder.as_ref().or(self.reserved_for.as_ref());
        Subject { holder, ..Subject::task(&self.task, self.run.as_ref()) }.requested_in(&self.requested_in)
    }

    fn write_set(&self) -> Vec<Key> {
        task_keys(&self.task, self.holder.as_ref(), &[], self.run.as_ref())
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.fail(Some(&self.reason), stamp.at));
        if let Some(holder) = &self.holder {
            rows.update(holder.clone(), |agent: &mut Agent| agent.fail_task(&self.task));
        }
        if let Some(run) = run::row_id(self.run.as_ref()) {
            rows.update(run, |run: &mut Run| run.fail_task(stamp.at));
        }
    }

    fn notification_rule(&self) -> Option<NotificationRule> {
        Some(NotificationRule::withdrawing(Audience::RequesterAndHolder))
    }
}

impl Command for FireAlarm {
    const NAME: &'static str = "FireAlarm";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        let files = Lookup::files_of_task(&self.task);
        vec![Key::Task(self.task.clone()).into(), files.into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        if cx.caller.actor != Actor::System {
            return Err(Rejection::new(Code::Forbidden, "clocks go off by themselves").into());
        }
        let stale = || Rejection::new(Code::Stale, format!("the {} of {} is not due", self.clock.as_str(), self.task));
        let task = cx.view.find_task(&self.task)?.ok_or_else(stale)?;
        let alarm = task.clocks.get(self.clock).filter(|alarm| alarm.set == self.set && alarm.due <= cx.now);
        let due = alarm.ok_or_else(stale)?.due;
        let facts = match self.clock {
            AlarmKind::Accept => vec![not_accepted(cx.view, task, due)?],
            AlarmKind::Runtime => self.runtime_is_over(cx.view, task, due, cx.now)?,
            AlarmKind::Deadline => deadline_is_over(cx.view, task, due)?,
            AlarmKind::RetryBackoff | AlarmKind::Reroute => {
                let (id, run) = (task.id.clone(), task.run_if_named());
                vec![AnyEvent::new(RoutingResumed { task: id, run, clock: self.clock })]
            }
            AlarmKind::Unblock => vec![unblock_next(cx.view, task)?],
        };
        Ok(Decision::new(facts, ReplySource::row(self.task.clone())))
    }
}

impl FireAlarm {
    /// The holder loses the task. That is an error as another attempt may mend it.
    fn runtime_is_over(
        &self,
        view: &View,
        task: &Task,
        due: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<AnyEvent>, Undecided> {
        let holder = task.holder().map_or("its holder", AgentId::as_str);
        let why = format!("{holder} had until {} to end attempt {}", iso(due), task.attempt);
        let (timed_out, reason) = timed_out(task, TimeLimit::Runtime, due, &why);
        let mut facts = vec![timed_out];
        facts.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
        facts.extend(retry_or_exhaust(view, task, &reason, self.backoff_millis, now)?);
        Ok(facts)
    }
}

/// Whoever it was given to did not take it: it goes to somebody else. If its run rests, nobody could have taken it, and that is
/// held against nobody: it is given out again when the run goes on.
fn not_accepted(view: &View, task: &Task, due: Timestamp) -> Result<AnyEvent, Undecided> {
    let whom = task.reserved_for.as_ref().map_or("nobody", AgentId::as_str);
    let (because, reason) = match runs::ensure_open(view, task) {
        Ok(()) => (ReleaseCause::NotAccepted, format!("{whom} did not accept it until {}", iso(due))),
        Err(Undecided::Rejected(resting)) => {
            (ReleaseCause::Reassigned, format!("{whom} could not accept it: {}", resting.message))
        }
        Err(missing @ Undecided::Missing(_)) => return Err(missing),
    };
    Ok(AnyEvent::new(TaskReleased { reason: Some(reason), ..TaskReleased::of(task, because) }))
}

/// It is of use to nobody any more, and neither is what is part of it.
fn deadline_is_over(view: &View, task: &Task, due: Timestamp) -> Result<Vec<AnyEvent>, Undecided> {
    let why = format!("its deadline was {}", iso(due));
    let (timed_out, reason) = timed_out(task, TimeLimit::Deadline, due, &why);
    let mut facts = vec![timed_out];
    facts.extend(freed_files(view, task, ReleaseReason::TaskEnded)?);
    let parts = open_parts(view, task)?;
    for part in &parts {
        facts.extend(end_unfinished(view, part, CancelTo::Cancelled, Some(&reason))?);
    }
    facts.extend(runs::roll_up(view, task, Ended::failed(parts.len()))?);
    Ok(facts)
}

fn timed_out(task: &Task, limit: TimeLimit, due: Timestamp, why: &str) -> (AnyEvent, String) {
    let reason = format!("{}: {why}", limit.code());
    let fact = AnyEvent::new(TaskTimedOut {
        task: task.id.clone(),
        run: task.run_if_named(),
        holder: task.holder().cloned(),
        reserved_for: task.reserved_for.clone(),
        from: task.state,
        attempt: task.attempt,
        limit,
        due,
        reason: reason.clone(),
        requested_in: RequestedIn::of(task),
    });
    (fact, reason)
}
