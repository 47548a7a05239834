//! The shape of a context, and how it looks with so much of it cut.

use rookery_core::model::run::RunStatus;
use rookery_core::model::task::{Checkpoint, CheckpointKind, Task, TaskPlan, TaskState};
use rookery_core::{RunId, TaskId, Timestamp, WorkspaceId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Checkpoints, Include, Material, Part};
use crate::runs::{error_of, status_word};

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TaskContextView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowView>,
    pub current_task: CurrentTask,
    pub prior_tasks: Vec<OutcomeView>,
    pub dependency_outcomes: Vec<OutcomeView>,
    pub sibling_tasks: Vec<OutcomeView>,
    pub held_files: Vec<String>,
    pub unread: u64,
    /// What is not here, and the tool that shows it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omitted>,
    pub token_estimate: usize,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct WorkflowView {
    #[schemars(with = "String")]
    pub id: RunId,
    pub name: String,
    #[schemars(with = "String")]
    pub status: RunStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_summary: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct CurrentTask {
    #[schemars(with = "String")]
    pub id: TaskId,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub status: &'static str,
    pub sequence: u32,
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanView>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// Where it is worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceView>,
    pub checkpoints: Vec<CheckpointView>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct WorkspaceView {
    #[schemars(with = "String")]
    pub id: WorkspaceId,
    pub path: String,
    pub branch: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PlanView {
    pub approach: String,
    pub steps: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_to_modify: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_to_create: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context_needed: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct CheckpointView {
    pub sequence: u32,
    #[serde(rename = "type")]
    #[schemars(with = "String")]
    pub kind: CheckpointKind,
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
    #[schemars(with = "i64")]
    pub created_at: Timestamp,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct OutcomeView {
    #[schemars(with = "String")]
    pub id: TaskId,
    pub name: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// All that a prior task told, where that was asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub full: Option<FullView>,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct FullView {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome_detail: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Omitted {
    pub what: &'static str,
    pub count: usize,
    /// The tool that shows it.
    pub get: &'static str,
}

/// How much of each part goes. Nothing goes by default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Cut {
    /// Details of old checkpoints, oldest first. Decisions and the newest are not old.
    pub(super) old_details: usize,
    /// What prior tasks told beside their outcomes, oldest first.
    pub(super) prior_details: usize,
    /// Outcomes of siblings and then of prior tasks, and afterwards their whole entries.
    pub(super) outcomes: usize,
    pub(super) entries: usize,
    /// The most characters of a long text that is not the task's own; none is no limit.
    pub(super) texts: Option<usize>,
    /// Old checkpoints as a whole, oldest first.
    pub(super) old_checkpoints: usize,
    pub(super) dependencies: usize,
    pub(super) files: usize,
    pub(super) workflow: Kept,
    pub(super) decision_details: usize,
    pub(super) newest_detail: Kept,
    pub(super) context: Kept,
    /// The most characters of the texts of the task and its plan.
    pub(super) own_texts: Option<usize>,
    pub(super) workspace: Kept,
    pub(super) plan: Kept,
    /// The most characters of what was decided and of the newest checkpoint.
    pub(super) last_texts: Option<usize>,
    /// Decisions as a whole, oldest first.
    pub(super) decisions: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Kept {
    #[default]
    Yes,
    No,
}

/// The material, sorted into the parts that are cut differently.
#[derive(Debug)]
pub(super) struct Sorted<'a> {
    material: &'a Material,
    include: &'a Include,
    /// Each with what it is for the order of cuts.
    pub(super) checkpoints: Vec<(&'a Checkpoint, Rank)>,
    pub(super) siblings: Vec<&'a Task>,
    pub(super) prior: Vec<&'a Task>,
    pub(super) dependencies: Vec<&'a Task>,
    /// Checkpoints that were not asked for.
    not_asked: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rank {
    Old,
    Decision,
    /// A decision from before what was asked for: it is told, without its detail.
    OldDecision,
    Newest,
}

impl<'a> Sorted<'a> {
    pub(super) fn of(material: &'a Material, include: &'a Include) -> Sorted<'a> {
        let task = &material.task;
        let named = |ids: &[TaskId]| -> Vec<&'a Task> {
            ids.iter().filter_map(|id| material.others.iter().find(|other| other.id == *id)).collect()
        };
        let wanted = |part: Part, tasks: Vec<&'a Task>| if part == Part::Wanted { tasks } else { vec![] };
        let before: Vec<&Task> = if task.context_from.is_empty() {
            let ended = |other: &&Task| other.sequence < task.sequence && !other.state.is_open();
            material.others.iter().filter(ended).collect()
        } else {
            named(&task.context_from)
        };
        let group = task.details.parallel_group.as_ref();
        let beside = |other: &&Task| group.is_some() && other.details.parallel_group.as_ref() == group;
        let checkpoints = ranked(material, include.checkpoints);
        Sorted {
            not_asked: material.checkpoints.len() - checkpoints.len(),
            checkpoints,
            siblings: wanted(include.sibling_status, material.others.iter().filter(beside).collect()),
            prior: wanted(include.prior_task_outcomes, before),
            dependencies: wanted(include.dependency_outcomes, named(&task.depends_on)),
            material,
            include,
        }
    }

    pub(super) fn count(&self, rank: Rank) -> usize {
        self.checkpoints.iter().filter(|(_, of)| *of == rank).count()
    }

    /// All that was decided, but for the newest checkpoint.
    pub(super) fn decisions(&self) -> usize {
        self.count(Rank::Decision) + self.count(Rank::OldDecision)
    }

    /// Characters that are sent along with the context.
    pub(super) fn around(&self) -> usize {
        self.material.around
    }

    pub(super) fn held_files(&self) -> usize {
        self.material.held_files.len()
    }

    /// The context with these cuts, without its estimate.
    pub(super) fn render(&self, cut: &Cut) -> TaskContextView {
        let mut left = LeftOut { checkpoints: self.not_asked, ..LeftOut::default() };
        let workflow = self.workflow(cut, &mut left);
        let (sibling_tasks, prior_tasks) = self.beside_and_before(cut, &mut left);
        let dependency_outcomes = self.dependency_outcomes(cut, &mut left);
        let held_files = &self.material.held_files[..self.material.held_files.len().saturating_sub(cut.files)];
        left.files = self.material.held_files.len() - held_files.len();
        TaskContextView {
            workflow,
            current_task: self.current_task(cut, &mut left),
            prior_tasks,
            dependency_outcomes,
            sibling_tasks,
            held_files: held_files.to_vec(),
            unread: self.material.unread,
            omitted: left.told(),
            token_estimate: 0,
        }
    }

    fn workflow(&self, cut: &Cut, left: &mut LeftOut) -> Option<WorkflowView> {
        if self.include.workflow_plan == Part::LeftOut {
            return None;
        }
        let run = &self.material.run;
        let mut text = |text: &str| match (text.is_empty(), cut.workflow) {
            (true, _) => None,
            (false, Kept::Yes) => Some(left.clipped(text, cut.texts)),
            (false, Kept::No) => {
                left.texts += 1;
                None
            }
        };
        let source_summary = text(&run.brief.source_content);
        let plan_summary = text(run.summary.as_deref().unwrap_or(""));
        Some(WorkflowView {
            id: run.id.clone(),
            name: left.clipped(&run.brief.title, cut.own_texts.or(cut.texts)),
            status: run.status,
            source_summary,
            plan_summary,
        })
    }

    /// Siblings go before prior tasks, and in both the oldest first.
    fn beside_and_before(&self, cut: &Cut, left: &mut LeftOut) -> (Vec<OutcomeView>, Vec<OutcomeView>) {
        let mut views = Vec::new();
        for (at, task) in self.siblings.iter().chain(&self.prior).enumerate() {
            if at < cut.entries {
                left.entries += 1;
                views.push(None);
                continue;
            }
            let mut view = outcome(task, cut.texts, left);
            let place = at.checked_sub(self.siblings.len());
            view.full = place.and_then(|place| self.full(task, place < cut.prior_details, cut, left));
            if at < cut.outcomes && (view.outcome.is_some() || view.error.is_some()) {
                left.outcomes += 1;
                (view.outcome, view.error) = (None, None);
            }
            views.push(Some(view));
        }
        let prior = views.split_off(self.siblings.len());
        (views.into_iter().flatten().collect(), prior.into_iter().flatten().collect())
    }

    /// What a prior task told beside its outcome, if that is wanted and stays.
    fn full(&self, task: &Task, goes: bool, cut: &Cut, left: &mut LeftOut) -> Option<FullView> {
        if self.include.prior_task_full == Part::LeftOut {
            return None;
        }
        if goes {
            left.outcomes += 1;
            return None;
        }
        Some(FullView {
            description: left.clipped(&task.description, cut.texts),
            plan: task.plan.as_ref().map(|plan| planned(plan, cut.texts, left)),
            outcome_detail: task.outcome_detail.clone(),
            files_changed: task.files_changed.iter().cloned().collect(),
        })
    }

    fn dependency_outcomes(&self, cut: &Cut, left: &mut LeftOut) -> Vec<OutcomeView> {
        let gone = cut.dependencies.min(self.dependencies.len());
        left.entries += gone;
        self.dependencies[gone..].iter().map(|task| outcome(task, cut.texts, left)).collect()
    }

    fn current_task(&self, cut: &Cut, left: &mut LeftOut) -> CurrentTask {
        let task = &self.material.task;
        let limit = cut.own_texts;
        let context = match cut.context {
            Kept::Yes => task.context.clone(),
            Kept::No => {
                left.texts += usize::from(!task.context.is_empty());
                Map::new()
            }
        };
        let plan = match cut.plan {
            Kept::Yes => task.plan.as_ref().map(|plan| planned(plan, limit, left)),
            Kept::No => {
                left.texts += usize::from(task.plan.is_some());
                None
            }
        };
        let workspace = self.material.workspace.clone().filter(|_| cut.workspace == Kept::Yes);
        left.workspaces = usize::from(self.material.workspace.is_some() && workspace.is_none());
        CurrentTask {
            id: task.id.clone(),
            name: left.clipped(&task.title, limit),
            description: left.clipped(&task.description, limit),
            status: status_word(task),
            sequence: task.sequence,
            attempt: task.attempt,
            error: reason(task).map(|text| left.clipped(text, limit)),
            plan,
            context,
            workspace,
            checkpoints: self.kept_checkpoints(cut, left),
        }
    }

    fn kept_checkpoints(&self, cut: &Cut, left: &mut LeftOut) -> Vec<CheckpointView> {
        let mut kept = Vec::new();
        let (mut old, mut decision) = (0, 0);
        for (checkpoint, rank) in &self.checkpoints {
            let (goes, bare, limit) = match rank {
                Rank::Old => {
                    old += 1;
                    (old <= cut.old_checkpoints, old <= cut.old_details, cut.texts)
                }
                Rank::Decision => {
                    decision += 1;
                    (decision <= cut.decisions, decision <= cut.decision_details, cut.last_texts)
                }
                Rank::OldDecision => {
                    decision += 1;
                    (decision <= cut.decisions, true, cut.last_texts)
                }
                Rank::Newest => (false, cut.newest_detail == Kept::No, cut.last_texts),
            };
            if goes {
                left.checkpoints += 1;
                continue;
            }
            let has_detail = checkpoint.detail.is_some() || !checkpoint.files_changed.is_empty();
            left.details += usize::from(bare && has_detail);
            kept.push(CheckpointView {
                sequence: checkpoint.sequence,
                kind: checkpoint.kind,
                summary: left.clipped(&checkpoint.summary, limit),
                detail: if bare { None } else { checkpoint.detail.clone() },
                files_changed: if bare { vec![] } else { checkpoint.files_changed.clone() },
                created_at: checkpoint.created_at,
            });
        }
        kept
    }
}

fn ranked(material: &Material, wanted: Checkpoints) -> Vec<(&Checkpoint, Rank)> {
    let all = &material.checkpoints;
    let recent = match wanted {
        Checkpoints::All => all.len(),
        Checkpoints::Last(count) => count.min(all.len()),
    };
    let from = all.len() - recent;
    let rank = |(at, checkpoint): (usize, &Checkpoint)| match checkpoint.kind {
        _ if at >= from && at + 1 == all.len() => Some(Rank::Newest),
        CheckpointKind::Decision if at >= from => Some(Rank::Decision),
        CheckpointKind::Decision => Some(Rank::OldDecision),
        _ if at >= from => Some(Rank::Old),
        _ => None,
    };
    all.iter().enumerate().filter_map(|(at, one)| rank((at, one)).map(|rank| (one, rank))).collect()
}

/// Why a task stands where it does.
fn reason(task: &Task) -> Option<&str> {
    error_of(task).or(task.reason.as_deref().filter(|_| task.state == TaskState::Paused))
}

fn outcome(task: &Task, limit: Option<usize>, left: &mut LeftOut) -> OutcomeView {
    OutcomeView {
        id: task.id.clone(),
        name: left.clipped(&task.title, limit),
        status: status_word(task),
        outcome: task.outcome.as_deref().map(|text| left.clipped(text, limit)),
        error: error_of(task).map(|text| left.clipped(text, limit)),
        full: None,
    }
}

fn planned(plan: &TaskPlan, limit: Option<usize>, left: &mut LeftOut) -> PlanView {
    let mut all = |texts: &[String]| -> Vec<String> { texts.iter().map(|text| left.clipped(text, limit)).collect() };
    PlanView {
        steps: all(&plan.steps),
        files_to_modify: all(&plan.files_to_modify),
        files_to_create: all(&plan.files_to_create),
        context_needed: all(&plan.context_needed),
        approach: left.clipped(&plan.approach, limit),
    }
}

/// What a context does not show, counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct LeftOut {
    checkpoints: usize,
    details: usize,
    outcomes: usize,
    entries: usize,
    texts: usize,
    files: usize,
    workspaces: usize,
}

const TRUNCATED: &str = "… [truncated]";

impl LeftOut {
    /// The beginning of a text that is too long.
    fn clipped(&mut self, text: &str, limit: Option<usize>) -> String {
        let Some(limit) = limit else { return text.to_owned() };
        match text.char_indices().nth(limit) {
            None => text.to_owned(),
            Some((end, _)) => {
                self.texts += 1;
                format!("{}{TRUNCATED}", &text[..end])
            }
        }
    }

    fn told(&self) -> Vec<Omitted> {
        [
            ("checkpoints", self.checkpoints, "checkpoint_list"),
            ("checkpoint_details", self.details, "checkpoint_list"),
            ("outcomes", self.outcomes, "task_get"),
            ("tasks", self.entries, "workflow_get"),
            ("texts", self.texts, "task_get, workflow_get"),
            ("held_files", self.files, "resource_list"),
            ("workspace", self.workspaces, "workspace_list"),
        ]
        .into_iter()
        .filter(|(_, count, _)| *count > 0)
        .map(|(what, count, get)| Omitted { what, count, get })
        .collect()
    }
}
