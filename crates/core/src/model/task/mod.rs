//! The task row: one state machine for every surface, with the changes that events make to it.

mod alarms;
mod request;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use alarms::{Alarm, AlarmKind, Alarms};
pub use request::{RequestTerms, TaskOrigin};

use super::contract::ContractBinding;
use super::file::ReleaseReason;
use super::routing::{Routing, RoutingDecision};
use super::{Column, ColumnValue, DependencyId, Entity, EventStamp, Key, ReadSet, Undecided, View};
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, MessageId, RunId, Seq, TaskId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    Pending,
    Planning,
    InProgress,
    Review,
    Paused,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

impl TaskState {
    pub const ALL: [TaskState; 9] = [
        TaskState::Pending,
        TaskState::Planning,
        TaskState::InProgress,
        TaskState::Review,
        TaskState::Paused,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Skipped,
        TaskState::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Pending => "pending",
            TaskState::Planning => "planning",
            TaskState::InProgress => "in_progress",
            TaskState::Review => "review",
            TaskState::Paused => "paused",
            TaskState::Completed => "completed",
            TaskState::Failed => "failed",
            TaskState::Skipped => "skipped",
            TaskState::Cancelled => "cancelled",
        }
    }

    /// Work may still happen in it.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            TaskState::Pending | TaskState::Planning | TaskState::InProgress | TaskState::Review | TaskState::Paused
        )
    }

    /// It will never change again, and what waited for it may go on.
    pub fn is_finished(self) -> bool {
        matches!(self, TaskState::Completed | TaskState::Skipped | TaskState::Cancelled)
    }

    /// The one table of transitions. A release that follows from the holder's going is not asked for and not in it.
    pub fn may_become(self, next: TaskState) -> bool {
        use TaskState::*;
        match self {
            Pending => matches!(next, Planning | InProgress | Skipped | Cancelled),
            Planning => matches!(next, InProgress | Completed | Failed | Pending | Cancelled),
            InProgress => matches!(next, Review | Paused | Completed | Failed | Pending | Cancelled),
            Review => matches!(next, InProgress | Completed | Failed | Cancelled),
            Paused => matches!(next, InProgress | Failed | Cancelled),
            Failed => matches!(next, Pending | Skipped),
            Completed | Skipped | Cancelled => false,
        }
    }
}

/// Who works on a task, by which grant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskClaim {
    pub holder: AgentId,
    /// The `seq` of the grant: a holder that was replaced meanwhile has an older one.
    pub fence: Seq,
    pub since: Timestamp,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub run: RunId,
    pub title: String,
    pub description: String,
    /// Who asked for it, as told.
    pub assigned_by: String,
    pub state: TaskState,
    /// When it came into that state.
    pub state_since: Timestamp,
    pub reserved_for: Option<AgentId>,
    pub claim: Option<TaskClaim>,
    /// Who worked on it last, kept when the claim has ended.
    pub last_holder: Option<AgentId>,
    pub resources: Vec<String>,
    pub depends_on: Vec<TaskId>,
    /// The dependencies that are not finished. Where many tasks wait for one, it is taken out of their rows some time after its
    /// end, until when they are not announced as ready; commands look at the state of the dependency.
    pub waiting_on: BTreeSet<TaskId>,
    pub created_at: Timestamp,
    pub created: Seq,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// Why it is paused, failed or cancelled, or was given back.
    pub reason: Option<String>,
    /// What it waits for while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    pub outcome: Option<String>,
    pub outcome_detail: Option<Value>,
    pub attempt: u32,
    pub checkpoints: u32,
    /// Its place in the order of its run; 0 if the run has none.
    pub sequence: u32,
    /// The tasks whose outcomes matter for it, where those are not all before it.
    pub context_from: Vec<TaskId>,
    pub details: Details,
    pub plan: Option<TaskPlan>,
    /// What the worker wants to find again.
    pub context: Map<String, Value>,
    /// The files that its checkpoints name.
    pub files_changed: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "TaskOrigin::is_none")]
    pub origin: TaskOrigin,
    #[serde(default, skip_serializing_if = "Routing::is_none")]
    pub routing: Routing,
    /// Whether other tasks are part of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_parts: bool,
    /// What happens to it by itself, and when.
    #[serde(default, skip_serializing_if = "Alarms::are_none")]
    pub clocks: Alarms,
    /// The last task that was unblocked by its end, in the order of their ids, while there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unblocked_to: Option<TaskId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// What a plan may say of a task beside what it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Details {
    /// A label for tasks that can be done side by side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_complexity: Option<Complexity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_path: Option<String>,
}

impl Details {
    pub(crate) fn are_none(&self) -> bool {
        *self == Details::default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Complexity {
    Low,
    Medium,
    High,
}

impl Complexity {
    pub const ALL: [Complexity; 3] = [Complexity::Low, Complexity::Medium, Complexity::High];

    pub fn as_str(self) -> &'static str {
        match self {
            Complexity::Low => "low",
            Complexity::Medium => "medium",
            Complexity::High => "high",
        }
    }
}

impl Entity for Task {
    type Id = TaskId;

    const TABLE: &'static str = "tasks";
    const COLUMNS: &'static [Column] = &[
        Column::integer("created"),
        Column::text("run"),
        Column::text("state"),
        Column::text("assignee"),
        Column::text("held_by"),
        Column::integer("reserved").unindexed(),
        Column::integer("waiting").unindexed(),
        Column::text("parent"),
        Column::integer("unrouted"),
        Column::integer("due"),
    ];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![
            self.created.0.into(),
            self.run.as_str().into(),
            self.state.as_str().into(),
            self.assignee().map(ToString::to_string).into(),
            self.held_by().map(ToString::to_string).into(),
            self.held_by().is_some().into(),
            self.is_blocked().into(),
            self.origin.parent.as_ref().map(ToString::to_string).into(),
            self.to_be_routed().map_or(ColumnValue::Null, |_| self.created.0.into()),
            self.clocks.next().map_or(ColumnValue::Null, |due| ColumnValue::Integer(due.0)),
        ]
    }

    fn tallies(&self) -> Vec<&'static str> {
        let mut tallies = vec![tally::TASKS];
        match self.state {
            TaskState::InProgress => tallies.push(tally::TASKS_IN_PROGRESS),
            state if state.is_finished() => tallies.push(tally::TASKS_DONE),
            _ => {}
        }
        tallies
    }
}

impl Task {
    pub fn holder(&self) -> Option<&AgentId> {
        self.claim.as_ref().map(|claim| &claim.holder)
    }

    /// Who the task belongs to right now, be it claimed or only reserved.
    pub fn held_by(&self) -> Option<&AgentId> {
        self.holder().or(self.reserved_for.as_ref())
    }

    /// Who is shown as working, or having worked, on it.
    pub fn assignee(&self) -> Option<&AgentId> {
        self.held_by().or(if self.state.is_open() { None } else { self.last_holder.as_ref() })
    }

    /// What it was asked for on, if the router shall give it to somebody now.
    pub fn to_be_routed(&self) -> Option<&RequestTerms> {
        let free =
            self.is_yet_to_begin() && self.held_by().is_none() && self.clocks.get(AlarmKind::RetryBackoff).is_none();
        self.origin.terms.as_deref().filter(|terms| free && terms.is_for_agents())
    }

    /// Whom it was reserved for without the request being passed on, if it can be begun now: by a person, or by another face.
    pub fn to_be_passed_on(&self) -> Option<&AgentId> {
        let ready = self.is_yet_to_begin() && self.claim.is_none();
        self.reserved_for.as_ref().filter(|_| ready && self.routing.offered_in.is_none())
    }

    /// Whether it can be begun now. Somebody may plan what nobody has taken.
    fn is_yet_to_begin(&self) -> bool {
        matches!(self.state, TaskState::Pending | TaskState::Planning) && self.waiting_on.is_empty()
    }

    /// The step of a workflow that the messages about it are held against.
    pub fn bound_to(&self) -> Option<&ContractBinding> {
        self.origin.terms.as_ref()?.bound.as_ref()
    }

    /// The run it is part of, unless that is the project's default one.
    pub fn run_if_named(&self) -> Option<RunId> {
        Some(&self.run).filter(|run| **run != RunId::project_default()).cloned()
    }

    pub fn is_blocked(&self) -> bool {
        self.state.is_open() && !self.waiting_on.is_empty()
    }

    pub(crate) fn reserve_for(&mut self, agent: &AgentId) {
        self.reassign_to(agent);
        (self.routing.failed, self.routing.failed_by) = (false, vec![]);
    }

    /// Keeps it for another agent. Whether routing failed before stays known.
    pub(crate) fn reassign_to(&mut self, agent: &AgentId) {
        self.reserved_for = Some(agent.clone());
        self.routing.offered_in = None;
        self.clocks.stop(&BEFORE_IT_IS_TAKEN);
    }

    /// Records that no agent fits, and sets the alarm for routing again unless it is set.
    pub(crate) fn fail_routing(&mut self, choice: &RoutingDecision, again_at: Option<Timestamp>, seq: Seq) {
        self.routing.told(choice);
        if let Some(again) = again_at.filter(|_| self.clocks.get(AlarmKind::Reroute).is_none()) {
            self.routing.reroutes = self.routing.reroutes.saturating_add(1);
            self.clocks.set(AlarmKind::Reroute, again, seq);
        }
    }

    /// Ends a pause of the router.
    pub(crate) fn resume_routing(&mut self, clock: AlarmKind) {
        self.clocks.stop(&[clock]);
        if clock == AlarmKind::Reroute {
            self.routing.declined_by.clear();
        }
    }

    /// Notes the request that was passed on. The time to accept it counts only for the agent it is reserved for.
    pub(crate) fn forward_in(&mut self, message: &MessageId, to: &AgentId, accept_by: Option<Timestamp>, seq: Seq) {
        self.routing.offered_in = Some(message.clone());
        if let Some(accept_by) = accept_by.filter(|_| self.reserved_for.as_ref() == Some(to)) {
            self.clocks.set(AlarmKind::Accept, accept_by, seq);
        }
    }

    fn enter(&mut self, state: TaskState, at: Timestamp) {
        if self.state != state {
            self.state_since = at;
        }
        self.state = state;
    }

    pub(crate) fn claim_for(&mut self, agent: &AgentId, stamp: EventStamp) {
        self.clocks.stop(&BEFORE_IT_IS_TAKEN);
        self.routing.taken_up();
        self.reserved_for = None;
        self.last_holder = Some(agent.clone());
        self.claim = Some(TaskClaim { holder: agent.clone(), fence: stamp.seq, since: stamp.at });
    }

    pub(crate) fn start(&mut self, end_by: Option<Timestamp>, stamp: EventStamp) {
        if let Some(end_by) = end_by {
            self.clocks.set(AlarmKind::Runtime, end_by, stamp.seq);
        }
        self.enter(TaskState::InProgress, stamp.at);
        self.reason = None;
        self.waiting_for = None;
        self.waiting_on.clear();
        self.started_at.get_or_insert(stamp.at);
    }

    pub(crate) fn set_step(
        &mut self,
        to: TaskState,
        reason: Option<&str>,
        waiting_for: Option<WaitingFor>,
        at: Timestamp,
    ) {
        self.stop_offer_alarms();
        self.enter(to, at);
        self.reason = reason.map(str::to_owned);
        self.waiting_for = waiting_for;
    }

    /// Gives it back to the queue. An agent that did not want it is not asked again soon.
    pub(crate) fn release(&mut self, because: ReleaseCause, reason: Option<&str>, at: Timestamp) {
        if matches!(because, ReleaseCause::Asked | ReleaseCause::NotAccepted)
            && let Some(agent) = self.held_by().cloned()
        {
            self.routing.tried(&agent);
        }
        self.clocks.stop(&[AlarmKind::Accept, AlarmKind::Runtime, AlarmKind::RetryBackoff, AlarmKind::Reroute]);
        self.enter(TaskState::Pending, at);
        self.claim = None;
        self.reserved_for = None;
        self.reason = reason.map(str::to_owned);
        self.waiting_for = None;
    }

    /// Begins another attempt: after a pause if it comes by itself, at once if somebody asked for it.
    pub(crate) fn retry(&mut self, attempt: u32, not_before: Option<Timestamp>, stamp: EventStamp) {
        let why = self.reason.take();
        self.reset(attempt, stamp.seq, stamp.at);
        match not_before {
            Some(not_before) => {
                self.reason = why;
                self.routing.failed_with(self.last_holder.clone());
                if self.origin.terms.as_ref().is_some_and(|terms| terms.is_for_agents()) {
                    self.clocks.set(AlarmKind::RetryBackoff, not_before, stamp.seq);
                }
            }
            None => self.routing.asked_again(attempt),
        }
    }

    /// Reopens the task and clears its outcome.
    pub(crate) fn reopen(&mut self, attempt: u32, stamp: EventStamp) {
        self.reset(attempt, stamp.seq, stamp.at);
        (self.outcome, self.outcome_detail) = (None, None);
        self.routing.asked_again(attempt);
    }

    pub(crate) fn complete(&mut self, outcome: &Outcome, at: Timestamp) {
        self.outcome = outcome.text.clone();
        self.outcome_detail = outcome.detail.clone();
        self.reason = None;
        self.ends(TaskState::Completed, at);
    }

    pub(crate) fn fail(&mut self, reason: Option<&str>, at: Timestamp) {
        self.reason = reason.map(str::to_owned);
        self.ends(TaskState::Failed, at);
    }

    /// Ends it without its being done, as `cancelled` or `skipped`.
    pub(crate) fn drop_as(&mut self, state: TaskState, reason: Option<&str>, at: Timestamp) {
        self.reason = reason.map(str::to_owned);
        self.ends(state, at);
    }

    pub(crate) fn set_plan(&mut self, to: TaskState, plan: &TaskPlan, context: &Map<String, Value>, at: Timestamp) {
        if to != TaskState::Pending {
            self.stop_offer_alarms();
        }
        self.enter(to, at);
        self.plan = Some(plan.clone());
        self.context = context.clone();
    }

    /// Counts a checkpoint and keeps the files that it names, as long as there is room.
    pub(crate) fn add_checkpoint(&mut self, files_changed: &[String]) {
        self.checkpoints = self.checkpoints.saturating_add(1);
        let room = limit::LIST_ENTRIES.saturating_sub(self.files_changed.len());
        self.files_changed.extend(files_changed.iter().take(room).cloned());
    }

    pub(crate) fn wait_for(&mut self, dependency: &TaskId) {
        self.waiting_on.insert(dependency.clone());
    }

    pub(crate) fn stop_waiting_for(&mut self, dependency: &TaskId) {
        self.waiting_on.remove(dependency);
    }

    /// Notes to which task its end has unblocked those that waited for it, and sets the alarm for the rest if there are more.
    pub(crate) fn set_unblocked_to(&mut self, last: Option<&TaskId>, stamp: EventStamp) {
        self.unblocked_to = last.cloned();
        match last {
            Some(_) => self.clocks.set(AlarmKind::Unblock, self.completed_at.unwrap_or(stamp.at), stamp.seq),
            None => self.clocks.stop(&[AlarmKind::Unblock]),
        }
    }

    fn ends(&mut self, state: TaskState, at: Timestamp) {
        self.last_holder = self.held_by().cloned().or(self.last_holder.take());
        self.enter(state, at);
        self.waiting_for = None;
        self.claim = None;
        self.reserved_for = None;
        self.clocks.stop_all();
        if state.is_finished() {
            self.completed_at = Some(at);
        }
    }

    /// It can be worked on again, by anybody who fits.
    fn reset(&mut self, attempt: u32, seq: Seq, at: Timestamp) {
        self.last_holder = self.held_by().cloned().or(self.last_holder.take());
        self.enter(TaskState::Pending, at);
        self.claim = None;
        self.reserved_for = None;
        self.reason = None;
        self.waiting_for = None;
        self.completed_at = None;
        self.attempt = attempt;
        self.clocks.stop_all();
        self.unblocked_to = None;
        // A deadline that is over has had its effect: whoever opens the task again wants it all the same.
        if let Some(deadline) = self.deadline().filter(|deadline| *deadline > at) {
            self.clocks.set(AlarmKind::Deadline, deadline, seq);
        }
    }

    /// Whoever it was given to does something with it, if it was given to somebody.
    fn stop_offer_alarms(&mut self) {
        if self.held_by().is_some() {
            self.clocks.stop(&BEFORE_IT_IS_TAKEN);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.origin.terms.as_ref().and_then(|terms| terms.deadline)
    }

    /// How often it was tried since somebody asked for it, or asked for it again.
    pub(crate) fn attempts_used(&self) -> u32 {
        self.attempt.saturating_sub(self.routing.earlier_attempts).max(1)
    }
}

/// The clocks that go only while a task belongs to nobody, or has only been given to somebody.
const BEFORE_IT_IS_TAKEN: [AlarmKind; 3] = [AlarmKind::Accept, AlarmKind::RetryBackoff, AlarmKind::Reroute];

pub mod tally {
    pub const TASKS: &str = "tasks";
    pub const TASKS_IN_PROGRESS: &str = "tasks.in_progress";
    pub const TASKS_DONE: &str = "tasks.done";
}

/// `task` waits for `dep`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Dependency {
    pub task: TaskId,
    pub dep: TaskId,
}

impl Entity for Dependency {
    type Id = DependencyId;

    const TABLE: &'static str = "task_dependencies";
    const COLUMNS: &'static [Column] = &[Column::text("dep")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.dep.as_str().into()]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    Plan,
    Progress,
    Decision,
    Error,
    Recovery,
    Complete,
    Replan,
}

impl CheckpointKind {
    pub const ALL: [CheckpointKind; 7] = [
        CheckpointKind::Plan,
        CheckpointKind::Progress,
        CheckpointKind::Decision,
        CheckpointKind::Error,
        CheckpointKind::Recovery,
        CheckpointKind::Complete,
        CheckpointKind::Replan,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            CheckpointKind::Plan => "plan",
            CheckpointKind::Progress => "progress",
            CheckpointKind::Decision => "decision",
            CheckpointKind::Error => "error",
            CheckpointKind::Recovery => "recovery",
            CheckpointKind::Complete => "complete",
            CheckpointKind::Replan => "replan",
        }
    }
}

/// What a worker left behind on the way, so that another can go on from there.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    pub id: String,
    pub task: TaskId,
    /// Its place among those of the task, from 1.
    pub sequence: u32,
    pub kind: CheckpointKind,
    pub summary: String,
    pub detail: Option<Value>,
    pub files_changed: Vec<String>,
    pub created: Seq,
    pub created_at: Timestamp,
}

impl Entity for Checkpoint {
    type Id = String;

    const TABLE: &'static str = "checkpoints";
    const COLUMNS: &'static [Column] = &[Column::text("task"), Column::integer("created")];

    fn columns(&self) -> Vec<ColumnValue> {
        vec![self.task.as_str().into(), self.created.0.into()]
    }
}

/// The keys of a task, of the agent that holds it, and of further tasks, then of the run.
pub(crate) fn task_keys(task: &TaskId, holder: Option<&AgentId>, others: &[TaskId], run: Option<&RunId>) -> Vec<Key> {
    let holder = holder.cloned().map(Key::Agent);
    let others = others.iter().cloned().map(Key::Task);
    let run = crate::model::run::row_id(run).map(Key::Run);
    std::iter::once(Key::Task(task.clone())).chain(holder).chain(others).chain(run).collect()
}

/// What most commands on a task need to see.
pub(crate) fn read_set(task: &TaskId, agent: Option<&AgentId>) -> ReadSet {
    let mut read_set = vec![Key::Task(task.clone()).into(), Key::lead().into()];
    read_set.extend(agent.map(|agent| Key::Agent(agent.clone()).into()));
    read_set
}

/// The holder may, the lead and people may, and a caller without a name acts as the holder; anybody else may not.
pub(crate) fn ensure_may_change(
    view: &View,
    caller: &Caller,
    task: &Task,
    agent: Option<&AgentId>,
) -> Result<(), Undecided> {
    ensure_fence(caller, task.claim.as_ref().map(|claim| claim.fence))?;
    let Some(holder) = task.held_by() else { return Ok(()) };
    if matches!(caller.actor, Actor::Anonymous) && agent.is_none() {
        return view.ensure_may_act_for(caller, holder);
    }
    let acting = agent.or(caller.actor.agent());
    if acting == Some(holder) || view.has_authority(caller)? {
        return Ok(());
    }
    Err(Rejection::new(Code::NotHolder, format!("task {} belongs to {holder}", task.id))
        .hint(format!("only {holder}, the lead or a person can change it; ask for a handoff"))
        .with_holder(holder)
        .into())
}

pub(crate) fn ensure_fence(caller: &Caller, fence: Option<Seq>) -> Result<(), Rejection> {
    match caller.fence {
        Some(given) if fence != Some(given) => {
            Err(Rejection::new(Code::StaleFence, format!("fence {given} is not the present grant"))
                .hint("the claim ended meanwhile; claim again and use the fence of the new grant"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn refuse_transition(task: &Task, next: TaskState) -> Rejection {
    let hint = match (task.state, next) {
        (state, _) if state.is_finished() => "it is finished; create a new task for further work",
        (TaskState::Pending, TaskState::Completed | TaskState::Review | TaskState::Paused | TaskState::Failed) => {
            "claim or start it first"
        }
        (TaskState::Paused, TaskState::Pending) => "resume it (in_progress) or cancel it; then it can be released",
        (TaskState::Failed, _) => "retry it (queued) or skip it",
        _ => "see the states of a task in the reference",
    };
    Rejection::new(
        Code::InvalidTransition,
        format!("task {} is {} and cannot become {}", task.id, task.state.as_str(), next.as_str()),
    )
    .hint(hint)
}

/// A finished task answers the same, whoever asks.
pub(crate) fn refuse_finished(task: &Task, next: TaskState) -> Result<(), Rejection> {
    if task.state.is_finished() { Err(refuse_transition(task, next)) } else { Ok(()) }
}

pub(crate) fn check_transition(task: &Task, next: TaskState) -> Result<(), Rejection> {
    if task.state.may_become(next) { Ok(()) } else { Err(refuse_transition(task, next)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_tasks_never_change_and_open_ones_can_be_cancelled() {
        for state in TaskState::ALL {
            assert_eq!(state.may_become(TaskState::Cancelled), state.is_open(), "{state:?}");
            if state.is_finished() {
                assert!(TaskState::ALL.into_iter().all(|next| !state.may_become(next)), "{state:?}");
            }
        }
    }
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskPlan {
    pub approach: String,
    pub steps: Vec<String>,
    pub files_to_modify: Vec<String>,
    pub files_to_create: Vec<String>,
    pub context_needed: Vec<String>,
}

impl TaskPlan {
    pub(crate) fn check(&self) -> Result<(), Rejection> {
        if self.approach.trim().is_empty() {
            return Err(Rejection::new(Code::Invalid, "plan.approach must not be empty"));
        }
        limit::list("plan.steps", &self.steps)?;
        limit::list("plan.context_needed", &self.context_needed)?;
        limit::paths("plan.files_to_modify", &self.files_to_modify)?;
        limit::paths("plan.files_to_create", &self.files_to_create)?;
        limit::json("plan", self, limit::TEXT_BYTES)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseCause {
    Asked,
    Reassigned,
    /// Whom it was reserved for did not take it in time.
    NotAccepted,
    #[serde(untagged)]
    Holder(ReleaseReason),
}

/// What somebody else must do before a paused task goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// An answer, by a person or another agent.
    Input,
}

impl WaitingFor {
    pub const ALL: [WaitingFor; 1] = [WaitingFor::Input];

    pub fn as_str(self) -> &'static str {
        match self {
            WaitingFor::Input => "input",
        }
    }
}
