//! Making a template, from a definition or from a run that went well.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::placeholders::blanks;
use super::{PlannedTask, resolve};
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, Seq, TaskId, TemplateId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::run::author;
use crate::model::task::{Details, Task};
use crate::model::template::{Step, Template};
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CreateTemplate {
    pub id: TemplateId,
    pub title: String,
    pub description: String,
    pub source: TemplateSource,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplateSource {
    Run(RunId),
    /// Tasks, and variables beside those that the tasks mention.
    Definition {
        tasks: Vec<TemplateTask>,
        variables: Vec<String>,
    },
}

/// A task of a definition; others are named by their name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TemplateTask {
    pub title: String,
    pub description: String,
    pub resources: Vec<String>,
    pub depends_on: Vec<String>,
    pub context_from: Vec<String>,
    pub details: Details,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TemplateCreated {
    pub template: TemplateId,
    pub title: String,
    pub description: String,
    pub tasks: Vec<Step>,
    pub variables: Vec<String>,
    pub created_by: String,
}

impl Command for CreateTemplate {
    const NAME: &'static str = "CreateTemplate";

    type Reply = Template;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet =
            vec![Key::Template(self.id.clone()).into(), Lookup::templates_named(&self.title).into()];
        if let TemplateSource::Run(run) = &self.source {
            read_set.push(Key::Run(run.clone()).into());
            read_set.push(Lookup::tasks_of_run(run).into());
        }
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Template>, Undecided> {
        self.check()?;
        let named = !cx.view.all(&Lookup::templates_named(&self.title))?.is_empty();
        if named || cx.view.get(&Key::Template(self.id.clone()))?.is_some() {
            return Err(Rejection::new(Code::DuplicateTemplate, format!("a template '{}' exists", self.title))
                .hint("choose another name")
                .into());
        }
        let (tasks, mut variables) = match &self.source {
            TemplateSource::Run(run) => (self.of_run(cx.view, run)?, BTreeSet::new()),
            TemplateSource::Definition { tasks, variables } => {
                limit::list("variables", variables)?;
                (defined(tasks)?, variables.iter().cloned().collect())
            }
        };
        if tasks.is_empty() {
            return Err(Rejection::new(Code::Invalid, "a template needs at least one task").into());
        }
        let texts = tasks.iter().flat_map(|task| [&task.title, &task.description]);
        variables.extend(texts.flat_map(|text| blanks(text)).map(str::to_owned));
        let fact = AnyEvent::new(TemplateCreated {
            template: self.id.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            tasks,
            variables: variables.into_iter().collect(),
            created_by: author(cx.caller),
        });
        Ok(Decision::new(vec![fact], ReplySource::row(self.id.clone())))
    }
}

impl CreateTemplate {
    fn check(&self) -> Result<(), Rejection> {
        if self.title.trim().is_empty() {
            return Err(Rejection::new(Code::Invalid, "name must not be empty"));
        }
        limit::text("name", &self.title, limit::NAME_BYTES)?;
        limit::text("description", &self.description, limit::TEXT_BYTES)
    }

    fn of_run(&self, view: &View, run: &RunId) -> Result<Vec<Step>, Undecided> {
        view.run_known(run)?;
        let tasks = view.tasks_of_run(run)?;
        let place = |ids: &[TaskId]| -> Vec<usize> {
            ids.iter().filter_map(|id| tasks.iter().position(|task| task.id == *id)).collect()
        };
        let step = |task: &&Task| Step {
            title: task.title.clone(),
            description: task.description.clone(),
            resources: task.resources.clone(),
            depends_on: place(&task.depends_on),
            context_from: place(&task.context_from),
            details: task.details.clone(),
        };
        Ok(tasks.iter().map(step).collect())
    }
}

/// A definition is checked as the plan that it will be.
fn defined(tasks: &[TemplateTask]) -> Result<Vec<Step>, Rejection> {
    let planned: Vec<PlannedTask> = tasks
        .iter()
        .enumerate()
        .map(|(at, task)| PlannedTask {
            // No name can be one of these: they are never shown, and only tell the tasks apart.
            id: TaskId::new(format!("\u{0}{at}")),
            title: task.title.clone(),
            description: task.description.clone(),
            resources: task.resources.clone(),
            depends_on: task.depends_on.clone(),
            context_from: task.context_from.clone(),
            details: task.details.clone(),
        })
        .collect();
    let place = |ids: &[TaskId]| -> Vec<usize> {
        ids.iter().filter_map(|id| planned.iter().position(|task| task.id == *id)).collect()
    };
    let resolved = resolve(&[], &planned, Code::DuplicateTaskName)?;
    let step = |task: crate::plans::Resolved| Step {
        depends_on: place(&task.depends_on),
        context_from: place(&task.context_from),
        title: task.task.title,
        description: task.task.description,
        resources: task.task.resources,
        details: task.task.details,
    };
    Ok(resolved.into_iter().map(step).collect())
}

impl TemplateCreated {
    pub(super) fn template(&self, seq: Seq, at: Timestamp) -> Template {
        Template {
            id: self.template.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            tasks: self.tasks.clone(),
            variables: self.variables.clone(),
            created_by: self.created_by.clone(),
            created_at: at,
            created: seq,
        }
    }
}

impl Event for TemplateCreated {
    const KIND: &'static str = "template.created";

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Template(self.template.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.template.clone(), self.template(stamp.seq, stamp.at));
    }
}
