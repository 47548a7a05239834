use std::collections::BTreeSet;

use proptest::prelude::*;
use rookery_core::model::run::{Run, RunSpec, RunStatus, SourceType};
use rookery_core::model::task::{Checkpoint, CheckpointKind, Details, Task, TaskOrigin, TaskPlan, TaskState};
use rookery_core::{Code, Seq, TaskId, Timestamp};
use serde_json::{Map, json};

use super::*;

fn run(text: &str) -> Run {
    Run {
        id: "wf_1".into(),
        brief: RunSpec {
            title: text.to_owned(),
            source_type: SourceType::Prompt,
            source_ref: None,
            source_content: text.to_owned(),
            repository_paths: vec![],
            max_parallel_tasks: 1,
            auto_create_workspaces: false,
            config: Map::new(),
        },
        summary: Some(text.to_owned()),
        status: RunStatus::InProgress,
        reason: None,
        created_by: "a".to_owned(),
        created_at: Timestamp(1),
        created: Seq(1),
        updated_at: Timestamp(1),
        tasks: 1,
        unfinished: 1,
        failed: 0,
        ended_at: None,
    }
}

fn task(id: &str, sequence: u32, text: &str) -> Task {
    Task {
        id: id.into(),
        run: "wf_1".into(),
        title: format!("name {id}"),
        description: text.to_owned(),
        assigned_by: "a".to_owned(),
        state: TaskState::Completed,
        state_since: Timestamp(1),
        reserved_for: None,
        claim: None,
        last_holder: None,
        resources: vec![],
        depends_on: vec![],
        waiting_on: BTreeSet::new(),
        created_at: Timestamp(1),
        created: Seq(1),
        started_at: None,
        completed_at: None,
        reason: None,
        waiting_for: None,
        outcome: Some(text.to_owned()),
        outcome_detail: None,
        attempt: 1,
        checkpoints: 0,
        sequence,
        context_from: vec![],
        details: Details { parallel_group: Some("g".to_owned()), ..Details::default() },
        plan: None,
        context: Map::new(),
        files_changed: BTreeSet::new(),
        origin: TaskOrigin::default(),
        routing: rookery_core::model::routing::Routing::default(),
        has_parts: false,
        clocks: rookery_core::model::task::Alarms::default(),
        unblocked_to: None,
    }
}

fn checkpoint(sequence: u32, kind: CheckpointKind, text: &str) -> Checkpoint {
    Checkpoint {
        id: format!("cp_{sequence}"),
        task: "tk_now".into(),
        sequence,
        kind,
        summary: format!("{sequence}: {text}"),
        detail: Some(json!({ "why": text })),
        files_changed: vec![format!("src/{sequence}")],
        created: Seq(sequence.into()),
        created_at: Timestamp(1_700_000_000_000),
    }
}

/// A task in the middle of a run, with two before it, one beside it, and six checkpoints.
fn material(text: &str) -> Material {
    let plan = TaskPlan { approach: text.to_owned(), steps: vec![text.to_owned(); 3], ..TaskPlan::default() };
    let now = Task {
        state: TaskState::InProgress,
        outcome: None,
        depends_on: vec!["tk_2".into()],
        plan: Some(plan),
        context: Map::from_iter([("note".to_owned(), text.into())]),
        ..task("tk_now", 3, text)
    };
    let kinds = [
        CheckpointKind::Plan,
        CheckpointKind::Decision,
        CheckpointKind::Progress,
        CheckpointKind::Error,
        CheckpointKind::Decision,
        CheckpointKind::Progress,
    ];
    let numbered = kinds.into_iter().zip(1..);
    Material {
        run: run(text),
        task: now,
        others: vec![
            task("tk_1", 1, text),
            task("tk_2", 2, text),
            Task { state: TaskState::Pending, ..task("tk_4", 4, text) },
        ],
        checkpoints: numbered.map(|(kind, at)| checkpoint(at, kind, text)).collect(),
        held_files: vec!["src/main.rs".to_owned()],
        workspace: Some(WorkspaceView { id: "ws_1".into(), path: "/w/now".to_owned(), branch: "now".to_owned() }),
        unread: 3,
        around: 0,
    }
}

fn sequences(context: &TaskContextView) -> Vec<u32> {
    context.current_task.checkpoints.iter().map(|checkpoint| checkpoint.sequence).collect()
}

fn names(tasks: &[OutcomeView]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

fn holds(context: &TaskContextView, max_tokens: usize) {
    holds_beside(context, max_tokens, 0);
}

fn holds_beside(context: &TaskContextView, max_tokens: usize, around: usize) {
    let json = serde_json::to_string(context).unwrap();
    let tokens = (json.chars().count() + around).div_ceil(4);
    assert!(tokens <= context.token_estimate && context.token_estimate <= max_tokens, "{tokens}: {json}");
    assert!(context.token_estimate - tokens <= 1, "{tokens} told as {}", context.token_estimate);
}

#[test]
fn everything_is_there_when_there_is_room() {
    let context = compose(&material("short"), &Include::default(), 8_000).unwrap();
    holds(&context, 8_000);
    assert_eq!(sequences(&context), [2, 3, 4, 5, 6].map(|n| n), "the last five");
    assert_eq!(names(&context.prior_tasks), ["tk_1", "tk_2"]);
    assert_eq!(names(&context.dependency_outcomes), ["tk_2"]);
    assert_eq!(names(&context.sibling_tasks), ["tk_1", "tk_2", "tk_4"]);
    assert_eq!(context.omitted, [Omitted { what: "checkpoints", count: 1, get: "checkpoint_list" }]);
    assert_eq!((context.unread, context.held_files.len()), (3, 1));
    assert_eq!(context.workflow.unwrap().plan_summary.as_deref(), Some("short"));
    assert!(context.current_task.checkpoints.iter().all(|checkpoint| checkpoint.detail.is_some()));
}

#[test]
fn every_flag_works() {
    let with = |include: Include| compose(&material("short"), &include, 8_000).unwrap();
    let off = Part::LeftOut;
    assert!(with(Include { workflow_plan: off, ..Include::default() }).workflow.is_none());
    assert!(with(Include { prior_task_outcomes: off, ..Include::default() }).prior_tasks.is_empty());
    assert!(with(Include { dependency_outcomes: off, ..Include::default() }).dependency_outcomes.is_empty());
    assert!(with(Include { sibling_status: off, ..Include::default() }).sibling_tasks.is_empty());
    let all = with(Include { checkpoints: Checkpoints::All, ..Include::default() });
    assert_eq!((sequences(&all), all.omitted), (vec![1, 2, 3, 4, 5, 6], vec![]));
    let two = with(Include { checkpoints: Checkpoints::Last(2), ..Include::default() });
    assert_eq!(sequences(&two), [2, 5, 6], "what was decided before is told, too");
    assert!(two.current_task.checkpoints[0].detail.is_none() && two.current_task.checkpoints[1].detail.is_some());
    assert_eq!((Part::of(None), Part::of(Some(true)), Part::of(Some(false))), (Part::Wanted, Part::Wanted, off));
}

#[test]
fn prior_tasks_tell_all_they_know_if_asked_and_as_long_as_there_is_room() {
    let include = Include { prior_task_full: Part::Wanted, ..Include::default() };
    let context = compose(&material("short"), &include, 8_000).unwrap();
    assert_eq!(context.prior_tasks[0].full.as_ref().unwrap().description, "short");
    assert!(context.dependency_outcomes[0].full.is_none());
    assert!(serde_json::to_value(&context).unwrap()["prior_tasks"][0]["description"].is_string());
    let mut long = material("short");
    long.others[0].outcome_detail = Some(json!("x".repeat(8_000)));
    let context = compose(&long, &include, 1_500).unwrap();
    holds(&context, 1_500);
    assert!(context.prior_tasks[0].full.is_none() && context.prior_tasks[1].full.is_some(), "the oldest goes first");
    assert_eq!(context.prior_tasks[0].outcome.as_deref(), Some("short"));
    assert!(context.omitted.contains(&Omitted { what: "outcomes", count: 1, get: "task_get" }));
}

#[test]
fn context_from_says_exactly_which_tasks_come_before() {
    let mut material = material("short");
    material.task.context_from = vec!["tk_4".into()];
    let context = compose(&material, &Include::default(), 8_000).unwrap();
    assert_eq!(names(&context.prior_tasks), ["tk_4"]);
}

#[test]
fn too_few_tokens_are_refused() {
    let refusal = compose(&material("short"), &Include::default(), MIN_TOKENS - 1).unwrap_err();
    assert_eq!(refusal.code, Code::Invalid);
    assert!(compose(&material("short"), &Include::default(), MIN_TOKENS).is_ok());
}

/// With less and less room, things go in the order that is promised.
#[test]
fn what_matters_least_goes_first() {
    let material = material(&"word ".repeat(60));
    let all = Include { checkpoints: Checkpoints::All, ..Include::default() };
    let whole = compose(&material, &all, 100_000).unwrap().token_estimate;
    let mut gone: Vec<&str> = Vec::new();
    for tokens in (MIN_TOKENS..whole).rev().step_by(7) {
        let context = compose(&material, &all, tokens).unwrap();
        holds(&context, tokens);
        assert!(!context.omitted.is_empty());
        let shown = |sequence: u32| context.current_task.checkpoints.iter().find(|c| c.sequence == sequence);
        let now = [
            ("old detail", shown(1).is_none_or(|checkpoint| checkpoint.detail.is_none())),
            ("prior outcome", context.prior_tasks.iter().all(|task| task.outcome.is_none())),
            ("old checkpoint", shown(1).is_none()),
            ("decision's detail", shown(2).is_none_or(|checkpoint| checkpoint.detail.is_none())),
            ("newest's detail", shown(6).is_none_or(|checkpoint| checkpoint.detail.is_none())),
            ("plan", context.current_task.plan.as_ref().is_none_or(|plan| plan.approach.ends_with("[truncated]"))),
            ("decision", shown(2).is_none()),
        ];
        for (what, is_gone) in now {
            if is_gone && !gone.contains(&what) {
                gone.push(what);
            }
        }
    }
    let order = ["old detail", "prior outcome", "old checkpoint", "decision's detail", "newest's detail", "plan"];
    assert_eq!(gone[..order.len()], order);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z ]{0,80}",
        1 => "\\PC{0,60}",
        1 => (1_usize..4_000).prop_map(|length| "long text ".repeat(length / 10)),
        1 => (1_usize..300).prop_map(|length| "\u{1}\"\\".repeat(length)),
        1 => (1_usize..800).prop_map(|length| "ä→𝄞".repeat(length)),
    ]
}

fn kind() -> impl Strategy<Value = CheckpointKind> {
    prop::sample::select(vec![
        CheckpointKind::Plan,
        CheckpointKind::Progress,
        CheckpointKind::Progress,
        CheckpointKind::Decision,
        CheckpointKind::Error,
        CheckpointKind::Recovery,
        CheckpointKind::Complete,
        CheckpointKind::Replan,
    ])
}

prop_compose! {
    fn any_task(id: String, sequence: u32)(
        title in text(),
        description in text(),
        outcome in prop::option::of(text()),
        state in prop::sample::select(TaskState::ALL.to_vec()),
        reason in prop::option::of(text()),
        group in prop::option::of(Just("g".to_owned())),
        plan in prop::option::of((text(), prop::collection::vec(text(), 0..6))),
        note in prop::option::of(text()),
    ) -> Task {
        let plan = plan.map(|(approach, steps)| TaskPlan { approach, files_to_modify: steps.clone(), steps, ..TaskPlan::default() });
        let details = Details { parallel_group: group, ..Details::default() };
        let context = note.into_iter().map(|note| ("note".to_owned(), note.into())).collect();
        Task { title, description, outcome, state, reason, details, plan, context, ..task(&id, sequence, "") }
    }
}

prop_compose! {
    fn any_material()(
        now in any_task("tk_now".to_owned(), 50),
        others in (0_usize..12).prop_flat_map(|count| (0..count).map(|at| any_task(format!("tk_{at}"), 44 + u32::try_from(at).unwrap())).collect::<Vec<_>>()),
        checkpoints in prop::collection::vec((kind(), text(), prop::option::of(text()), prop::collection::vec(text(), 0..3)), 0..30),
        about in text(),
        held_files in prop::collection::vec(text(), 0..20),
        workspace in prop::option::of(text()),
        unread in any::<u64>(),
    ) -> Material {
        let checkpoints = checkpoints.into_iter().zip(1..).map(|((kind, summary, detail, files_changed), sequence)| Checkpoint {
            summary,
            detail: detail.map(|detail| json!({ "told": detail })),
            files_changed,
            ..checkpoint(sequence, kind, "")
        });
        let depends_on: Vec<TaskId> = others.iter().step_by(2).map(|other: &Task| other.id.clone()).collect();
        Material {
            run: run(&about),
            task: Task { depends_on, ..now },
            checkpoints: checkpoints.collect(),
            others,
            held_files,
            workspace: workspace.map(|path| WorkspaceView { id: "ws_1".into(), path, branch: "b".to_owned() }),
            unread,
            around: 0,
        }
    }
}

/// Few enough cases for every day; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases: 48, ..config } }
}

/// As JSON, without the quotes.
fn chars(text: &str) -> usize {
    serde_json::to_string(text).unwrap().chars().count() - 2
}

proptest! {
    #![proptest_config(config())]

    /// For any workflow and any number of tokens above the minimum, the estimate is right and within the bound; the newest
    /// checkpoint and what was decided are told whole as long as they fit.
    #[test]
    fn the_bound_holds_and_what_matters_most_survives(
        material in any_material(),
        max_tokens in prop_oneof![MIN_TOKENS..3_000, MIN_TOKENS..20_000],
        checkpoints in prop_oneof![Just(Checkpoints::All), (0_usize..10).prop_map(Checkpoints::Last)],
        flags in any::<[Option<bool>; 5]>(),
        around in 0_usize..160,
    ) {
        let [workflow_plan, prior_task_outcomes, prior_task_full, dependency_outcomes, sibling_status] =
            flags.map(Part::of);
        let include = Include {
            workflow_plan,
            prior_task_outcomes,
            prior_task_full,
            dependency_outcomes,
            sibling_status,
            checkpoints,
        };
        let material = Material { around, ..material };
        let context = compose(&material, &include, max_tokens).unwrap();
        holds_beside(&context, max_tokens, around);
        let newest = if checkpoints == Checkpoints::Last(0) { None } else { material.checkpoints.last() };
        let decided = material.checkpoints.iter().filter(|checkpoint| checkpoint.kind == CheckpointKind::Decision);
        let must: Vec<&Checkpoint> = decided.chain(newest).collect();
        let needed: usize = must.iter().map(|checkpoint| chars(&checkpoint.summary) + 90).sum();
        if needed + around + 1_600 <= max_tokens * 4 {
            for checkpoint in must {
                let shown = context.current_task.checkpoints.iter().find(|shown| shown.sequence == checkpoint.sequence);
                prop_assert_eq!(shown.map(|shown| &shown.summary), Some(&checkpoint.summary));
            }
        }
    }

    /// Whatever fits is not cut.
    #[test]
    fn nothing_goes_that_has_room(material in any_material()) {
        let all = Include { checkpoints: Checkpoints::All, ..Include::default() };
        let context = compose(&material, &all, 10_000_000).unwrap();
        prop_assert_eq!(&context.omitted, &[]);
        prop_assert_eq!(context.current_task.checkpoints.len(), material.checkpoints.len());
        let exactly = compose(&material, &all, context.token_estimate.max(MIN_TOKENS)).unwrap();
        prop_assert_eq!(exactly, context);
    }
}
