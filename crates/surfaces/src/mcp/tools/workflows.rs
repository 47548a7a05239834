//! Workflows: opening one, looking at it, finding work in it, steering it.

use rookery_core::model::run::{RunSpec, RunStatus, SourceType};
use rookery_core::runs::{CreateRun, SetRunStatus};
use rookery_core::{RunId, Timestamp};
use rookery_engine::runs::{FailedTasks, NextTask, Progress, RunFilter, RunPage, Search, Summary, SummaryFormat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::Done;
use crate::mcp::arguments::{self, Limit, PAGE, name, one_or_many, page};
use crate::mcp::translate::{self, TaskView, WorkflowView};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolReply, Toolset};

/// How many workflows are listed unless more are asked for.
const WORKFLOWS: u32 = 20;

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "workflow_create",
            Adds,
            &[Workflow],
            "Open a workflow for work of several steps. It lasts until it is done, whatever happens to you. Next: \
             workflow_set_plan.",
            create,
        ),
        Tool::new(
            "workflow_get",
            Reads,
            &[Workflow],
            "Look at one workflow: what it is about, its plan in short, its status, and its tasks if you ask for them.",
            get,
        ),
        Tool::new(
            "workflow_list",
            Reads,
            &[Workflow],
            "List the workflows, newest first. With status in_progress it finds what to go on with after your context was \
             cleared. Next: workflow_progress.",
            list,
        ),
        Tool::new(
            "workflow_next_tasks",
            Reads,
            &[Workflow, Team],
            "Find tasks that can be taken now, in one workflow or in all; those given to you come first. Next: task_claim the \
             first; if somebody was faster, the next.",
            next_tasks,
        ),
        Tool::new(
            "workflow_progress",
            Reads,
            &[Workflow],
            "See how far a workflow is: tasks by status, what was begun and by whom (current_tasks), what is blocked by what. To \
             go on with a task: task_load_context.",
            progress,
        ),
        Tool::new(
            "workflow_summary",
            Reads,
            &[Workflow],
            "Get a workflow with its tasks and outcomes as one text, to put before a person or into another context.",
            summary,
        ),
        Tool::new(
            "workflow_update_status",
            Sets,
            &[Workflow],
            "Pause, resume (in_progress), fail or abandon a workflow. It begins and completes by itself, with its tasks. An \
             agent's workflow is for that agent, the lead and people; a person's is failed or abandoned by people and the \
             lead only.",
            update_status,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowCreateArgs {
    /// What it is called.
    name: String,
    /// Where the wish came from.
    #[schemars(schema_with = "arguments::source_type")]
    source_type: SourceType,
    /// What is wished, in full: the prompt, or the text of the issue.
    source_content: String,
    /// The number or address of the issue.
    source_ref: Option<String>,
    /// The repositories it is about.
    repository_paths: Option<Vec<String>>,
    /// How many tasks may be worked on at once. Default: 1. It is advice, not enforced.
    max_parallel_tasks: Option<u32>,
    /// Whether each task shall have a workspace of its own. Default: false.
    auto_create_workspaces: Option<bool>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowCreateResult {
    id: String,
    name: String,
    status: String,
    max_parallel_tasks: u32,
}

async fn create(call: Call, asked: WorkflowCreateArgs) -> ToolAnswer<WorkflowCreateResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let brief = RunSpec {
        title: asked.name,
        source_type: asked.source_type,
        source_ref: asked.source_ref,
        source_content: asked.source_content,
        repository_paths: asked.repository_paths.unwrap_or_default(),
        max_parallel_tasks: asked.max_parallel_tasks.unwrap_or(1),
        auto_create_workspaces: asked.auto_create_workspaces.unwrap_or(false),
        config: Map::new(),
    };
    let run = call.submit(caller, CreateRun { id: call.engine().runs().mint_run(), brief }).await?.reply;
    Ok(ToolReply::new(WorkflowCreateResult {
        id: run.id.to_string(),
        name: run.brief.title,
        status: run.status.as_str().to_owned(),
        max_parallel_tasks: run.brief.max_parallel_tasks,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowGetArgs {
    /// The workflow's id.
    #[serde(alias = "workflow_id")]
    id: String,
    /// Show its tasks, in their order. Default: false.
    include_tasks: Option<bool>,
}

async fn get(call: Call, asked: WorkflowGetArgs) -> ToolAnswer<WorkflowView> {
    call.reader().await?;
    let id = RunId::from(asked.id.as_str());
    if asked.include_tasks != Some(true) {
        return Ok(ToolReply::new(translate::workflow(call.engine().runs().run(&id).await?.value, vec![])));
    }
    let workflow = call.engine().runs().plan(&id).await?.value;
    Ok(ToolReply::new(translate::workflow(workflow.run, workflow.tasks)))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowListArgs {
    /// Only workflows with one of these statuses.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(schema_with = "arguments::run_statuses")]
    status: Option<Vec<RunStatus>>,
    /// Only workflows about this repository, named as when they were created.
    #[serde(default, deserialize_with = "name")]
    repository_path: Option<String>,
    /// At most so many. Default 20, at most 1000.
    limit: Option<Limit>,
    /// Leave out the first so many.
    offset: Option<u32>,
}

async fn list(call: Call, asked: WorkflowListArgs) -> ToolAnswer<RunPage> {
    call.reader().await?;
    let filter = RunFilter {
        status: asked.status.unwrap_or_default(),
        repository_path: asked.repository_path,
        limit: page(asked.limit, WORKFLOWS),
        offset: asked.offset.unwrap_or(0),
    };
    Ok(ToolReply::new(call.engine().runs().list_plans(&filter).await?.value))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowNextTasksArgs {
    /// Left out: all that are open.
    #[serde(default, deserialize_with = "name")]
    workflow_id: Option<String>,
    /// Failed ones, too. Default: true.
    #[schemars(extend("x-rare" = true))]
    include_failed: Option<bool>,
    /// Default: 100.
    #[schemars(extend("x-rare" = true))]
    limit: Option<Limit>,
    /// For callers that connected without a name.
    #[schemars(skip)]
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowNextTasksResult {
    tasks: Vec<NextTaskView>,
    /// How many may be worked on at once, in the workflow that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_parallel: Option<u32>,
    /// How many of these to begin now.
    recommended_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_status: Option<String>,
    /// Nothing is left to do.
    all_complete: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NextTaskView {
    #[serde(flatten)]
    task: TaskView,
    /// It is in a group of tasks that can be done side by side.
    can_parallelize: bool,
    /// Others of its group that can be taken now.
    parallel_with: Vec<String>,
    /// The names of what it waited for.
    dependencies_completed: Vec<String>,
    /// It was given to you, and nobody else can take it: claim it before any other, or give it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reserved_for_you: bool,
    /// After so many seconds it is given to somebody else, if you have not claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    accept_within_seconds: Option<u64>,
}

impl NextTaskView {
    /// Of all that is reserved, only what is so for the caller is found.
    fn of(next: NextTask, now: Timestamp) -> NextTaskView {
        NextTaskView {
            reserved_for_you: next.task.reserved_for.is_some(),
            accept_within_seconds: translate::accept_within(&next.task, now),
            task: translate::task(next.task),
            can_parallelize: next.can_parallelize,
            parallel_with: next.parallel_with.iter().map(ToString::to_string).collect(),
            dependencies_completed: next.dependencies_completed,
        }
    }
}

async fn next_tasks(call: Call, asked: WorkflowNextTasksArgs) -> ToolAnswer<WorkflowNextTasksResult> {
    let caller = call.reader_named(asked.agent_id.as_deref()).await?;
    let failed = if asked.include_failed == Some(false) { FailedTasks::LeftOut } else { FailedTasks::Offered };
    let search = Search { failed, agent: caller.actor.agent().cloned() };
    let (limit, now) = (page(asked.limit, PAGE), call.engine().clock().now());
    let found =
        |tasks: Vec<NextTask>| tasks.into_iter().take(limit as usize).map(|next| NextTaskView::of(next, now)).collect();
    let Some(workflow) = asked.workflow_id else {
        let open = call.engine().runs().next_tasks_anywhere(&search, limit).await?.value;
        return Ok(ToolReply::new(WorkflowNextTasksResult {
            recommended_count: open.recommended_count,
            tasks: found(open.tasks),
            max_parallel: None,
            workflow_status: None,
            all_complete: open.all_complete,
        }));
    };
    let next = call.engine().runs().next_tasks(&RunId::from(workflow.as_str()), &search).await?.value;
    Ok(ToolReply::new(WorkflowNextTasksResult {
        tasks: found(next.tasks),
        max_parallel: Some(next.max_parallel),
        recommended_count: next.recommended_count,
        workflow_status: Some(next.workflow_status.as_str().to_owned()),
        all_complete: next.all_complete,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowProgressArgs {
    /// The workflow's id.
    #[serde(alias = "id")]
    workflow_id: String,
}

async fn progress(call: Call, asked: WorkflowProgressArgs) -> ToolAnswer<Progress> {
    call.reader().await?;
    Ok(ToolReply::new(call.engine().runs().progress(&RunId::from(asked.workflow_id.as_str())).await?.value))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SummaryStyle {
    Json,
    Markdown,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowSummaryArgs {
    /// The workflow's id.
    #[serde(alias = "workflow_id")]
    id: String,
    /// Default: json.
    format: Option<SummaryStyle>,
}

async fn summary(call: Call, asked: WorkflowSummaryArgs) -> ToolAnswer<Summary> {
    call.reader().await?;
    let format = match asked.format {
        Some(SummaryStyle::Markdown) => SummaryFormat::Markdown,
        Some(SummaryStyle::Json) | None => SummaryFormat::Json,
    };
    Ok(ToolReply::new(call.engine().runs().summary(&RunId::from(asked.id.as_str()), format).await?.value))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowUpdateStatusArgs {
    /// The workflow's id.
    #[serde(alias = "workflow_id")]
    id: String,
    /// What it becomes.
    #[schemars(schema_with = "arguments::run_status")]
    status: RunStatus,
    /// Why.
    reason: Option<String>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

async fn update_status(call: Call, asked: WorkflowUpdateStatusArgs) -> ToolAnswer<Done> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let command = SetRunStatus { run: RunId::from(asked.id.as_str()), to: asked.status, reason: asked.reason };
    call.submit(caller, command).await?;
    Ok(ToolReply::new(Done::yes()))
}
