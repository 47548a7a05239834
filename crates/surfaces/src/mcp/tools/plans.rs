//! Plans: the tasks of a workflow and what each waits for; and how a worker means to do one of them.

use rookery_core::model::task::{Complexity, Details};
use rookery_core::plans::{AddRunTask, PlannedTask, RemoveRunTask, ReplanRun, SetRunPlan};
use rookery_core::tasks::{ReplanTask, SetTaskPlan};
use rookery_core::{FirstSeq, RunId, TaskId};
use rookery_engine::Engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Done;
use crate::mcp::arguments::{self, name};
use crate::mcp::translate::TaskPlanView;
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "workflow_set_plan",
            Adds,
            &[Workflow],
            "Give a workflow its tasks, once. depends_on names tasks of the plan; circles are refused and named. Next: \
             workflow_next_tasks.",
            set_plan,
        ),
        Tool::new(
            "workflow_replan",
            Adds,
            &[Workflow],
            "Replace what has not begun of a workflow's plan. What was begun, claimed or finished stays, and new tasks may \
             depend on it by name.",
            replan,
        ),
        Tool::new(
            "workflow_add_task",
            Adds,
            &[Workflow],
            "Add one task to a workflow that has its plan, at the end or after another. Anybody may. A completed workflow \
             opens again.",
            add_task,
        ),
        Tool::new(
            "workflow_remove_task",
            Ends,
            &[Workflow],
            "Take a task out of a plan that nobody has begun or claimed. What waited for it then waits for what it waited \
             for. To drop one that was begun, use task_update_status cancelled.",
            remove_task,
        ),
        Tool::new(
            "task_set_plan",
            Sets,
            &[Workflow],
            "Record how you mean to do your task, before you begin; it is then planning. Next: task_update_status \
             in_progress.",
            set_task_plan,
        ),
        Tool::new(
            "task_replan",
            Adds,
            &[Workflow],
            "Replace the plan of a task that was begun or has failed, and say why; a failed one can then be taken again. \
             The old plan is kept in a checkpoint.",
            replan_task,
        ),
    ]
}

/// A task as a plan describes it.
#[derive(Debug, Deserialize, JsonSchema)]
struct DescribedTask {
    /// What it is called. Unique in its workflow, because others refer to it by that.
    name: String,
    /// What is to be done, so that any agent can do it.
    description: Option<String>,
    /// A label for tasks that can be done side by side.
    parallel_group: Option<String>,
    /// The names of tasks that must be finished first.
    depends_on: Option<Vec<String>>,
    /// How hard it is.
    #[serde(default)]
    #[schemars(schema_with = "arguments::complexity")]
    estimated_complexity: Option<Complexity>,
    /// Files it will probably change.
    files_likely_affected: Option<Vec<String>>,
    /// The repository it is about.
    repository_path: Option<String>,
    /// The names of tasks whose outcomes it needs to know. Left out: all before it.
    context_from: Option<Vec<String>>,
    /// Its place in the order, where that is not its place in this list.
    sequence: Option<u32>,
}

impl DescribedTask {
    fn planned(self, engine: &Engine) -> PlannedTask {
        PlannedTask {
            id: engine.runs().mint_planned_task(),
            title: self.name,
            description: self.description.unwrap_or_default(),
            resources: self.files_likely_affected.unwrap_or_default(),
            depends_on: self.depends_on.unwrap_or_default(),
            context_from: self.context_from.unwrap_or_default(),
            details: Details {
                parallel_group: self.parallel_group,
                estimated_complexity: self.estimated_complexity,
                repository_path: self.repository_path,
            },
        }
    }
}

/// The tasks in the order that they are meant to have.
fn planned(mut tasks: Vec<DescribedTask>, engine: &Engine) -> Vec<PlannedTask> {
    let mut place = 0;
    tasks.sort_by_cached_key(|task| {
        place += 1;
        task.sequence.unwrap_or(place)
    });
    tasks.into_iter().map(|task| task.planned(engine)).collect()
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowSetPlanArgs {
    /// The workflow's id.
    #[serde(alias = "workflow_id")]
    id: String,
    /// The plan.
    plan: WorkflowPlan,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowPlan {
    /// The plan in short; everybody who loads a task's context reads it.
    summary: String,
    /// The way it shall be done.
    approach: Option<String>,
    /// What may go wrong.
    risks: Option<Vec<String>>,
    /// What is taken for granted.
    assumptions: Option<Vec<String>>,
    /// The tasks, in their order.
    tasks: Vec<DescribedTask>,
}

impl WorkflowPlan {
    /// The summary with all that the plan says beside its tasks, because that is what others are shown.
    fn told(&self) -> String {
        let list = |title: &str, entries: Option<&Vec<String>>| match entries {
            Some(entries) if !entries.is_empty() => format!("\n\n{title}:\n- {}", entries.join("\n- ")),
            _ => String::new(),
        };
        let approach = self.approach.as_ref().map(|text| format!("\n\nApproach: {text}")).unwrap_or_default();
        let (risks, assumptions) = (list("Risks", self.risks.as_ref()), list("Assumptions", self.assumptions.as_ref()));
        format!("{}{approach}{risks}{assumptions}", self.summary)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowSetPlanResult {
    workflow_id: String,
    tasks_created: u32,
    /// The labels of tasks that can be done side by side.
    parallelizable_groups: Vec<String>,
    status: String,
}

async fn set_plan(call: Call, asked: WorkflowSetPlanArgs) -> ToolAnswer<WorkflowSetPlanResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let mut groups: Vec<String> = Vec::new();
    for group in asked.plan.tasks.iter().filter_map(|task| task.parallel_group.as_ref()) {
        if !groups.contains(group) {
            groups.push(group.clone());
        }
    }
    let summary = asked.plan.told();
    let tasks = planned(asked.plan.tasks, call.engine());
    let command = SetRunPlan { run: RunId::from(asked.id.as_str()), summary, tasks };
    let run = call.submit(caller, command).await?.reply;
    Ok(ToolReply::new(WorkflowSetPlanResult {
        workflow_id: run.id.to_string(),
        tasks_created: run.tasks,
        parallelizable_groups: groups,
        status: run.status.as_str().to_owned(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowReplanArgs {
    /// The workflow's id.
    #[serde(alias = "id")]
    workflow_id: String,
    /// The new plan.
    plan: WorkflowReplacementPlan,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowReplacementPlan {
    /// The plan in short.
    summary: String,
    /// Why it changes.
    reason: String,
    /// The tasks that replace those that have not begun.
    tasks: Vec<DescribedTask>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowReplanResult {
    workflow_id: String,
    tasks_added: usize,
    tasks_removed: usize,
    tasks_preserved: usize,
    new_status: String,
}

async fn replan(call: Call, asked: WorkflowReplanArgs) -> ToolAnswer<WorkflowReplanResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let run = RunId::from(asked.workflow_id.as_str());
    let tasks = planned(asked.plan.tasks, call.engine());
    let command = ReplanRun { run: run.clone(), summary: asked.plan.summary, reason: asked.plan.reason, tasks };
    let FirstSeq(first) = call.submit(caller, command).await?.reply;
    let change = call.engine().runs().plan_change(first).await?;
    Ok(ToolReply::new(WorkflowReplanResult {
        workflow_id: asked.workflow_id,
        tasks_added: change.added.len(),
        tasks_removed: change.removed.len(),
        tasks_preserved: change.preserved.len(),
        new_status: call.engine().runs().run(&run).await?.value.status.as_str().to_owned(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowAddTaskArgs {
    /// The workflow's id.
    workflow_id: String,
    /// What the task is called. Unique in its workflow.
    name: String,
    /// What is to be done, so that any agent can do it.
    description: Option<String>,
    /// A label for tasks that can be done side by side.
    parallel_group: Option<String>,
    /// The names or ids of tasks that must be finished first.
    depends_on: Option<Vec<String>>,
    /// How hard it is.
    #[serde(default)]
    #[schemars(schema_with = "arguments::complexity")]
    estimated_complexity: Option<Complexity>,
    /// Files it will probably change.
    files_likely_affected: Option<Vec<String>>,
    /// The repository it is about.
    repository_path: Option<String>,
    /// The names or ids of tasks whose outcomes it needs to know. Left out: all before it.
    context_from: Option<Vec<String>>,
    /// The name or id of the task that it comes after. Left out: the last.
    #[serde(default, deserialize_with = "name")]
    after_task: Option<String>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowAddTaskResult {
    task_id: String,
    sequence: u32,
    workflow_id: String,
}

async fn add_task(call: Call, asked: WorkflowAddTaskArgs) -> ToolAnswer<WorkflowAddTaskResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let described = DescribedTask {
        name: asked.name,
        description: asked.description,
        parallel_group: asked.parallel_group,
        depends_on: asked.depends_on,
        estimated_complexity: asked.estimated_complexity,
        files_likely_affected: asked.files_likely_affected,
        repository_path: asked.repository_path,
        context_from: asked.context_from,
        sequence: None,
    };
    let run = RunId::from(asked.workflow_id.as_str());
    let command = AddRunTask { run, task: described.planned(call.engine()), after: asked.after_task };
    let task = call.submit(caller, command).await?.reply;
    Ok(ToolReply::new(WorkflowAddTaskResult {
        task_id: task.id.to_string(),
        sequence: task.sequence,
        workflow_id: task.run.to_string(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WorkflowRemoveTaskArgs {
    /// The workflow's id.
    workflow_id: String,
    /// The task's id.
    task_id: String,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowRemoveTaskResult {
    removed_task_id: String,
    /// How many new dependencies took the place of those on the removed task.
    dependencies_rewired: usize,
    tasks_renumbered: usize,
}

async fn remove_task(call: Call, asked: WorkflowRemoveTaskArgs) -> ToolAnswer<WorkflowRemoveTaskResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let task = TaskId::from(asked.task_id.as_str());
    let command = RemoveRunTask { run: RunId::from(asked.workflow_id.as_str()), task };
    let FirstSeq(first) = call.submit(caller, command).await?.reply;
    let change = call.engine().runs().plan_change(first).await?;
    Ok(ToolReply::new(WorkflowRemoveTaskResult {
        removed_task_id: asked.task_id,
        dependencies_rewired: change.dependencies_rewired,
        tasks_renumbered: change.tasks_renumbered,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskSetPlanArgs {
    /// The task's id.
    #[serde(alias = "task_id")]
    id: String,
    /// The plan.
    plan: TaskPlanView,
    /// What you want to find again with the task; laid over what is there already, field by field.
    context: Option<Map<String, Value>>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

async fn set_task_plan(call: Call, asked: TaskSetPlanArgs) -> ToolAnswer<Done> {
    let task = TaskId::from(asked.id.as_str());
    let (caller, agent) = call.worker_on(asked.agent_id.as_deref(), &task).await?;
    let command = SetTaskPlan { task, agent, plan: asked.plan.into(), context: asked.context.unwrap_or_default() };
    call.submit(caller, command).await?;
    Ok(ToolReply::new(Done::yes()))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskReplanArgs {
    /// The task's id.
    #[serde(alias = "task_id")]
    id: String,
    /// Why the plan changes.
    reason: String,
    /// The new plan.
    new_plan: TaskPlanView,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TaskReplanResult {
    success: bool,
    /// The checkpoint that has the reason and the old plan.
    checkpoint_id: String,
}

async fn replan_task(call: Call, asked: TaskReplanArgs) -> ToolAnswer<TaskReplanResult> {
    let task = TaskId::from(asked.id.as_str());
    let (caller, agent) = call.worker_on(asked.agent_id.as_deref(), &task).await?;
    let command = ReplanTask {
        task,
        agent,
        plan: asked.new_plan.into(),
        reason: asked.reason,
        checkpoint: call.engine().runs().mint_checkpoint(),
    };
    let checkpoint = call.submit(caller, command).await?.reply;
    Ok(ToolReply::new(TaskReplanResult { success: true, checkpoint_id: checkpoint.id }))
}
