//! Templates: plans to use again, with blanks to fill in.

use std::collections::BTreeMap;

use rookery_core::model::task::Details;
use rookery_core::model::template::{Step, Template};
use rookery_core::plans::{ApplyTemplate, CreateTemplate, TemplateSource, TemplateTask};
use rookery_core::{RunId, TemplateId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Nothing;
use crate::mcp::arguments::name;
use crate::mcp::{Call, Effect, Tool, ToolAnswer, ToolError, ToolReply, Toolset};

pub fn tools() -> Vec<Tool> {
    use Effect::*;
    use Toolset::*;
    vec![
        Tool::new(
            "template_create",
            Adds,
            &[Workflow],
            "Keep a plan to use again, from a workflow that went well or from tasks that you write down. {{word}} in a \
             task's name or description is a blank that is filled in when it is applied.",
            create,
        ),
        Tool::new(
            "template_list",
            Reads,
            &[Workflow],
            "List the templates by name, with their tasks and the variables that must be given to apply them.",
            list,
        ),
        Tool::new(
            "template_apply",
            Adds,
            &[Workflow],
            "Open a workflow from a template, with its plan. Every variable of the template needs a value. Next: \
             workflow_next_tasks.",
            apply,
        ),
    ]
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TemplateCreateArgs {
    /// What it is called. Every template has a name of its own.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// The workflow to take the tasks from. Either this or template.
    #[serde(default, deserialize_with = "name")]
    from_workflow_id: Option<String>,
    /// The tasks. Either this or from_workflow_id.
    template: Option<TemplateDefinition>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TemplateDefinition {
    /// The tasks, in their order.
    tasks: Vec<TemplateTaskDefinition>,
    /// Variables beside those that the tasks mention.
    variables: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TemplateTaskDefinition {
    /// What it is called; may have blanks.
    name: String,
    /// What is to be done; may have blanks.
    description: Option<String>,
    /// A label for tasks that can be done side by side.
    parallel_group: Option<String>,
    /// The names of tasks that must be finished first, as they are written here.
    depends_on: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TemplateCreateResult {
    id: String,
}

async fn create(call: Call, asked: TemplateCreateArgs) -> ToolAnswer<TemplateCreateResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let source = match (asked.from_workflow_id, asked.template) {
        (Some(run), None) => TemplateSource::Run(RunId::from(run.as_str())),
        (None, Some(definition)) => definition.source(),
        (Some(_), Some(_)) | (None, None) => {
            return Err(ToolError::invalid("exactly one of from_workflow_id and template is needed")
                .suggest("name a workflow to take the tasks from, or write the tasks down in template"));
        }
    };
    let command = CreateTemplate {
        id: call.engine().runs().mint_template(),
        title: asked.name,
        description: asked.description.unwrap_or_default(),
        source,
    };
    let template = call.submit(caller, command).await?.reply;
    Ok(ToolReply::new(TemplateCreateResult { id: template.id.to_string() }))
}

impl TemplateDefinition {
    fn source(self) -> TemplateSource {
        let task = |task: TemplateTaskDefinition| TemplateTask {
            title: task.name,
            description: task.description.unwrap_or_default(),
            resources: vec![],
            depends_on: task.depends_on.unwrap_or_default(),
            context_from: vec![],
            details: Details { parallel_group: task.parallel_group, ..Details::default() },
        };
        TemplateSource::Definition {
            tasks: self.tasks.into_iter().map(task).collect(),
            variables: self.variables.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct TemplateListResult {
    templates: Vec<TemplateView>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TemplateView {
    id: String,
    name: String,
    description: String,
    /// What must be given to apply it.
    variables: Vec<String>,
    tasks: Vec<TemplateTaskView>,
    /// Where it is kept: db.
    source: String,
    created_by: String,
    created_at: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TemplateTaskView {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_group: Option<String>,
    /// Names.
    depends_on: Vec<String>,
}

async fn list(call: Call, _: Nothing) -> ToolAnswer<TemplateListResult> {
    call.reader().await?;
    let templates = call.engine().runs().templates().await?.value.into_iter().map(shown).collect();
    Ok(ToolReply::new(TemplateListResult { templates }))
}

fn shown(template: Template) -> TemplateView {
    let names: Vec<String> = template.tasks.iter().map(|step| step.title.clone()).collect();
    let step = |step: Step| TemplateTaskView {
        depends_on: step.depends_on.iter().filter_map(|at| names.get(*at).cloned()).collect(),
        name: step.title,
        description: step.description,
        parallel_group: step.details.parallel_group,
    };
    TemplateView {
        id: template.id.to_string(),
        name: template.title,
        description: template.description,
        variables: template.variables,
        tasks: template.tasks.into_iter().map(step).collect(),
        source: "db".to_owned(),
        created_by: template.created_by,
        created_at: template.created_at.0,
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TemplateApplyArgs {
    /// The template's id.
    #[serde(alias = "id")]
    template_id: String,
    /// What the workflow is called.
    workflow_name: String,
    /// A value for each variable.
    variables: Option<BTreeMap<String, String>>,
    /// The repositories it is about.
    repository_paths: Option<Vec<String>>,
    /// How many tasks may be worked on at once. Default: 1.
    max_parallel_tasks: Option<u32>,
    /// Your id, unless connected as an agent.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TemplateApplyResult {
    workflow_id: String,
}

async fn apply(call: Call, asked: TemplateApplyArgs) -> ToolAnswer<TemplateApplyResult> {
    let caller = call.author(asked.agent_id.as_deref())?;
    let id = TemplateId::from(asked.template_id.as_str());
    let template = call.engine().runs().template(&id).await?.value;
    let command = ApplyTemplate {
        template: id,
        run: call.engine().runs().mint_run(),
        title: asked.workflow_name,
        tasks: template.tasks.iter().map(|_| call.engine().runs().mint_planned_task()).collect(),
        variables: asked.variables.unwrap_or_default(),
        repository_paths: asked.repository_paths.unwrap_or_default(),
        max_parallel_tasks: asked.max_parallel_tasks.unwrap_or(1),
    };
    let run = call.submit(caller, command).await?.reply;
    Ok(ToolReply::new(TemplateApplyResult { workflow_id: run.id.to_string() }))
}
