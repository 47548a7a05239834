//! Making a run from a template: created and planned in one step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::placeholders::fill;
use super::{PlannedTask, RunPlanned, planned, resolve};
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, TaskId, TemplateId};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::run::{Run, RunSpec, SourceType, author};
use crate::model::template::Template;
use crate::model::{Key, ReadSet, Undecided};
use crate::runs::CreateRun;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, ReplySource};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ApplyTemplate {
    pub template: TemplateId,
    pub run: RunId,
    pub title: String,
    /// Ids for the tasks, at least as many as the template has.
    pub tasks: Vec<TaskId>,
    pub variables: BTreeMap<String, String>,
    pub repository_paths: Vec<String>,
    pub max_parallel_tasks: u32,
}

impl Command for ApplyTemplate {
    const NAME: &'static str = "ApplyTemplate";

    type Reply = Run;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet =
            vec![Key::Template(self.template.clone()).into(), Key::Run(self.run.clone()).into()];
        read_set.extend(self.tasks.iter().take(limit::RUN_TASKS).map(|id| Key::Task(id.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Run>, Undecided> {
        let template = cx.view.template_known(&self.template)?;
        self.check(template)?;
        let create = CreateRun { id: self.run.clone(), brief: self.brief(template) };
        let summary = fill(&template.description, &self.variables);
        let resolved = resolve(&[], &self.planned(template), Code::DuplicateTaskName)?;
        let mut facts = vec![
            create.created(cx.view, cx.caller)?,
            AnyEvent::new(RunPlanned {
                run: self.run.clone(),
                summary,
                planned: self.tasks.iter().take(template.tasks.len()).cloned().collect(),
            }),
        ];
        facts.extend(planned(cx.view, &self.run, &author(cx.caller), 0, resolved)?);
        Ok(Decision::new(facts, ReplySource::row(self.run.clone())))
    }
}

impl ApplyTemplate {
    fn check(&self, template: &Template) -> Result<(), Rejection> {
        limit::json("variables", &self.variables, limit::METADATA_BYTES)?;
        let missing: Vec<&str> =
            template.variables.iter().filter(|name| !self.variables.contains_key(*name)).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(Rejection::new(Code::MissingVariables, format!("no value for {}", missing.join(", ")))
                .hint("give every variable that template_list shows for it"));
        }
        if self.tasks.len() < template.tasks.len() {
            return Err(Rejection::new(Code::Invalid, "fewer ids than the template has tasks"));
        }
        Ok(())
    }

    fn brief(&self, template: &Template) -> RunSpec {
        RunSpec {
            title: self.title.clone(),
            source_type: SourceType::Template,
            source_ref: Some(self.template.to_string()),
            source_content: fill(&template.description, &self.variables),
            repository_paths: self.repository_paths.clone(),
            max_parallel_tasks: self.max_parallel_tasks,
            auto_create_workspaces: false,
            config: Map::new(),
        }
    }

    fn planned(&self, template: &Template) -> Vec<PlannedTask> {
        // By id: names may fall together once they are filled, and that must be said of the names.
        let ids = |places: &[usize]| -> Vec<String> {
            places.iter().filter_map(|at| self.tasks.get(*at)).map(ToString::to_string).collect()
        };
        let with_id = template.tasks.iter().zip(&self.tasks);
        with_id
            .map(|(step, id)| PlannedTask {
                id: id.clone(),
                title: fill(&step.title, &self.variables),
                description: fill(&step.description, &self.variables),
                resources: step.resources.clone(),
                depends_on: ids(&step.depends_on),
                context_from: ids(&step.context_from),
                details: step.details.clone(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::run::RunStatus;
    use crate::model::task::Details;
    use crate::plans::{CreateTemplate, TemplateSource, TemplateTask};
    use crate::testing::{World, by};

    fn task(title: &str, depends_on: &[&str]) -> TemplateTask {
        TemplateTask {
            title: title.to_owned(),
            description: "for {{who}}".to_owned(),
            resources: vec![],
            depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
            context_from: vec![],
            details: Details::default(),
        }
    }

    fn create(id: &str, tasks: Vec<TemplateTask>) -> CreateTemplate {
        CreateTemplate {
            id: id.into(),
            title: format!("template {id}"),
            description: "a feature".to_owned(),
            source: TemplateSource::Definition { tasks, variables: vec!["extra".to_owned()] },
        }
    }

    fn apply(template: &str, given: &[(&str, &str)]) -> ApplyTemplate {
        ApplyTemplate {
            template: template.into(),
            run: "wf".into(),
            title: "a run".to_owned(),
            tasks: vec!["tk_1".into(), "tk_2".into(), "tk_3".into()],
            variables: given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            repository_paths: vec![],
            max_parallel_tasks: 2,
        }
    }

    #[test]
    fn a_definition_becomes_a_planned_run() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), create("tm", vec![task("build {{what}}", &[]), task("test it", &["build {{what}}"])]));
        let given = [("what", "login"), ("who", "anna"), ("extra", "")];
        let facts = w.does(&by("a"), apply("tm", &given));
        assert_eq!(facts, ["run.created", "run.planned", "task.created", "task.created"]);
        let first = w.task("tk_1");
        assert_eq!((first.title.as_str(), first.description.as_str()), ("build login", "for anna"));
        assert_eq!(w.task("tk_2").depends_on, ["tk_1".into()]);
        let run = w.run_row("wf");
        assert_eq!((run.status, run.tasks, run.brief.source_type), (RunStatus::Ready, 2, SourceType::Template));
    }

    #[test]
    fn every_variable_must_be_given_and_names_must_differ_when_filled() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), create("tm", vec![task("{{one}}", &[]), task("{{two}}", &["{{one}}"])]));
        let all = [("one", "x"), ("two", "y"), ("who", "z"), ("extra", "")];
        for left_out in 0..all.len() {
            let given: Vec<_> = all.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, v)| *v).collect();
            assert_eq!(w.refuses(&by("a"), apply("tm", &given)), Code::MissingVariables);
        }
        let same = [("one", "x"), ("two", "x"), ("who", "z"), ("extra", "")];
        assert_eq!(w.refuses(&by("a"), apply("tm", &same)), Code::DuplicateTaskName);
        assert_eq!(w.refuses(&by("a"), ApplyTemplate { tasks: vec![], ..apply("tm", &all) }), Code::Invalid);
        assert_eq!(w.refuses(&by("a"), apply("tm_x", &all)), Code::TemplateNotFound);
        w.does(&by("a"), apply("tm", &all));
        assert_eq!(w.refuses(&by("a"), apply("tm", &all)), Code::AlreadyExists);
    }

    #[test]
    fn a_template_is_named_once_and_checked_like_a_plan() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), create("tm", vec![task("x", &[])]));
        let same_name = CreateTemplate { id: "tm_2".into(), ..create("tm", vec![task("x", &[])]) };
        assert_eq!(w.refuses(&by("a"), same_name), Code::DuplicateTemplate);
        let cyclic = create("tm_3", vec![task("x", &["y"]), task("y", &["x"])]);
        assert_eq!(w.refuses(&by("a"), cyclic), Code::DependencyCycle);
        assert_eq!(w.refuses(&by("a"), create("tm_3", vec![])), Code::Invalid);
    }

    #[test]
    fn a_run_can_be_the_model() {
        let mut w = World::of(&["a"]);
        w.plans("model", &[("one", &[]), ("two {{what}}", &["one"])]);
        let from = |run: &str| CreateTemplate { source: TemplateSource::Run(run.into()), ..create("tm", vec![]) };
        assert_eq!(w.refuses(&by("a"), from("nothing")), Code::WorkflowNotFound);
        w.does(&by("a"), from("model"));
        assert_eq!(w.refuses(&by("a"), apply("tm", &[])), Code::MissingVariables);
        w.does(&by("a"), apply("tm", &[("what", "more")]));
        assert_eq!((w.task("tk_2").title.as_str(), w.task("tk_2").waiting_on.len()), ("two more", 1));
    }
}
