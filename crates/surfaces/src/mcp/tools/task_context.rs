//! What an agent needs to begin a task or to go on with it, within its budget.

use rookery_core::TaskId;
use rookery_engine::task_context::{
    Beside, Checkpoints, DEFAULT_CHECKPOINTS, DEFAULT_TOKENS, Include, Part, TaskContextView,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::mcp::unread::{count, longest_hint};
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    vec![Tool::new(
        "task_load_context",
        Effect::Reads,
        &[Toolset::Workflow, Toolset::Team],
        "All you need for a task, in at most max_tokens: workflow, plan, checkpoints, what other tasks came to. After your \
         context was cleared, ask for all_checkpoints. omitted says what did not fit and where it is.",
        load,
    )]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TaskLoadContextArgs {
    /// The task's id.
    #[serde(alias = "id")]
    task_id: String,
    /// Parts; what is not named is there.
    include: Option<ContextParts>,
    /// Default 8000, at least 500.
    max_tokens: Option<usize>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

/// What is left out of this is there, but for `prior_task_full` and `all_checkpoints`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
struct ContextParts {
    #[schemars(extend("x-rare" = true))]
    workflow_plan: Option<bool>,
    /// Same as workflow_plan.
    #[schemars(extend("x-rare" = true))]
    workflow_summary: Option<bool>,
    #[schemars(extend("x-rare" = true))]
    prior_task_outcomes: Option<bool>,
    /// Default: false.
    #[schemars(extend("x-rare" = true))]
    prior_task_full: Option<bool>,
    #[schemars(extend("x-rare" = true))]
    dependency_outcomes: Option<bool>,
    #[schemars(extend("x-rare" = true))]
    sibling_status: Option<bool>,
    /// How many; default 5.
    recent_checkpoints: Option<usize>,
    /// Default: false.
    all_checkpoints: Option<bool>,
}

impl ContextParts {
    fn include(&self) -> Include {
        let asked_for = |flag: Option<bool>| if flag == Some(true) { Part::Wanted } else { Part::LeftOut };
        let last = Checkpoints::Last(self.recent_checkpoints.unwrap_or(DEFAULT_CHECKPOINTS));
        Include {
            workflow_plan: Part::of(self.workflow_plan.or(self.workflow_summary)),
            prior_task_outcomes: Part::of(self.prior_task_outcomes.or(self.prior_task_full.filter(|full| *full))),
            prior_task_full: asked_for(self.prior_task_full),
            dependency_outcomes: Part::of(self.dependency_outcomes),
            sibling_status: Part::of(self.sibling_status),
            checkpoints: if self.all_checkpoints == Some(true) { Checkpoints::All } else { last },
        }
    }
}

async fn load(call: Call, asked: TaskLoadContextArgs) -> ToolAnswer<TaskContextView> {
    let caller = call.reader_named(asked.agent_id.as_deref()).await?;
    let unread = call.unread(&caller).await;
    // Every result says what waits for its caller; here that counts against what was asked for.
    let around = longest_hint(&unread);
    let unread = count(&unread) as u64;
    let include = asked.include.unwrap_or_default().include();
    let max_tokens = asked.max_tokens.unwrap_or(DEFAULT_TOKENS);
    let task = TaskId::from(asked.task_id.as_str());
    let context = call.engine().task_context().load(&task, &include, max_tokens, Beside { unread, around }).await?;
    Ok(ToolReply::new(context.value))
}
