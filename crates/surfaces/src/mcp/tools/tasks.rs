//! Tasks: looking at one, taking it, giving it back, moving it along.

use rookery_core::model::task::{Outcome, Task, TaskState, WaitingFor};
use rookery_core::tasks::{
    CancelTask, CancelTo, ClaimTask, CompleteTask, FailTask, FailureRetry, HeldByOther, IfFailed, IfUnclaimed,
    ReleaseTask, Required, SetTaskStep, StartTask,
};
use rookery_core::{AgentId, Caller, Code, Rejection, TaskId};
use rookery_engine::messages::Mail;
use rookery_engine::runs::{CheckpointFilter, Dependencies, PendingDependency};
use rookery_engine::{Committed, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Done;
use super::envelopes::{self, PayloadText};
use crate::mcp::arguments::{self, Limit, page};
use crate::mcp::translate::{self, CheckpointView, TaskView};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "task_get",
            Reads,
            &[Workflow],
            "Look at one task: its state, who has it, what it waits for, its plan, its outcome, and its checkpoints if \
             you ask for them.",
            get,
        ),
        Tool::new(
            "task_claim",
            Sets,
            &[Workflow, Team],
            "Take a task before you work on it; a failed one is tried again. success false with already_claimed_by: \
             somebody was faster, take another. Next: task_load_context.",
            claim,
        ),
        Tool::new(
            "task_release",
            Ends,
            &[Workflow],
            "Give a task back that you will not finish, so that others can take it. Add a checkpoint first, so that they \
             can go on from where you were.",
            release,
        ),
        Tool::new(
            "task_update_status",
            Sets,
            &[Workflow, Team],
            "Move a task along; only its holder may. completed needs outcome, failed needs error; both end your claim. \
             pending tries a failed one again.",
            update_status,
        ),
        Tool::new(
            "task_check_dependencies",
            Reads,
            &[Workflow],
            "See what a task waits for, and what came out of what it waited for.",
            dependencies,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskGetArgs {
    /// The task's id.
    #[serde(alias = "task_id")]
    id: String,
    /// Show its checkpoints, oldest first. Default: false.
    include_checkpoints: Option<bool>,
    /// Only the newest so many of them. Default: 100.
    checkpoint_limit: Option<Limit>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TaskGetResult {
    #[serde(flatten)]
    task: TaskView,
    /// Empty unless they were asked for.
    checkpoints: Vec<CheckpointView>,
}

async fn get(call: Call, asked: TaskGetArgs) -> ToolAnswer<TaskGetResult> {
    call.reader().await?;
    let task = known(&call, &TaskId::from(asked.id.as_str())).await?;
    let checkpoints = match asked.include_checkpoints {
        Some(true) => newest(&call, &task.id, page(asked.checkpoint_limit, arguments::PAGE)).await?,
        Some(false) | None => vec![],
    };
    Ok(ToolReply::new(TaskGetResult { task: translate::task(task), checkpoints }))
}

async fn newest(call: &Call, task: &TaskId, count: u32) -> Result<Vec<CheckpointView>, ToolError> {
    let filter = CheckpointFilter { task: task.clone(), kinds: vec![], since_sequence: None, limit: None };
    let all = call.engine().runs().checkpoints(&filter).await?.value;
    let old = all.len().saturating_sub(count as usize);
    Ok(all.into_iter().skip(old).map(translate::checkpoint).collect())
}

pub(super) async fn known(call: &Call, task: &TaskId) -> Result<Task, ToolError> {
    let found = call.engine().query().task(task).await?.value;
    found.ok_or_else(|| Rejection::new(Code::TaskNotFound, "Task not found").into())
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskClaimArgs {
    /// The task's id.
    #[serde(alias = "id")]
    task_id: String,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TaskClaimResult {
    success: bool,
    /// Who has the task, if it is not you.
    #[serde(skip_serializing_if = "Option::is_none")]
    already_claimed_by: Option<String>,
    /// The grant, for callers that want to be refused once somebody else has the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// What it waits for: you hold it, and can begin when these are finished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocked_by: Vec<PendingDependency>,
    /// What you are asked for, if the task was given to you: claiming it acknowledges this.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<TaskRequestView>,
}

/// The request for a task, in the words of whoever asked.
#[derive(Debug, Serialize, JsonSchema)]
struct TaskRequestView {
    message_id: String,
    asked_by: String,
    /// Its payload, as JSON.
    message: String,
    /// The artifacts that come with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<String>,
    /// The resource with the whole request, if only the beginning of its payload is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_message_uri: Option<String>,
}

impl TaskRequestView {
    fn of(task: &Task, mail: &Mail) -> TaskRequestView {
        let words = PayloadText::of(mail);
        TaskRequestView {
            message_id: mail.id.to_string(),
            asked_by: task.assigned_by.clone(),
            attachments: envelopes::attachments(mail),
            full_message_uri: words.whole(mail),
            message: words.text,
        }
    }
}

async fn claim(call: Call, asked: TaskClaimArgs) -> ToolAnswer<TaskClaimResult> {
    let task = TaskId::from(asked.task_id.as_str());
    let (caller, agent) = call.writer_on(asked.agent_id.as_deref(), &task).await?;
    match call.submit(caller, ClaimTask { task, agent: agent.clone() }).await {
        Ok(Committed { reply: task, .. }) => {
            let fence = task.claim.as_ref().map(|claim| claim.fence.0);
            let blocked_by = open_dependencies(&call, &task).await?;
            let request = request_for(&call, &task, &agent).await?;
            Ok(ToolReply::new(TaskClaimResult { success: true, already_claimed_by: None, fence, blocked_by, request }))
        }
        Err(rejected) if is_taken(&rejected) => {
            let already_claimed_by = rejected.holder().map(str::to_owned);
            let (fence, blocked_by, request) = (None, vec![], None);
            Ok(ToolReply::new(TaskClaimResult { success: false, already_claimed_by, fence, blocked_by, request }))
        }
        Err(error) => Err(error),
    }
}

/// A task can be taken early, to have it when its turn comes; whoever does is told what comes before it.
async fn open_dependencies(call: &Call, task: &Task) -> Result<Vec<PendingDependency>, ToolError> {
    if !task.is_blocked() {
        return Ok(vec![]);
    }
    Ok(call.engine().runs().dependencies(&task.id).await?.value.pending)
}

/// The request that the router passed on to whoever took the task.
async fn request_for(call: &Call, task: &Task, agent: &AgentId) -> Result<Option<TaskRequestView>, ToolError> {
    let Some(request) = &task.routing.offered_in else { return Ok(None) };
    Ok(call.engine().inbox().message(agent, request).await?.map(|mail| TaskRequestView::of(task, &mail)))
}

fn is_taken(error: &ToolError) -> bool {
    error.holder().is_some()
        && [Code::AlreadyClaimed, Code::ReservedForOther].iter().any(|code| error.code == code.as_str())
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskReleaseArgs {
    /// The task's id.
    #[serde(alias = "id")]
    task_id: String,
    /// Why, for whoever takes it next.
    reason: Option<String>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

async fn release(call: Call, asked: TaskReleaseArgs) -> ToolAnswer<Done> {
    let task = TaskId::from(asked.task_id.as_str());
    let (caller, agent) = call.writer_on(asked.agent_id.as_deref(), &task).await?;
    let (if_unclaimed, if_failed) = (IfUnclaimed::Reject, IfFailed::Reject);
    let command = ReleaseTask { task, agent: Some(agent), reason: asked.reason, if_unclaimed, if_failed };
    call.submit(caller, command).await?;
    Ok(ToolReply::new(Done::yes()))
}

/// What a task can be moved to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TargetStatus {
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

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskUpdateStatusArgs {
    /// The task's id.
    #[serde(alias = "task_id")]
    id: String,
    /// What it becomes.
    status: TargetStatus,
    /// What came out of it; others read it.
    outcome: Option<String>,
    /// Details of any shape.
    #[schemars(extend("x-rare" = true))]
    outcome_detail: Option<Value>,
    /// What went wrong.
    error: Option<String>,
    /// Why it is paused, skipped, cancelled or given back.
    reason: Option<String>,
    /// With paused: you need an answer.
    #[serde(default)]
    #[schemars(schema_with = "arguments::waiting_for")]
    waiting_for: Option<WaitingFor>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

async fn update_status(call: Call, asked: TaskUpdateStatusArgs) -> ToolAnswer<Done> {
    let task = TaskId::from(asked.id.as_str());
    let (caller, agent) = call.worker_on(asked.agent_id.as_deref(), &task).await?;
    let request = asked.request(caller, agent)?;
    call.engine().submit(call.marked(request)).await?;
    Ok(ToolReply::new(Done::yes()))
}

impl TaskUpdateStatusArgs {
    fn request(self, caller: Caller, agent: Option<AgentId>) -> Result<Request<Task>, ToolError> {
        if self.waiting_for.is_some() && self.status != TargetStatus::Paused {
            return Err(ToolError::invalid("waiting_for is for a task that is paused"));
        }
        let (task, reason) = (TaskId::from(self.id.as_str()), self.reason);
        let step = |to| SetTaskStep {
            task: task.clone(),
            agent: agent.clone(),
            to,
            reason: reason.clone(),
            waiting_for: self.waiting_for,
        };
        Ok(match self.status {
            TargetStatus::Pending => {
                let (if_unclaimed, if_failed) = (IfUnclaimed::Succeed, IfFailed::Retry);
                Request::new(caller, ReleaseTask { task, agent, reason, if_unclaimed, if_failed })
            }
            TargetStatus::InProgress => {
                Request::new(caller, StartTask { task, agent, held_by_other: HeldByOther::KeepHolder })
            }
            TargetStatus::Planning => Request::new(caller, step(TaskState::Planning)),
            TargetStatus::Review => Request::new(caller, step(TaskState::Review)),
            TargetStatus::Paused => Request::new(caller, step(TaskState::Paused)),
            TargetStatus::Completed => {
                let outcome = Outcome { text: self.outcome, detail: self.outcome_detail };
                let (outcome_required, contract) = (Required::Yes, None);
                Request::new(caller, CompleteTask { task, agent, outcome, outcome_required, contract })
            }
            TargetStatus::Failed => {
                let (error, error_required, retry) = (self.error, Required::Yes, FailureRetry::Never);
                Request::new(caller, FailTask { task, agent, error, error_required, retry })
            }
            TargetStatus::Skipped => Request::new(caller, CancelTask { task, agent, reason, to: CancelTo::Skipped }),
            TargetStatus::Cancelled => {
                Request::new(caller, CancelTask { task, agent, reason, to: CancelTo::Cancelled })
            }
        })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskCheckDependenciesArgs {
    /// The task's id.
    #[serde(alias = "id")]
    task_id: String,
}

async fn dependencies(call: Call, asked: TaskCheckDependenciesArgs) -> ToolAnswer<Dependencies> {
    call.reader().await?;
    Ok(ToolReply::new(call.engine().runs().dependencies(&TaskId::from(asked.task_id.as_str())).await?.value))
}
