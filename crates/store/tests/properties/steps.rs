//! Random commands over few ids, so that callers conflict.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use rookery_core::agents::{
    Announcement, CurrentTask, DeclareOffline, LeaveTeam, PauseAgent, RegisterAgent, ResumeAgent, ReturnAgent,
    SetAgentStatus,
};
use rookery_core::files::Report;
use rookery_core::files::{
    ChangeSource, ClaimFile, ClaimMode, LockFile, RecordChange, RecordUntracked, ReleaseFile, ResolveConflict,
    UnlockFile,
};
use rookery_core::handoffs::{AcceptHandoff, OfferHandoff, RejectHandoff};
use rookery_core::kernel::caller::{Auth, Caller};
use rookery_core::model::LifeSource;
use rookery_core::model::agent::{AgentRole, AgentStatus, Evidence, Profile};
use rookery_core::model::file_path::{Case, FilePath};
use rookery_core::model::handoff::HandoffNote;
use rookery_core::model::run;
use rookery_core::model::run::{RunSpec, SourceType};
use rookery_core::model::task::{CheckpointKind, Details, Outcome, TaskPlan, TaskState};
use rookery_core::plans::{AddRunTask, PlannedTask, RemoveRunTask, ReplanRun, SetRunPlan};
use rookery_core::plans::{ApplyTemplate, CreateTemplate, TemplateSource, TemplateTask};
use rookery_core::runs::{CreateRun, SetRunStatus};
use rookery_core::tasks::{
    AddCheckpoint, AssignTask, CancelTask, CancelTo, ClaimTask, CompleteTask, CreateTask, FailTask, FailureRetry,
    HeldByOther, IfFailed, IfUnclaimed, ReleaseTask, ReopenTask, ReplanTask, Required, RetryTask, SetTaskPlan,
    SetTaskStep, StartTask,
};
use rookery_core::{AgentId, AnyCommand, HandoffId, RunId, Seq, TaskId, TemplateId, Timestamp};

pub(crate) const AGENTS: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const TASKS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
/// Ids of tasks in plans.
const PLANNED: [&str; 4] = ["p0", "p1", "p2", "p3"];
const RUNS: [&str; 2] = ["r0", "r1"];
const TEMPLATES: [&str; 2] = ["m0", "m1"];
const NAMES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const PATHS: [&str; 7] = ["src/", "src", "src/x", "src/lib/", "src/lib/y", "src/lib/z", "doc"];
const HANDOFFS: [&str; 3] = ["h0", "h1", "h2"];
const TEXTS: [&str; 3] = ["", "one", "two"];

/// A command, or one that depends on the state at its turn.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Ask {
        caller: Caller,
        command: AnyCommand,
        key: Option<u8>,
    },
    /// Fires the timer about a path, in the version that is set or an older one.
    Fire {
        path: FilePath,
        late: bool,
    },
    /// Redacts an earlier event, with or without a body on disk.
    Redact {
        pick: prop::sample::Index,
        on_disk: bool,
    },
    /// Closes the intent opened by a redaction.
    Close {
        pick: prop::sample::Index,
    },
    /// Routes a task that waits for the router.
    Route {
        pick: prop::sample::Index,
    },
    /// Fires an alarm of a task.
    Clock {
        pick: prop::sample::Index,
        late: bool,
    },
    /// Concludes pending work on a workspace.
    Settle {
        pick: prop::sample::Index,
        well: bool,
    },
    /// Sends the current fence of a task along, or a stale one.
    Fenced {
        caller: Caller,
        command: AnyCommand,
        task: TaskId,
        stale: bool,
    },
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), most / 2..most)
}

fn step() -> impl Strategy<Value = Step> {
    let key = prop_oneof![9 => Just(None), 1 => (0_u8..4).prop_map(Some)];
    let asked = prop_oneof![2 => about_agents(), 10 => about_tasks(), 8 => about_files(), 4 => about_handoffs(),
        8 => about_runs(), 4 => about_plans()];
    prop_oneof![
        48 => (asked, key).prop_map(|((caller, command), key)| Step::Ask { caller, command, key }),
        24 => crate::mail::random_request().prop_map(|(caller, command)| Step::Ask { caller, command, key: None }),
        16 => crate::envelopes::random_request().prop_map(|(caller, command)| Step::Ask { caller, command, key: None }),
        2 => crate::contracts::random_request().prop_map(|(caller, command)| Step::Ask { caller, command, key: None }),
        10 => crate::teams::random_request().prop_map(|(caller, command)| Step::Ask { caller, command, key: None }),
        5 => crate::workspaces::random_request().prop_map(|(caller, command)| Step::Ask { caller, command, key: None }),
        4 => (any::<prop::sample::Index>(), prop::bool::weighted(0.7))
            .prop_map(|(pick, well)| Step::Settle { pick, well }),
        5 => any::<prop::sample::Index>().prop_map(|pick| Step::Route { pick }),
        8 => (any::<prop::sample::Index>(), prop::bool::weighted(0.1))
            .prop_map(|(pick, late)| Step::Clock { pick, late }),
        3 => retry_part().prop_map(|(caller, command)| Step::Ask { caller, command, key: None }),
        2 => (path(), any::<bool>()).prop_map(|(path, late)| Step::Fire { path, late }),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(pick, on_disk)| Step::Redact { pick, on_disk }),
        1 => any::<prop::sample::Index>().prop_map(|pick| Step::Close { pick }),
        3 => (about_tasks(), task(), any::<bool>())
            .prop_map(|((caller, command), task, stale)| Step::Fenced { caller, command, task, stale }),
    ]
}

type Request = (Caller, AnyCommand);

fn retry_part() -> impl Strategy<Value = Request> {
    let run = prop_oneof![2 => Just("run_default"), 1 => select(&RUNS[..])].prop_map(RunId::from);
    (any_caller(), run, task()).prop_map(|(caller, run, task)| (caller, ReopenTask { run, task }.into()))
}

fn agent() -> impl Strategy<Value = AgentId> {
    select(&AGENTS[..]).prop_map(AgentId::from)
}

fn task() -> impl Strategy<Value = TaskId> {
    prop_oneof![3 => select(&TASKS[..]), 2 => select(&PLANNED[..])].prop_map(TaskId::from)
}

fn handoff() -> impl Strategy<Value = HandoffId> {
    select(&HANDOFFS[..]).prop_map(HandoffId::from)
}

fn path() -> impl Strategy<Value = FilePath> {
    select(&PATHS[..]).prop_filter_map("a path", |raw| FilePath::parse(raw, Case::Kept).ok())
}

fn text() -> impl Strategy<Value = String> {
    select(&TEXTS[..]).prop_map(str::to_owned)
}

fn any_caller() -> impl Strategy<Value = Caller> {
    prop_oneof![
        4 => agent().prop_map(Caller::asserted),
        4 => Just(Caller::person("anna")),
        1 => Just(Caller::anonymous()),
        1 => Just(Caller { auth: Auth::Token, ..Caller::asserted(AGENTS[3]) }),
    ]
}

/// An agent and a caller, which is that agent in most cases.
fn agent_and_caller() -> impl Strategy<Value = (AgentId, Caller)> {
    (agent(), any_caller(), 0_u8..6)
        .prop_map(|(agent, other, own)| (agent.clone(), if own > 0 { Caller::asserted(agent) } else { other }))
}

fn about_agents() -> BoxedStrategy<Request> {
    let role = select(vec![AgentRole::Lead, AgentRole::Specialist, AgentRole::Worker]);
    let status = select(vec![
        AgentStatus::Idle,
        AgentStatus::Working,
        AgentStatus::Blocked,
        AgentStatus::WaitingReview,
        AgentStatus::Offline,
    ]);
    prop_oneof![
        4 => (agent_and_caller(), role, text()).prop_map(|((id, caller), role, text)| {
            let metadata = serde_json::Map::from_iter([("note".to_owned(), text.into())]);
            let profile = Profile {
                tool: "tool".to_owned(),
                role,
                capabilities: vec![],
                name: None,
                workspace_path: None,
                metadata,
                card: None,
            role_name: None,
            session_id: None,
            };
            (caller, RegisterAgent::with_profile(id, profile).into())
        }),
        1 => (agent_and_caller(), status).prop_map(|((agent, caller), status)| {
            (caller, SetAgentStatus { agent, status, current_task: CurrentTask::AsBefore }.into())
        }),
        1 => agent_and_caller().prop_map(|(agent, caller)| (caller, LeaveTeam { agent }.into())),
        1 => agent().prop_map(|agent| (Caller::person("anna"), PauseAgent { agent, reason: Some("one".to_owned()) }.into())),
        1 => agent().prop_map(|agent| (Caller::person("anna"), ResumeAgent { agent }.into())),
        1 => (agent(), 0_i64..4).prop_map(|(agent, last_seen)| {
            let evidence =
                Evidence { last_seen: Timestamp(last_seen), source: Some(LifeSource::Call), limit_millis: 1 };
            (Caller::system(), DeclareOffline { agent, evidence }.into())
        }),
        3 => agent_and_caller().prop_map(|(agent, caller)| (caller, ReturnAgent { agent }.into())),
        1 => agent_and_caller().prop_map(|(agent, caller)| (caller, RegisterAgent { agent, announcement: Announcement::Presence }.into())),
    ]
    .boxed()
}

fn about_tasks() -> BoxedStrategy<Request> {
    let named = || prop_oneof![2 => Just(None), 1 => agent().prop_map(Some)];
    let step = select(vec![TaskState::Planning, TaskState::Review, TaskState::Paused, TaskState::Completed]);
    let if_unclaimed = select(vec![IfUnclaimed::Succeed, IfUnclaimed::Reject]);
    let if_failed = select(vec![IfFailed::Retry, IfFailed::Reject]);
    let create = (
        task(),
        prop::option::of(agent()),
        prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(task(), 1..3)],
        prop_oneof![4 => Just(RunId::project_default()), 1 => run()],
        text(),
    )
        .prop_map(|(id, assigned_to, depends_on, run, text)| CreateTask {
            id,
            run,
            title: format!("do {text}"),
            description: text,
            assigned_by: "somebody".to_owned(),
            assigned_to,
            resources: vec!["src/lib/".to_owned()],
            depends_on,
        });
    prop_oneof![
        4 => (any_caller(), create).prop_map(|(caller, create)| (caller, create.into())),
        4 => (agent_and_caller(), task()).prop_map(|((agent, caller), task)| (caller, ClaimTask { task, agent }.into())),
        6 => (agent_and_caller(), task()).prop_map(|((agent, caller), task)| {
            (caller, StartTask { task, agent: Some(agent), held_by_other: HeldByOther::KeepHolder }.into())
        }),
        2 => (any_caller(), task()).prop_map(|(caller, task)| (caller, StartTask { task, agent: None, held_by_other: HeldByOther::KeepHolder }.into())),
        4 => (any_caller(), task(), named(), step, prop::option::of(text())).prop_map(|(caller, task, agent, to, reason)| {
            (caller, SetTaskStep { task, agent, to, reason, waiting_for: None }.into())
        }),
        1 => (any_caller(), task(), named(), if_unclaimed, if_failed).prop_map(|(caller, task, agent, if_unclaimed, if_failed)| {
            (caller, ReleaseTask { task, agent, reason: None, if_unclaimed, if_failed }.into())
        }),
        3 => (any_caller(), task(), named()).prop_map(|(caller, task, agent)| (caller, RetryTask { task, agent }.into())),
        2 => (any_caller(), task(), agent()).prop_map(|(caller, task, to)| (caller, AssignTask { task, to }.into())),
        2 => (any_caller(), task(), named(), prop::option::of(text())).prop_map(|(caller, task, agent, text)| {
            let detail = text.clone().map(|text| serde_json::json!({ "told": text }));
            (caller, CompleteTask { task, agent, outcome: Outcome { text, detail }, outcome_required: Required::No, contract: None }.into())
        }),
        1 => (any_caller(), task(), named(), prop::option::of(text()))
            .prop_map(|(caller, task, agent, error)| (caller, FailTask { task, agent, error, error_required: Required::No, retry: FailureRetry::Never }.into())),
        1 => (any_caller(), task(), named(), prop::option::of(text()))
            .prop_map(|(caller, task, agent, reason)| (caller, CancelTask { task, agent, reason, to: CancelTo::Cancelled }.into())),
        1 => (any_caller(), task(), named(), prop::option::of(text()))
            .prop_map(|(caller, task, agent, reason)| (caller, CancelTask { task, agent, reason, to: CancelTo::Skipped }.into())),
    ]
    .boxed()
}

fn about_files() -> BoxedStrategy<Request> {
    let insist = prop_oneof![2 => Just(ClaimMode::Request), 1 => Just(ClaimMode::Force)];
    let hash = || select(vec!["h0", "h1", "h2"]).prop_map(str::to_owned);
    let source = select(vec![ChangeSource::Report, ChangeSource::Watcher]);
    let changed = (any_caller(), path(), prop::option::of(agent()), hash(), source, 0_u8..5);
    let report = (agent_and_caller(), prop::option::of(task()));
    prop_oneof![
        8 => (agent_and_caller(), path(), prop::option::of(task()), hash(), insist).prop_map(
            |((agent, caller), path, task, hash, insist)| {
                (caller, ClaimFile { path, agent, task, hash, site: None, insist }.into())
            }
        ),
        2 => (agent_and_caller(), path()).prop_map(|((agent, caller), path)| {
            (caller, ReleaseFile { path, agent }.into())
        }),
        1 => (any_caller(), path()).prop_map(|(caller, path)| (caller, LockFile { path }.into())),
        4 => (any_caller(), path()).prop_map(|(caller, path)| (caller, UnlockFile { path }.into())),
        2 => (any_caller(), path(), agent()).prop_map(|(caller, path, winner)| (caller, ResolveConflict { path, winner }.into())),
        6 => changed.prop_map(|(caller, path, by, after, source, own)| {
            let caller = if own > 0 { Caller::watcher() } else { caller };
            let note = RecordChange {
                path,
                by,
                before: None,
                after: Some(after),
                source,
                task: None,
                metadata: serde_json::Map::new(),
                site: None,
                escalate_after_millis: 0,
            };
            (caller, note.into())
        }),
        1 => Just((Caller::watcher(), RecordUntracked { changed: 2, sample: vec!["x".to_owned()], site: None }.into())),
        1 => report.prop_map(|((agent, caller), task)| {
            let report = Report {
                agent,
                action: "x.told".to_owned(),
                resource: None,
                task,
                before_hash: None,
                after_hash: None,
                metadata: serde_json::Map::new(),
            };
            (caller, report.into())
        }),
    ]
    .boxed()
}

fn about_handoffs() -> BoxedStrategy<Request> {
    let offered = (agent_and_caller(), handoff(), prop::option::of(agent()), task(), text());
    prop_oneof![
        2 => offered.prop_map(|((from, caller), id, to, task, text)| {
            let note = HandoffNote { summary: format!("half {text}"), context: text, ..HandoffNote::default() };
            (caller, OfferHandoff { id, from, to, task, note }.into())
        }),
        3 => (agent_and_caller(), handoff()).prop_map(|((agent, caller), handoff)| {
            (caller, AcceptHandoff { handoff, agent }.into())
        }),
        1 => (agent_and_caller(), handoff(), text()).prop_map(|((agent, caller), handoff, reason)| {
            (caller, RejectHandoff { handoff, agent, reason }.into())
        }),
    ]
    .boxed()
}

fn run() -> impl Strategy<Value = RunId> {
    select(&RUNS[..]).prop_map(RunId::from)
}

/// A planned task that depends on other names, sometimes on itself or an unknown one.
fn planned() -> impl Strategy<Value = PlannedTask> {
    let names = || prop_oneof![3 => Just(vec![]), 2 => prop::collection::vec(select(&NAMES[..]), 1..3)];
    (select(&PLANNED[..]), select(&NAMES[..]), text(), names(), names()).prop_map(
        |(id, title, description, depends_on, context_from)| PlannedTask {
            id: id.into(),
            title: title.to_owned(),
            description,
            resources: vec!["src/lib/".to_owned()],
            depends_on: depends_on.into_iter().map(str::to_owned).collect(),
            context_from: context_from.into_iter().map(str::to_owned).collect(),
            details: Details { parallel_group: Some("g".to_owned()), ..Details::default() },
        },
    )
}

/// Mostly valid plans: distinct tasks, later ones depending on earlier ones.
fn plan() -> impl Strategy<Value = Vec<PlannedTask>> {
    let sound = (1_usize..4, any::<[bool; 3]>(), text()).prop_map(|(count, chained, text)| {
        let task = |at: usize| PlannedTask {
            id: PLANNED[at].into(),
            title: NAMES[at].to_owned(),
            description: text.clone(),
            resources: vec![],
            depends_on: if at > 0 && chained[at - 1] { vec![NAMES[at - 1].to_owned()] } else { vec![] },
            context_from: vec![],
            details: Details::default(),
        };
        (0..count).map(task).collect()
    });
    prop_oneof![3 => sound, 1 => prop::collection::vec(planned(), 0..4)]
}

fn about_runs() -> BoxedStrategy<Request> {
    let to = select(run::RunStatus::ALL.to_vec());
    let template = || select(&TEMPLATES[..]).prop_map(TemplateId::from);
    let definition = |tasks: Vec<PlannedTask>| TemplateSource::Definition {
        tasks: tasks
            .into_iter()
            .map(|task| TemplateTask {
                title: task.title,
                description: task.description,
                resources: task.resources,
                depends_on: task.depends_on,
                context_from: task.context_from,
                details: task.details,
            })
            .collect(),
        variables: vec![],
    };
    let source = prop_oneof![plan().prop_map(definition), run().prop_map(TemplateSource::Run)];
    prop_oneof![
        3 => (any_caller(), run(), text()).prop_map(|(caller, id, text)| (caller, CreateRun { id, brief: describe_outcome(text) }.into())),
        4 => (any_caller(), run(), text(), plan())
            .prop_map(|(caller, run, summary, tasks)| (caller, SetRunPlan { run, summary, tasks }.into())),
        2 => (any_caller(), run(), planned(), prop::option::of(select(&NAMES[..]))).prop_map(|(caller, run, task, after)| {
            (caller, AddRunTask { run, task, after: after.map(str::to_owned) }.into())
        }),
        2 => (any_caller(), run(), task()).prop_map(|(caller, run, task)| (caller, RemoveRunTask { run, task }.into())),
        1 => (any_caller(), run(), text(), plan()).prop_map(|(caller, run, text, tasks)| {
            (caller, ReplanRun { run, summary: text.clone(), reason: text, tasks }.into())
        }),
        1 => (any_caller(), run(), to, prop::option::of(text()))
            .prop_map(|(caller, run, to, reason)| (caller, SetRunStatus { run, to, reason }.into())),
        1 => (any_caller(), template(), text(), source).prop_map(|(caller, id, text, source)| {
            (caller, CreateTemplate { id, title: format!("m {text}"), description: text, source }.into())
        }),
        1 => (any_caller(), template(), run(), text()).prop_map(|(caller, template, run, text)| {
            let apply = ApplyTemplate {
                template,
                run,
                title: format!("of {text}"),
                tasks: PLANNED.into_iter().map(TaskId::from).collect(),
                variables: BTreeMap::new(),
                repository_paths: vec![],
                max_parallel_tasks: 1,
            };
            (caller, apply.into())
        }),
    ]
    .boxed()
}

fn describe_outcome(text: String) -> RunSpec {
    RunSpec {
        title: format!("run {text}"),
        source_type: SourceType::Prompt,
        source_ref: None,
        source_content: text,
        repository_paths: vec![],
        max_parallel_tasks: 2,
        auto_create_workspaces: false,
        config: serde_json::Map::new(),
    }
}

fn about_plans() -> BoxedStrategy<Request> {
    let kind = select(vec![CheckpointKind::Progress, CheckpointKind::Decision, CheckpointKind::Error]);
    let plan = |text: String| TaskPlan { approach: format!("so {text}"), steps: vec![text], ..TaskPlan::default() };
    let checkpoint = || select(vec!["cp_a", "cp_b", "cp_c", "cp_d"]).prop_map(str::to_owned);
    prop_oneof![
        2 => (agent_and_caller(), task()).prop_map(|((agent, caller), task)| (caller, ClaimTask { task, agent }.into())),
        3 => (any_caller(), task(), text()).prop_map(move |(caller, task, text)| {
            let context = serde_json::Map::from_iter([("note".to_owned(), text.clone().into())]);
            (caller, SetTaskPlan { task, agent: None, plan: plan(text), context }.into())
        }),
        1 => (any_caller(), task(), checkpoint(), text()).prop_map(move |(caller, task, checkpoint, text)| {
            let reason = format!("why {text}");
            (caller, ReplanTask { task, agent: None, plan: plan(text), reason, checkpoint }.into())
        }),
        2 => (any_caller(), task(), checkpoint(), kind, text()).prop_map(|(caller, task, id, kind, text)| {
            let detail = Some(serde_json::json!({ "told": text }));
            let files_changed = vec![format!("src/{text}")];
            let summary = format!("about {text}");
            (caller, AddCheckpoint { id, task, agent: None, kind, summary, detail, files_changed }.into())
        }),
        2 => (any_caller(), task(), prop::option::of(text())).prop_map(|(caller, task, text)| {
            let outcome = Outcome { text, detail: None };
            (caller, CompleteTask { task, agent: None, outcome, outcome_required: Required::Yes, contract: None }.into())
        }),
        1 => (any_caller(), task(), prop::option::of(text())).prop_map(|(caller, task, error)| {
            let retry = FailureRetry::Backoff(0);
            (caller, FailTask { task, agent: None, error, error_required: Required::Yes, retry }.into())
        }),
    ]
    .boxed()
}

/// A sequence number that was never granted.
pub(crate) const STALE: Seq = Seq(0);
