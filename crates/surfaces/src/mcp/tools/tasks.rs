//! Tasks: looking at one, taking it, giving it back, moving it along.

use rookery_core::task::{Cancel, Claim, Complete, Fail, MoveTo, Outcome, Release, Retry, Skip, Start, State, Task};
use rookery_core::{AgentId, Code, Command, Refusal, Row, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Done;
use crate::mcp::call::row_of;
use crate::mcp::translate::{self, TaskView};
use crate::mcp::{Call, Effect, Reply, Tool, ToolError, Toolset};

type Answer<T> = Result<Reply<T>, ToolError>;

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "task_get",
            Reads,
            &[Workflow],
            "Look at one task: its state, who has it, what it waits for, its outcome.",
            get,
        ),
        Tool::new(
            "task_claim",
            Sets,
            &[Workflow, Team],
            "Take a task before you work on it; at most one agent has it. success false with already_claimed_by means \
             that somebody was faster: take another. Next: task_update_status in_progress.",
            claim,
        ),
        Tool::new(
            "task_release",
            Ends,
            &[Workflow],
            "Give a task back that you will not finish, so that others can take it.",
            release,
        ),
        Tool::new(
            "task_update_status",
            Sets,
            &[Workflow, Team],
            "Move a task along: planning, in_progress, review, paused, completed (needs outcome), failed (needs error), \
             skipped, or pending to try a failed one again. Only its holder may. Completing or failing ends your claim.",
            update_status,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Getting {
    /// The task's id.
    #[serde(alias = "task_id")]
    id: String,
}

async fn get(call: Call, asked: Getting) -> Answer<TaskView> {
    call.reader().await?;
    Ok(Reply::of(translate::task(known(&call, &TaskId::from(asked.id.as_str())).await?)))
}

async fn known(call: &Call, task: &TaskId) -> Result<Task, ToolError> {
    let found = call.engine().task(task).await?.value;
    found.ok_or_else(|| Refusal::new(Code::TaskNotFound, "Task not found").into())
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Claiming {
    /// The task's id.
    #[serde(alias = "id")]
    task_id: String,
    /// Your id. Not needed if you are connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Claimed {
    success: bool,
    /// Who has the task, if it is not you.
    #[serde(skip_serializing_if = "Option::is_none")]
    already_claimed_by: Option<String>,
    /// The grant, for callers that want to be refused once somebody else has the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
}

async fn claim(call: Call, asked: Claiming) -> Answer<Claimed> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    let task = TaskId::from(asked.task_id.as_str());
    match call.submit(caller, Claim { task: task.clone(), agent }).await {
        Ok(committed) => match row_of(&committed) {
            Some(Row::Task(task)) => {
                let fence = task.claim.map(|claim| claim.fence.0);
                Ok(Reply::of(Claimed { success: true, already_claimed_by: None, fence }))
            }
            _ => Err(ToolError::unexpected()),
        },
        Err(refused) if is_taken(&refused) => {
            // Read after the refusal: whoever has it now is whom to ask.
            let holder = known(&call, &task).await?.held_by().map(ToString::to_string);
            let already_claimed_by = Some(holder.ok_or(refused)?);
            Ok(Reply::of(Claimed { success: false, already_claimed_by, fence: None }))
        }
        Err(error) => Err(error),
    }
}

fn is_taken(error: &ToolError) -> bool {
    [Code::AlreadyClaimed, Code::Reserved].iter().any(|code| error.code == code.as_str())
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Releasing {
    /// The task's id.
    #[serde(alias = "id")]
    task_id: String,
    /// Your id. Not needed if you are connected as an agent.
    agent_id: Option<String>,
}

async fn release(call: Call, asked: Releasing) -> Answer<Done> {
    let (caller, agent) = call.writer(asked.agent_id.as_deref())?;
    let task = TaskId::from(asked.task_id.as_str());
    call.submit(caller, Release { task, agent: Some(agent) }).await?;
    Ok(Reply::of(Done::yes()))
}

/// What a task can be moved to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Target {
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
pub struct Moving {
    /// The task's id.
    #[serde(alias = "task_id")]
    id: String,
    /// What it becomes.
    status: Target,
    /// What came out of it, in a sentence or two; others read it. Needed for completed.
    outcome: Option<String>,
    /// Details of the outcome, of any shape.
    outcome_detail: Option<Value>,
    /// What went wrong. Needed for failed.
    error: Option<String>,
    /// Why it is paused, skipped or cancelled.
    reason: Option<String>,
    /// Your id. Not needed if you are connected as an agent.
    agent_id: Option<String>,
}

async fn update_status(call: Call, asked: Moving) -> Answer<Done> {
    let (caller, agent) = call.worker(asked.agent_id.as_deref())?;
    let command = asked.command(&call, agent).await?;
    call.submit(caller, command).await?;
    Ok(Reply::of(Done::yes()))
}

impl Moving {
    async fn command(self, call: &Call, agent: Option<AgentId>) -> Result<Command, ToolError> {
        let task = TaskId::from(self.id.as_str());
        let step = |to| MoveTo { task: task.clone(), agent: agent.clone(), to, reason: self.reason.clone() };
        Ok(match self.status {
            Target::Pending if known(call, &task).await?.state == State::Failed => Retry { task, agent }.into(),
            Target::Pending => Release { task, agent }.into(),
            Target::Planning => step(State::Planning).into(),
            Target::InProgress => Start { task, agent }.into(),
            Target::Review => step(State::Review).into(),
            Target::Paused => step(State::Paused).into(),
            Target::Completed => {
                let Some(text) = self.outcome.filter(|text| !text.trim().is_empty()) else {
                    return Err(ToolError::recoverable("MISSING_OUTCOME", "completed needs an outcome")
                        .suggest("say in outcome what came out of the task"));
                };
                Complete { task, agent, outcome: Outcome { text: Some(text), detail: self.outcome_detail } }.into()
            }
            Target::Failed => {
                let Some(error) = self.error.filter(|text| !text.trim().is_empty()) else {
                    return Err(ToolError::recoverable("MISSING_ERROR", "failed needs an error")
                        .suggest("say in error what went wrong"));
                };
                Fail { task, agent, error: Some(error) }.into()
            }
            Target::Skipped => Skip { task, agent, reason: self.reason }.into(),
            Target::Cancelled => Cancel { task, agent, reason: self.reason }.into(),
        })
    }
}
