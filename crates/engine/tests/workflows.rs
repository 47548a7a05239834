//! Workflows through the engine: planned, worked on in the documented order, queried.

#![expect(clippy::unwrap_used, reason = "a failed step fails its test")]

mod support;

use std::path::Path;
use std::sync::Arc;

use rookery_core::agents::RegisterAgent;
use rookery_core::model::run::{RunSpec, RunStatus, SourceType};
use rookery_core::model::task::{CheckpointKind, Details, Outcome, TaskPlan};
use rookery_core::plans::{AddRunTask, PlannedTask, RemoveRunTask, ReplanRun, SetRunPlan};
use rookery_core::plans::{ApplyTemplate, CreateTemplate, TemplateSource};
use rookery_core::runs::{CreateRun, SetRunStatus};
use rookery_core::tasks::{
    AddCheckpoint, AssignTask, ClaimTask, CompleteTask, CreateTask, HeldByOther, Required, SetTaskPlan, StartTask,
};
use rookery_core::{AgentId, Caller, Code, Command, LogId, RunId, TaskId};
use rookery_engine::runs::{CheckpointFilter, FailedTasks, RunFilter, Search, SummaryFormat};
use rookery_engine::settings::Settings;
use rookery_engine::task_context::{Beside, Checkpoints, DEFAULT_TOKENS, Include};
use rookery_engine::{Config, Engine, EngineError, Request, SystemClock};
use rookery_store::SubmitError;
use rookery_store::memory::Database;

fn engine() -> Engine {
    let database = Database::new(LogId::from("log_w"));
    let node = support::node("here", Path::new("/"));
    support::engine(&database, Arc::new(SystemClock::default()), node, Config::new("test", "/", Settings::default()))
}

async fn submit_as_a<C: Command>(engine: &Engine, command: C) -> C::Reply {
    engine.submit(Request::new(Caller::asserted("a"), command)).await.unwrap().reply
}

fn code(error: EngineError) -> Code {
    match error {
        EngineError::Submit(SubmitError::Refused(refusal)) => refusal.code,
        other => panic!("{other}"),
    }
}

async fn register_agent(engine: &Engine, agent: &str) {
    let register = RegisterAgent::with_profile(agent.into(), support::worker());
    engine.submit(Request::new(Caller::asserted(agent), register)).await.unwrap();
}

fn run_spec(title: &str) -> RunSpec {
    RunSpec {
        title: title.to_owned(),
        source_type: SourceType::Prompt,
        source_ref: None,
        source_content: "build it".to_owned(),
        repository_paths: vec!["app".to_owned()],
        max_parallel_tasks: 2,
        auto_create_workspaces: false,
        config: serde_json::Map::new(),
    }
}

fn planned_task(name: &str, depends_on: &[&str]) -> PlannedTask {
    PlannedTask {
        id: TaskId::new(format!("tk_{name}")),
        title: name.to_owned(),
        description: format!("do {name}"),
        resources: vec![],
        depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
        context_from: vec![],
        details: Details { parallel_group: Some("both".to_owned()), ..Details::default() },
    }
}

/// A run `wf` with two parallel tasks and a third that waits for both.
async fn engine_with_plan() -> Engine {
    let engine = engine();
    register_agent(&engine, "a").await;
    submit_as_a(&engine, CreateRun { id: "wf".into(), brief: run_spec("the run") }).await;
    let tasks = vec![planned_task("left", &[]), planned_task("right", &[]), planned_task("end", &["left", "right"])];
    submit_as_a(&engine, SetRunPlan { run: "wf".into(), summary: "two and one".to_owned(), tasks }).await;
    engine
}

fn unrestricted_search() -> Search {
    Search { failed: FailedTasks::Offered, agent: None }
}

async fn complete_task(engine: &Engine, task: &str) {
    submit_as_a(engine, ClaimTask { task: task.into(), agent: "a".into() }).await;
    let plan = TaskPlan { approach: "by hand".to_owned(), ..TaskPlan::default() };
    submit_as_a(engine, SetTaskPlan { task: task.into(), agent: None, plan, context: serde_json::Map::new() }).await;
    submit_as_a(engine, StartTask { task: task.into(), agent: None, held_by_other: HeldByOther::KeepHolder }).await;
    let checkpoint = AddCheckpoint {
        id: engine.runs().mint_checkpoint(),
        task: task.into(),
        agent: None,
        kind: CheckpointKind::Decision,
        summary: format!("how {task} is done"),
        detail: None,
        files_changed: vec!["src/main.rs".to_owned()],
    };
    submit_as_a(engine, checkpoint).await;
    let outcome = Outcome { text: Some(format!("{task} is done")), detail: None };
    let complete =
        CompleteTask { task: task.into(), agent: None, outcome, outcome_required: Required::Yes, contract: None };
    submit_as_a(engine, complete).await;
}

#[tokio::test]
async fn recommended_task_count_respects_each_workflows_parallelism() {
    let engine = engine_with_plan().await;
    let narrow = RunSpec { max_parallel_tasks: 1, ..run_spec("one at a time") };
    submit_as_a(&engine, CreateRun { id: "narrow".into(), brief: narrow }).await;
    let tasks = vec![planned_task("first", &[]), planned_task("second", &[]), planned_task("third", &[])];
    submit_as_a(&engine, SetRunPlan { run: "narrow".into(), summary: "three".to_owned(), tasks }).await;
    let open = async |limit| {
        let open = engine.runs().next_tasks_anywhere(&unrestricted_search(), limit).await.unwrap().value;
        (open.tasks.len(), open.recommended_count)
    };
    assert_eq!(open(100).await, (5, 3), "two of one run and one of the other");
    assert_eq!(open(1).await, (1, 1), "at most the number listed");
    submit_as_a(&engine, ClaimTask { task: "tk_first".into(), agent: "a".into() }).await;
    assert_eq!(open(100).await, (4, 2), "the narrow run is full");
    submit_as_a(&engine, ClaimTask { task: "tk_left".into(), agent: "a".into() }).await;
    assert_eq!(open(100).await, (3, 1));
}

#[tokio::test]
async fn reserved_task_is_offered_first_and_only_to_its_agent() {
    let engine = engine_with_plan().await;
    submit_as_a(&engine, CreateRun { id: "other".into(), brief: run_spec("another") }).await;
    let tasks = vec![planned_task("own", &[]), planned_task("free", &[])];
    submit_as_a(&engine, SetRunPlan { run: "other".into(), summary: "two".to_owned(), tasks }).await;
    let assign = |task: &str| AssignTask { task: task.into(), to: "a".into() };
    for task in ["tk_own", "tk_end"] {
        engine.submit(Request::new(Caller::person("anna"), assign(task))).await.unwrap();
    }
    let search = |agent: Option<&str>| Search { failed: FailedTasks::Offered, agent: agent.map(AgentId::from) };
    let found = async |agent, limit| {
        let open = engine.runs().next_tasks_anywhere(&search(agent), limit).await.unwrap().value;
        open.tasks.into_iter().map(|next| next.task.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        found(Some("a"), 100).await,
        ["tk_own", "tk_left", "tk_right", "tk_free"],
        "a waiting task is not offered"
    );
    assert_eq!(found(Some("a"), 1).await, ["tk_own"]);
    for other in [None, Some("b")] {
        assert_eq!(found(other, 100).await, ["tk_left", "tk_right", "tk_free"]);
    }
    let within = engine.runs().next_tasks(&"other".into(), &search(Some("a"))).await.unwrap().value;
    assert_eq!(within.tasks.iter().map(|next| next.task.id.as_str()).collect::<Vec<_>>(), ["tk_own", "tk_free"]);
    submit_as_a(&engine, ClaimTask { task: "tk_free".into(), agent: "a".into() }).await;
    let pause = SetRunStatus { run: "other".into(), to: RunStatus::Paused, reason: None };
    submit_as_a(&engine, pause).await;
    assert_eq!(found(Some("a"), 100).await, ["tk_left", "tk_right"], "a paused run offers no tasks");
}

#[tokio::test]
async fn workflow_queries_follow_its_progress_to_completion() {
    let engine = engine_with_plan().await;
    let wf: RunId = "wf".into();
    let next = engine.runs().next_tasks(&wf, &unrestricted_search()).await.unwrap().value;
    let ids: Vec<&str> = next.tasks.iter().map(|next| next.task.id.as_str()).collect();
    assert_eq!((ids, next.recommended_count), (vec!["tk_left", "tk_right"], 2));
    assert_eq!((next.tasks[0].can_parallelize, &next.tasks[0].parallel_with), (true, &vec!["tk_right".into()]));
    assert_eq!((next.workflow_status, next.all_complete), (RunStatus::Ready, false));
    complete_task(&engine, "tk_left").await;
    let progress = engine.runs().progress(&wf).await.unwrap().value;
    assert_eq!((progress.total_tasks, progress.estimated_remaining), (3, 2));
    assert_eq!(progress.by_status.into_iter().collect::<Vec<_>>(), [("blocked", 1), ("completed", 1), ("pending", 1)]);
    assert_eq!(progress.blocked_tasks[0].blocked_by, ["right"]);
    assert_eq!((progress.completed_sequence, progress.current_sequence), (1, Some(2)));
    assert_eq!((progress.parallel_groups["both"].task_count, progress.parallel_groups["both"].completed), (3, 1));
    let waits = engine.runs().dependencies(&"tk_end".into()).await.unwrap().value;
    assert_eq!((waits.satisfied, waits.pending.len(), waits.completed.len()), (false, 1, 1));
    complete_task(&engine, "tk_right").await;
    let next = engine.runs().next_tasks(&wf, &unrestricted_search()).await.unwrap().value;
    assert_eq!(next.tasks[0].dependencies_completed, ["left", "right"]);
    complete_task(&engine, "tk_end").await;
    assert!(engine.runs().next_tasks(&wf, &unrestricted_search()).await.unwrap().value.all_complete);
    assert_eq!(engine.runs().run(&wf).await.unwrap().value.status, RunStatus::Completed);
    let summary = engine.runs().summary(&wf, SummaryFormat::Markdown).await.unwrap().value;
    assert!(
        summary.summary.contains("# the run") && summary.summary.contains("3. end [completed] by a: tk_end is done")
    );
    assert_eq!(summary.token_estimate, summary.summary.chars().count().div_ceil(4));
    let summary = engine.runs().summary(&wf, SummaryFormat::Json).await.unwrap().value;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&summary.summary).unwrap()["progress"]["total_tasks"], 3);
}

#[tokio::test]
async fn task_context_is_built_from_stored_rows() {
    let engine = engine_with_plan().await;
    complete_task(&engine, "tk_left").await;
    complete_task(&engine, "tk_right").await;
    submit_as_a(&engine, ClaimTask { task: "tk_end".into(), agent: "a".into() }).await;
    let end: TaskId = "tk_end".into();
    let context = engine
        .task_context()
        .load(&end, &Include::default(), DEFAULT_TOKENS, Beside { unread: 7, around: 0 })
        .await
        .unwrap()
        .value;
    assert_eq!((context.prior_tasks.len(), context.dependency_outcomes.len(), context.unread), (2, 2, 7));
    assert_eq!(context.dependency_outcomes[0].outcome.as_deref(), Some("tk_left is done"));
    assert_eq!(context.workflow.unwrap().plan_summary.as_deref(), Some("two and one"));
    let ended =
        engine.task_context().load(&"tk_left".into(), &Include::default(), 500, Beside::default()).await.unwrap().value;
    assert_eq!(ended.current_task.checkpoints[0].summary, "how tk_left is done");
    let few =
        engine.task_context().load(&"tk_end".into(), &Include::default(), 499, Beside::default()).await.unwrap_err();
    assert_eq!(code(few), Code::Invalid);
    let unknown =
        engine.task_context().load(&"tk_x".into(), &Include::default(), 500, Beside::default()).await.unwrap_err();
    assert_eq!(code(unknown), Code::TaskNotFound);
    let lone = CreateTask {
        id: "task_1".into(),
        run: RunId::project_default(),
        title: "alone".to_owned(),
        description: String::new(),
        assigned_by: "a".to_owned(),
        assigned_to: None,
        resources: vec![],
        depends_on: vec!["tk_left".into()],
    };
    submit_as_a(&engine, lone).await;
    let all = Include { checkpoints: Checkpoints::All, ..Include::default() };
    let context = engine.task_context().load(&"task_1".into(), &all, 500, Beside::default()).await.unwrap().value;
    assert_eq!((context.workflow.unwrap().id.as_str(), context.dependency_outcomes.len()), ("run_default", 1));
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_the_default_run_last() {
    let engine = engine();
    register_agent(&engine, "a").await;
    for n in 1..=5 {
        submit_as_a(&engine, CreateRun { id: RunId::new(format!("wf_{n}")), brief: run_spec(&format!("run {n}")) })
            .await;
    }
    submit_as_a(&engine, SetRunStatus { run: "wf_2".into(), to: RunStatus::Abandoned, reason: Some("no".to_owned()) })
        .await;
    let list = |status: Vec<RunStatus>, limit, offset| {
        let engine = engine.clone();
        async move {
            let filter = RunFilter { status, repository_path: None, limit, offset };
            let page = engine.runs().list_plans(&filter).await.unwrap().value;
            (page.workflows.iter().map(|run| run.id.to_string()).collect::<Vec<_>>().join(" "), page.total)
        }
    };
    assert_eq!(list(vec![], 3, 0).await, ("wf_5 wf_4 wf_3".to_owned(), 5));
    assert_eq!(list(vec![], 3, 3).await, ("wf_2 wf_1".to_owned(), 5));
    assert_eq!(list(vec![RunStatus::Abandoned], 3, 0).await, ("wf_2".to_owned(), 1));
    let lone = CreateTask {
        id: "task_1".into(),
        run: RunId::project_default(),
        title: "alone".to_owned(),
        description: String::new(),
        assigned_by: "a".to_owned(),
        assigned_to: None,
        resources: vec![],
        depends_on: vec![],
    };
    submit_as_a(&engine, lone).await;
    assert_eq!(list(vec![], 3, 3).await, ("wf_2 wf_1 run_default".to_owned(), 6));
    assert_eq!(list(vec![], 3, 0).await, ("wf_5 wf_4 wf_3".to_owned(), 6));
    assert_eq!(list(vec![RunStatus::InProgress], 3, 0).await, ("run_default".to_owned(), 1));
    let by_path = |path: &str| RunFilter { repository_path: Some(path.to_owned()), limit: 2, ..RunFilter::default() };
    assert_eq!(engine.runs().list_plans(&by_path("app")).await.unwrap().value.total, 5);
    assert_eq!(engine.runs().list_plans(&by_path("other")).await.unwrap().value.total, 0);
    let unknown = engine.runs().plan(&"wf_x".into()).await.unwrap_err();
    assert_eq!(code(unknown), Code::WorkflowNotFound);
}

#[tokio::test]
async fn plan_change_counts_added_removed_and_kept_tasks() {
    let engine = engine_with_plan().await;
    let added = AddRunTask { run: "wf".into(), task: planned_task("mid", &["left"]), after: Some("left".to_owned()) };
    submit_as_a(&engine, added).await;
    let removed = submit_as_a(&engine, RemoveRunTask { run: "wf".into(), task: "tk_right".into() }).await;
    let change = engine.runs().plan_change(removed.0).await.unwrap();
    assert_eq!((change.removed.len(), change.dependencies_rewired, change.tasks_renumbered), (1, 0, 1));
    let replanned = ReplanRun {
        run: "wf".into(),
        summary: "another".to_owned(),
        reason: "we know more".to_owned(),
        tasks: vec![planned_task("new", &[])],
    };
    let replanned = submit_as_a(&engine, replanned).await;
    let change = engine.runs().plan_change(replanned.0).await.unwrap();
    assert_eq!((change.added.len(), change.removed.len(), change.preserved.len()), (1, 3, 0));
}

#[tokio::test]
async fn checkpoints_and_templates_are_listed() {
    let engine = engine_with_plan().await;
    complete_task(&engine, "tk_left").await;
    let filter = |kinds: Vec<CheckpointKind>, since_sequence| CheckpointFilter {
        task: "tk_left".into(),
        kinds,
        since_sequence,
        limit: Some(1),
    };
    assert_eq!(engine.runs().checkpoints(&filter(vec![], None)).await.unwrap().value.len(), 1);
    assert!(engine.runs().checkpoints(&filter(vec![CheckpointKind::Error], None)).await.unwrap().value.is_empty());
    assert!(engine.runs().checkpoints(&filter(vec![], Some(1))).await.unwrap().value.is_empty());
    let unknown = CheckpointFilter { task: "tk_x".into(), ..filter(vec![], None) };
    assert_eq!(code(engine.runs().checkpoints(&unknown).await.unwrap_err()), Code::TaskNotFound);
    for name in ["b", "a"] {
        submit_as_a(
            &engine,
            CreateTemplate {
                id: engine.runs().mint_template(),
                title: name.to_owned(),
                description: "as it was".to_owned(),
                source: TemplateSource::Run("wf".into()),
            },
        )
        .await;
    }
    let templates = engine.runs().templates().await.unwrap().value;
    assert_eq!(templates.iter().map(|template| template.title.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let template = engine.runs().template(&templates[0].id).await.unwrap().value;
    let apply = ApplyTemplate {
        template: template.id,
        run: "wf_again".into(),
        title: "again".to_owned(),
        tasks: template.tasks.iter().map(|_| engine.runs().mint_planned_task()).collect(),
        variables: std::collections::BTreeMap::new(),
        repository_paths: vec![],
        max_parallel_tasks: 1,
    };
    submit_as_a(&engine, apply).await;
    assert_eq!(engine.runs().plan(&"wf_again".into()).await.unwrap().value.tasks.len(), 3);
    assert_eq!(code(engine.runs().template(&"tmpl_x".into()).await.unwrap_err()), Code::TemplateNotFound);
}
