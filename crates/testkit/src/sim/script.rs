//! The requests of agents and people: every command, with arguments that are usually valid and sometimes outdated.

mod contracts;
mod envelopes;
mod messages;
mod teams;
mod workspaces;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rookery_core::agents::{CurrentTask, LeaveTeam, RegisterAgent, ReturnAgent, SetAgentStatus};
use rookery_core::files::Report;
use rookery_core::files::{
    ChangeSource, ClaimFile, ClaimMode, LockFile, RecordChange, RecordUntracked, ReleaseFile, ResolveConflict,
    UnlockFile,
};
use rookery_core::handoffs::{AcceptHandoff, OfferHandoff, RejectHandoff};
use rookery_core::model::agent::{AgentRole, AgentStatus, Profile};
use rookery_core::model::file_path::{Case, FilePath};
use rookery_core::model::handoff::{Handoff, HandoffNote};
use rookery_core::model::run;
use rookery_core::model::run::{RunSpec, SourceType};
use rookery_core::model::task::{CheckpointKind, Details, Outcome, Task, TaskPlan, TaskState};
use rookery_core::plans::{AddRunTask, PlannedTask, RemoveRunTask, ReplanRun, SetRunPlan};
use rookery_core::plans::{ApplyTemplate, CreateTemplate, TemplateSource};
use rookery_core::redaction::{Erase, Redact, Target};
use rookery_core::runs::{CreateRun, SetRunStatus};
use rookery_core::tasks::{
    AddCheckpoint, AssignTask, CancelTask, CancelTo, ClaimTask, CompleteTask, CreateTask, FailTask, FailureRetry,
    HeldByOther, IfFailed, IfUnclaimed, ReleaseTask, ReopenTask, ReplanTask, Required, RetryTask, SetTaskPlan,
    SetTaskStep, StartTask,
};
use rookery_core::{AgentId, AnyCommand, Caller, HandoffId, IntentId, Row, RunId, TaskId, TemplateId};
use serde_json::Value;

use super::model::Model;

pub(super) use envelopes::reply;
pub(super) use messages::GUARD;

const PATHS: [&str; 9] = [
    "src/",
    "src/main.rs",
    "src/lib.rs",
    "src/deep/",
    "src/deep/down.rs",
    "docs/",
    "docs/guide.md",
    "README.md",
    "Cargo.toml",
];

/// A request with its caller.
pub(super) struct ScriptedRequest {
    pub(super) caller: Caller,
    pub(super) content: ScriptedContent,
}

pub(super) enum ScriptedContent {
    Command(Box<AnyCommand>),
    /// The envelopes of one call of the Clutch surface.
    Envelopes(Vec<Value>),
}

impl ScriptedRequest {
    pub(super) fn command(caller: Caller, command: impl Into<AnyCommand>) -> ScriptedRequest {
        ScriptedRequest { caller, content: ScriptedContent::Command(Box::new(command.into())) }
    }

    fn envelopes(caller: Caller, envelopes: Vec<Value>) -> ScriptedRequest {
        ScriptedRequest { caller, content: ScriptedContent::Envelopes(envelopes) }
    }
}

/// Chooses requests that fit the current rows.
pub(super) struct Script<'a> {
    pub(super) rng: &'a mut StdRng,
    pub(super) model: &'a Model,
    pub(super) agents: &'a [AgentId],
    /// A unique number, for new ids.
    pub(super) serial: u64,
}

/// A registration with random properties.
fn register(rng: &mut StdRng, agent: &AgentId) -> AnyCommand {
    let role = *[AgentRole::Worker, AgentRole::Worker, AgentRole::Specialist, AgentRole::Lead]
        .choose(rng)
        .unwrap_or(&AgentRole::Worker);
    let profile = Profile {
        tool: "script".to_owned(),
        role,
        capabilities: vec!["rust".to_owned()],
        name: rng.random_bool(0.3).then(|| format!("name {}", rng.random_range(0..3))),
        workspace_path: None,
        metadata: serde_json::Map::from_iter([("note".to_owned(), rng.random_range(0..3).into())]),
        card: None,
        role_name: None,
        session_id: None,
    };
    RegisterAgent::with_profile(agent.clone(), profile).into()
}

impl Script<'_> {
    /// The first request of an agent: its registration.
    pub(super) fn first_request(&mut self, caller: Caller, agent: &AgentId) -> ScriptedRequest {
        if self.rng.random_bool(0.5) {
            let card = self.card(agent);
            return ScriptedRequest::envelopes(caller, vec![card]);
        }
        ScriptedRequest::command(caller, register(self.rng, agent))
    }

    /// A request of a registered agent.
    pub(super) fn agent_request(&mut self, mut caller: Caller, agent: &AgentId) -> ScriptedRequest {
        if self.rng.random_bool(0.045) {
            let envelopes = self.envelopes(agent);
            return ScriptedRequest::envelopes(caller, envelopes);
        }
        if self.rng.random_bool(0.2) {
            let command = self.message_command(agent);
            return ScriptedRequest::command(caller, command);
        }
        if self.rng.random_bool(0.05) {
            let command = self.workspace_command();
            return ScriptedRequest::command(caller, command);
        }
        let command = match self.rng.random_range(0..100) {
            0..3 => register(self.rng, agent),
            3..7 => self.set_status(agent),
            7..8 => LeaveTeam { agent: agent.clone() }.into(),
            8..10 => ReturnAgent { agent: agent.clone() }.into(),
            10..16 => self.create_task(agent.as_str()),
            16..20 => self.run_command(),
            20..24 => self.task_plan_command(agent),
            24..36 => ClaimTask { task: self.task(), agent: agent.clone() }.into(),
            36..46 => StartTask {
                task: self.own_task(agent),
                agent: self.maybe(agent),
                held_by_other: HeldByOther::KeepHolder,
            }
            .into(),
            46..50 => self.set_step(agent),
            50..53 => self.release_task(agent),
            53..60 => self.complete_task(agent),
            60..64 => self.fail_task(agent),
            64..67 => RetryTask { task: self.task(), agent: self.maybe(agent) }.into(),
            67..83 => self.claim_file(agent),
            83..87 => ReleaseFile { path: self.path(), agent: agent.clone() }.into(),
            87..91 => self.record_change(Some(agent.clone()), ChangeSource::Report),
            91..95 => self.offer_handoff(agent),
            95..98 => self.answer_handoff(agent),
            _ => self.report(agent),
        };
        if self.rng.random_bool(0.1) {
            caller.fence = self.fence(&command);
        }
        ScriptedRequest::command(caller, command)
    }

    /// A request of a person, an anonymous caller or the watcher.
    pub(super) fn other_request(&mut self) -> ScriptedRequest {
        if self.rng.random_bool(0.1) {
            let command = self.decision_about_held();
            return ScriptedRequest::command(Caller::person("anna"), command);
        }
        if self.rng.random_bool(0.08) {
            let command = self.dead_letter_command();
            return ScriptedRequest::command(Caller::person("anna"), command);
        }
        if self.rng.random_bool(0.1) {
            let command = self.runner_command();
            return ScriptedRequest::command(Caller::person("anna"), command);
        }
        if self.rng.random_bool(0.03) {
            let command = self.configure_context();
            return ScriptedRequest::command(Caller::person("anna"), command);
        }
        if self.rng.random_bool(0.05) {
            let command = self.contract_command();
            return ScriptedRequest::command(Caller::person("anna"), command);
        }
        if self.rng.random_bool(0.08) {
            let envelopes = self.envelopes_of_person();
            return ScriptedRequest::envelopes(Caller::person("anna"), envelopes);
        }
        let agent = self.agent();
        let person = Caller::person("anna");
        let (caller, command) = match self.rng.random_range(0..100) {
            0..14 => (person, self.create_task("person:anna")),
            14..24 => (person, AssignTask { task: self.task(), to: agent }.into()),
            24..29 => (person, self.cancel_task(CancelTo::Cancelled)),
            29..33 => (person, self.cancel_task(CancelTo::Skipped)),
            33..35 => (person, RetryTask { task: self.task(), agent: None }.into()),
            35..37 => (person, self.reopen_task()),
            37..41 => (person, LockFile { path: self.path() }.into()),
            41..46 => (person, UnlockFile { path: self.path() }.into()),
            46..52 => (person, ResolveConflict { path: self.conflicted_path(), winner: agent }.into()),
            52..56 => (person, ClaimTask { task: self.task(), agent }.into()),
            56..60 => (person, self.claim_file(&agent)),
            60..68 => (person, self.redact()),
            68..70 => (person, LeaveTeam { agent }.into()),
            70..86 => (Caller::watcher(), self.watched_change()),
            86..90 => (Caller::watcher(), self.record_untracked()),
            90..95 => (
                Caller::anonymous(),
                StartTask { task: self.task(), agent: Some(agent), held_by_other: HeldByOther::KeepHolder }.into(),
            ),
            _ => (
                Caller::anonymous(),
                CompleteTask {
                    task: self.task(),
                    agent: None,
                    outcome: Outcome { text: self.reason(), detail: None },
                    outcome_required: Required::No,
                    contract: None,
                }
                .into(),
            ),
        };
        ScriptedRequest::command(caller, command)
    }

    /// Reopens an ended task, with the tasks that depend on it.
    fn reopen_task(&mut self) -> AnyCommand {
        let ended = self.tasks().filter(|task| !task.state.is_open()).map(|task| (task.run.clone(), task.id.clone()));
        let ended: Vec<(RunId, TaskId)> = ended.collect();
        let (run, task) = ended.choose(self.rng).cloned().unwrap_or((RunId::project_default(), "task_none".into()));
        ReopenTask { run, task }.into()
    }

    /// An agent of the team.
    fn agent(&mut self) -> AgentId {
        self.agents.choose(self.rng).cloned().unwrap_or_else(|| "nobody-there".into())
    }

    /// Usually the agent, sometimes `None`.
    fn maybe(&mut self, agent: &AgentId) -> Option<AgentId> {
        self.rng.random_bool(0.7).then(|| agent.clone())
    }

    fn reason(&mut self) -> Option<String> {
        self.rng.random_bool(0.7).then(|| format!("reason {}", self.rng.random_range(0..5)))
    }

    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.model.rows().filter_map(|(_, row)| if let Row::Task(task) = row { Some(task) } else { None })
    }

    /// Usually an unfinished task, sometimes any.
    fn task(&mut self) -> TaskId {
        let open = self.model.rows().filter_map(|(_, row)| match row {
            Row::Task(task) if !task.state.is_finished() => Some(task.id.clone()),
            _ => None,
        });
        let any = self.model.rows().filter_map(|(_, row)| match row {
            Row::Task(task) => Some(task.id.clone()),
            _ => None,
        });
        let chosen = if self.rng.random_bool(0.9) { open.choose(self.rng) } else { any.choose(self.rng) };
        chosen.unwrap_or_else(|| "task_none".into())
    }

    /// Usually a task that the agent holds.
    fn own_task(&mut self, agent: &AgentId) -> TaskId {
        let own: Vec<TaskId> =
            self.tasks().filter(|task| task.held_by() == Some(agent)).map(|task| task.id.clone()).collect();
        match own.choose(self.rng) {
            Some(task) if self.rng.random_bool(0.85) => task.clone(),
            _ => self.task(),
        }
    }

    fn path(&mut self) -> FilePath {
        let text = PATHS.choose(self.rng).copied().unwrap_or("README.md");
        path(text)
    }

    fn conflicted_path(&mut self) -> FilePath {
        let conflicted = self.model.rows().filter_map(|(_, row)| match row {
            Row::File(file) if file.conflict.is_some() => Some(file.path.clone()),
            _ => None,
        });
        conflicted.choose(self.rng).unwrap_or_else(|| path("README.md"))
    }

    /// The fence of the task's claim, or sometimes an outdated one.
    fn fence(&mut self, command: &AnyCommand) -> Option<rookery_core::Seq> {
        let completed = command.get().map(|complete: &CompleteTask| &complete.task);
        let id = completed
            .or_else(|| command.get().map(|start: &StartTask| &start.task))
            .or_else(|| command.get().map(|fail: &FailTask| &fail.task))?;
        let is_outdated = self.rng.random_bool(0.3);
        let task = self.tasks().find(|task| task.id == *id)?;
        if is_outdated { Some(task.created) } else { task.claim.as_ref().map(|claim| claim.fence) }
    }

    fn create_task(&mut self, by: &str) -> AnyCommand {
        let count = self.rng.random_range(0..3);
        let known: Vec<TaskId> = self.tasks().map(|task| task.id.clone()).collect();
        let depends_on =
            if self.rng.random_bool(0.3) { known.choose_multiple(self.rng, count).cloned().collect() } else { vec![] };
        let assigned_to = self.rng.random_bool(0.2).then(|| self.agent());
        CreateTask {
            id: TaskId::new(format!("task_{}", self.serial)),
            run: RunId::project_default(),
            title: format!("title {}", self.rng.random_range(0..20)),
            description: format!("description {}", self.rng.random_range(0..20)),
            assigned_by: by.to_owned(),
            assigned_to,
            resources: if self.rng.random_bool(0.2) { vec!["src/main.rs".to_owned()] } else { vec![] },
            depends_on,
        }
        .into()
    }

    /// Creates a run or changes one.
    fn run_command(&mut self) -> AnyCommand {
        let runs =
            self.model.rows().filter_map(|(_, row)| if let Row::Run(run) = row { Some(run.id.clone()) } else { None });
        let Some(run) = runs.choose(self.rng).filter(|_| self.rng.random_bool(0.8)) else {
            return CreateRun { id: RunId::new(format!("wf_{}", self.serial)), brief: self.run_spec() }.into();
        };
        match self.rng.random_range(0..12) {
            0..5 => SetRunPlan { run, summary: "the plan".to_owned(), tasks: self.planned_tasks() }.into(),
            5..7 => {
                let task = self.planned_tasks().remove(0);
                let after = self.rng.random_bool(0.5).then(|| self.task_of(&run).to_string());
                AddRunTask { run, task, after }.into()
            }
            7 => RemoveRunTask { task: self.task_of(&run), run }.into(),
            8 => {
                ReplanRun { run, summary: "another".to_owned(), reason: "why".to_owned(), tasks: self.planned_tasks() }
                    .into()
            }
            9 => {
                let to = *run::RunStatus::ALL.choose(self.rng).unwrap_or(&run::RunStatus::InProgress);
                SetRunStatus { run, to, reason: self.reason() }.into()
            }
            10 => {
                let id = TemplateId::new(format!("tmpl_{}", self.serial));
                let title = format!("template {}", self.serial);
                CreateTemplate { id, title, description: "steps".to_owned(), source: TemplateSource::Run(run) }.into()
            }
            _ => self.apply_template(),
        }
    }

    /// A task of this run, or any task if it has none.
    fn task_of(&mut self, run: &RunId) -> TaskId {
        let tasks = self.model.rows().filter_map(|(_, row)| match row {
            Row::Task(task) if task.run == *run => Some(task.id.clone()),
            _ => None,
        });
        tasks.choose(self.rng).unwrap_or_else(|| self.task())
    }

    fn run_spec(&mut self) -> RunSpec {
        RunSpec {
            title: format!("run {}", self.rng.random_range(0..20)),
            source_type: SourceType::Prompt,
            source_ref: None,
            source_content: "what to do".to_owned(),
            repository_paths: vec![],
            max_parallel_tasks: 2,
            auto_create_workspaces: false,
            config: serde_json::Map::new(),
        }
    }

    /// Tasks that may each depend on the previous one. Sometimes the first depends on the last, an invalid cycle.
    fn planned_tasks(&mut self) -> Vec<PlannedTask> {
        let (count, serial) = (self.rng.random_range(1..4), self.serial);
        let name = |at: u64| format!("step {serial}.{at}");
        let is_cyclic = self.rng.random_bool(0.1);
        let mut tasks = Vec::new();
        for at in 0..count {
            let before = if at > 0 && self.rng.random_bool(0.5) { Some(at - 1) } else { None };
            let before = if at == 0 && is_cyclic { Some(count - 1) } else { before };
            tasks.push(PlannedTask {
                id: TaskId::new(format!("tk_{serial}_{at}")),
                title: name(at),
                description: "as planned".to_owned(),
                resources: vec![],
                depends_on: before.map(name).into_iter().collect(),
                context_from: vec![],
                details: Details::default(),
            });
        }
        tasks
    }

    fn apply_template(&mut self) -> AnyCommand {
        let templates = self.model.rows().filter_map(|(_, row)| match row {
            Row::Template(template) => Some(template.id.clone()),
            _ => None,
        });
        let serial = self.serial;
        ApplyTemplate {
            template: templates.choose(self.rng).unwrap_or_else(|| "tmpl_none".into()),
            run: RunId::new(format!("wf_{serial}")),
            title: "from a template".to_owned(),
            tasks: (0..12).map(|at| TaskId::new(format!("tk_{serial}_{at}"))).collect(),
            variables: std::collections::BTreeMap::new(),
            repository_paths: vec![],
            max_parallel_tasks: 1,
        }
        .into()
    }

    /// A holder's plan or checkpoint for its task.
    fn task_plan_command(&mut self, agent: &AgentId) -> AnyCommand {
        let (task, serial) = (self.own_task(agent), self.serial);
        let plan =
            TaskPlan { approach: "step by step".to_owned(), steps: vec!["one".to_owned()], ..TaskPlan::default() };
        match self.rng.random_range(0..8) {
            0..2 => ClaimTask { task: self.task(), agent: agent.clone() }.into(),
            2..4 => SetTaskPlan { task, agent: self.maybe(agent), plan, context: serde_json::Map::new() }.into(),
            4 => {
                let checkpoint = format!("cp_{serial}");
                ReplanTask { task, agent: self.maybe(agent), plan, reason: "harder".to_owned(), checkpoint }.into()
            }
            5..7 => AddCheckpoint {
                id: format!("cp_{serial}"),
                task,
                agent: self.maybe(agent),
                kind: CheckpointKind::Decision,
                summary: "decided".to_owned(),
                detail: self.reason().map(|reason| serde_json::json!({ "why": reason })),
                files_changed: vec!["src/main.rs".to_owned()],
            }
            .into(),
            _ => self.end_with_outcome(task, agent),
        }
    }

    /// Ends a task in a way that requires an outcome or error.
    fn end_with_outcome(&mut self, task: TaskId, agent: &AgentId) -> AnyCommand {
        let (agent, text) = (self.maybe(agent), self.reason());
        match self.rng.random_range(0..3) {
            0 => {
                FailTask { task, agent, error: text, error_required: Required::Yes, retry: FailureRetry::Never }.into()
            }
            _ => {
                let outcome = Outcome { text, detail: None };
                CompleteTask { task, agent, outcome, outcome_required: Required::Yes, contract: None }.into()
            }
        }
    }

    fn set_status(&mut self, agent: &AgentId) -> AnyCommand {
        let all = [
            AgentStatus::Idle,
            AgentStatus::Working,
            AgentStatus::Blocked,
            AgentStatus::WaitingReview,
            AgentStatus::Offline,
        ];
        let status = *all.choose(self.rng).unwrap_or(&AgentStatus::Idle);
        SetAgentStatus { agent: agent.clone(), status, current_task: CurrentTask::AsBefore }.into()
    }

    fn set_step(&mut self, agent: &AgentId) -> AnyCommand {
        let to =
            *[TaskState::Planning, TaskState::Review, TaskState::Paused].choose(self.rng).unwrap_or(&TaskState::Review);
        SetTaskStep {
            task: self.own_task(agent),
            agent: self.maybe(agent),
            to,
            reason: self.reason(),
            waiting_for: None,
        }
        .into()
    }

    fn cancel_task(&mut self, to: CancelTo) -> AnyCommand {
        CancelTask { task: self.task(), agent: None, reason: self.reason(), to }.into()
    }

    fn release_task(&mut self, agent: &AgentId) -> AnyCommand {
        ReleaseTask {
            task: self.own_task(agent),
            agent: self.maybe(agent),
            reason: self.reason(),
            if_unclaimed: IfUnclaimed::Succeed,
            if_failed: IfFailed::Retry,
        }
        .into()
    }

    fn complete_task(&mut self, agent: &AgentId) -> AnyCommand {
        let detail = self.rng.random_bool(0.3).then(|| serde_json::json!({ "text": "detail", "lines": 3 }));
        let outcome = Outcome { text: self.reason(), detail };
        CompleteTask {
            task: self.own_task(agent),
            agent: self.maybe(agent),
            outcome,
            outcome_required: Required::No,
            contract: None,
        }
        .into()
    }

    fn fail_task(&mut self, agent: &AgentId) -> AnyCommand {
        FailTask {
            task: self.own_task(agent),
            agent: self.maybe(agent),
            error: self.reason(),
            error_required: Required::No,
            retry: FailureRetry::Never,
        }
        .into()
    }

    fn claim_file(&mut self, agent: &AgentId) -> AnyCommand {
        let task = self.rng.random_bool(0.5).then(|| self.own_task(agent));
        let insist = if self.rng.random_bool(0.2) { ClaimMode::Force } else { ClaimMode::Request };
        ClaimFile { path: self.path(), agent: agent.clone(), task, hash: self.hash(), site: None, insist }.into()
    }

    fn hash(&mut self) -> String {
        format!("hash{}", self.rng.random_range(0..4))
    }

    fn record_change(&mut self, by: Option<AgentId>, source: ChangeSource) -> AnyCommand {
        RecordChange {
            path: self.path(),
            by,
            before: None,
            after: Some(self.hash()),
            source,
            task: None,
            metadata: serde_json::Map::new(),
            site: None,
            escalate_after_millis: 60_000,
        }
        .into()
    }

    fn watched_change(&mut self) -> AnyCommand {
        let by = self.rng.random_bool(0.6).then(|| self.agent());
        self.record_change(by, ChangeSource::Watcher)
    }

    fn record_untracked(&mut self) -> AnyCommand {
        RecordUntracked { changed: self.rng.random_range(0..5), sample: vec!["build.log".to_owned()], site: None }
            .into()
    }

    fn offer_handoff(&mut self, agent: &AgentId) -> AnyCommand {
        let note = HandoffNote {
            summary: format!("summary {}", self.rng.random_range(0..20)),
            context: "context".to_owned(),
            blockers: vec!["a blocker".to_owned()],
            ..HandoffNote::default()
        };
        let to = self.rng.random_bool(0.6).then(|| self.agent());
        let id = HandoffId::new(format!("hoff_{}", self.serial));
        OfferHandoff { id, from: agent.clone(), to, task: self.own_task(agent), note }.into()
    }

    fn answer_handoff(&mut self, agent: &AgentId) -> AnyCommand {
        let fits = |handoff: &Handoff| handoff.to.as_ref().is_none_or(|to| to == agent);
        let offered = self.model.rows().filter_map(|(_, row)| match row {
            Row::Handoff(handoff) if fits(handoff) => Some(handoff.id.clone()),
            _ => None,
        });
        let handoff = offered.choose(self.rng).unwrap_or_else(|| "hoff_none".into());
        if self.rng.random_bool(0.75) {
            return AcceptHandoff { handoff, agent: agent.clone() }.into();
        }
        RejectHandoff { handoff, agent: agent.clone(), reason: "not now".to_owned() }.into()
    }

    fn report(&mut self, agent: &AgentId) -> AnyCommand {
        Report {
            agent: agent.clone(),
            action: "note.taken".to_owned(),
            resource: self.rng.random_bool(0.5).then(|| self.path()),
            task: None,
            before_hash: None,
            after_hash: None,
            metadata: serde_json::Map::from_iter([("secret".to_owned(), self.rng.random_range(0..100).into())]),
        }
        .into()
    }

    fn redact(&mut self) -> AnyCommand {
        let Some(row) = self.model.log().choose(self.rng) else { return self.record_untracked() };
        let erase = Erase { intent: IntentId::new(format!("int_{}", self.serial)), sha256: "ab".repeat(32) };
        let artifact = self.rng.random_bool(0.4).then_some(erase);
        Redact { rows: vec![Target { seq: row.seq, fact: row.event.clone(), artifact }] }.into()
    }
}

fn path(text: &str) -> FilePath {
    // The texts are constants and valid. An invalid one would show as a claim of another path.
    FilePath::parse(text, Case::Kept).or_else(|_| FilePath::parse("unsound", Case::Kept)).unwrap_or_else(|_| path("x"))
}
