//! Asking for work.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, Seq, TaskId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::agent::Agent;
use crate::model::routing::Routing;
use crate::model::run::Run;
use crate::model::task::{AlarmKind, Alarms, Dependency, Details, Task, TaskOrigin, TaskState};
use crate::model::{DependencyId, EventStamp, Key, ReadSet, RowWriter, Undecided, View, run};
use crate::runs;
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CreateTask {
    pub id: TaskId,
    pub run: RunId,
    pub title: String,
    pub description: String,
    pub assigned_by: String,
    pub assigned_to: Option<AgentId>,
    pub resources: Vec<String>,
    pub depends_on: Vec<TaskId>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskCreated {
    pub task: TaskId,
    pub run: RunId,
    pub title: String,
    pub description: String,
    pub assigned_by: String,
    pub resources: Vec<String>,
    pub depends_on: Vec<TaskId>,
    /// Those of `depends_on` that are not finished yet.
    pub waiting_on: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sequence: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_from: Vec<TaskId>,
    #[serde(default, skip_serializing_if = "Details::are_none")]
    pub details: Details,
    #[serde(default, skip_serializing_if = "TaskOrigin::is_none")]
    pub origin: TaskOrigin,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(sequence: &u32) -> bool {
    *sequence == 0
}

/// Kept for an agent until it claims it; no fence yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskReserved {
    pub task: TaskId,
    pub agent: AgentId,
}

impl Event for TaskReserved {
    const KIND: &'static str = "task.reserved";

    fn subject(&self) -> Subject<'_> {
        Subject { agent: Some(&self.agent), ..Subject::task(&self.task, None) }
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Task(self.task.clone()), Key::Agent(self.agent.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.update(self.task.clone(), |task: &mut Task| task.reserve_for(&self.agent));
        rows.update(self.agent.clone(), |agent: &mut Agent| agent.note_assigned(stamp.seq));
    }
}

impl Command for CreateTask {
    const NAME: &'static str = "CreateTask";

    type Reply = Task;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet = vec![Key::Task(self.id.clone()).into()];
        read_set.extend(self.assigned_to.iter().map(|agent| Key::Agent(agent.clone()).into()));
        read_set.extend(self.depends_on.iter().take(limit::LIST_ENTRIES).map(|dep| Key::Task(dep.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Task>, Undecided> {
        let facts = self.creates(cx.view, cx.caller, TaskOrigin::default())?;
        Ok(Decision::new(facts, ReplySource::row(self.id.clone())))
    }
}

impl CreateTask {
    pub(super) fn creates(&self, view: &View, caller: &Caller, origin: TaskOrigin) -> Result<Vec<AnyEvent>, Undecided> {
        self.check()?;
        view.ensure_may_author_as(caller, &AgentId::from(self.assigned_by.as_str()))?;
        if view.find_task(&self.id)?.is_some() {
            return Err(Rejection::new(Code::AlreadyExists, format!("task {} exists", self.id))
                .about("/task_id")
                .into());
        }
        if let Some(agent) = &self.assigned_to
            && view.find_agent(agent)?.is_none_or(|agent| agent.has_left())
        {
            return Err(unknown("assigned_to", agent.as_str(), "an agent").into());
        }
        if let Some(agent) = &self.assigned_to {
            // Nothing would end a reservation for one that is gone already.
            view.online_agent(agent)?;
        }
        let mut waiting_on = Vec::new();
        for dep in &self.depends_on {
            match view.find_task(dep)? {
                None => return Err(unknown("depends_on", dep.as_str(), "a task").into()),
                Some(task) if !task.state.is_finished() => waiting_on.push(dep.clone()),
                Some(_) => {}
            }
        }
        let run = if self.run == RunId::project_default() { None } else { view.run(&self.run)? };
        if let Some(run) = run {
            runs::ensure_accepts_tasks(run)?;
        }
        let mut facts = vec![AnyEvent::new(TaskCreated {
            task: self.id.clone(),
            run: self.run.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            assigned_by: self.assigned_by.clone(),
            resources: self.resources.clone(),
            depends_on: self.depends_on.clone(),
            waiting_on,
            sequence: 0,
            context_from: vec![],
            details: Details::default(),
            origin,
        })];
        if let Some(agent) = &self.assigned_to {
            facts.push(AnyEvent::new(TaskReserved { task: self.id.clone(), agent: agent.clone() }));
        }
        facts.extend(run.and_then(runs::reopens));
        Ok(facts)
    }

    fn check(&self) -> Result<(), Rejection> {
        if self.title.trim().is_empty() {
            return Err(Rejection::new(Code::Invalid, "title must not be empty"));
        }
        limit::text("title", &self.title, limit::TITLE_BYTES)?;
        limit::text("description", &self.description, limit::TEXT_BYTES)?;
        limit::text("assigned_by", &self.assigned_by, limit::NAME_BYTES)?;
        limit::list("resources", &self.resources)?;
        for resource in &self.resources {
            limit::text("resources", resource, limit::PATH_BYTES)?;
        }
        limit::list("depends_on", &self.depends_on)?;
        for (at, dep) in self.depends_on.iter().enumerate() {
            if *dep == self.id {
                return Err(Rejection::new(Code::DependencyCycle, format!("task {dep} cannot depend on itself")));
            }
            if self.depends_on[..at].contains(dep) {
                return Err(Rejection::new(Code::Invalid, format!("depends_on names {dep} twice")));
            }
        }
        Ok(())
    }
}

fn unknown(field: &str, id: &str, what: &str) -> Rejection {
    Rejection::new(Code::UnknownReference, format!("{field}: {id} is not {what} known here"))
        .hint("list what exists and use one of those ids")
}

impl TaskCreated {
    fn edge(&self, dep: &TaskId) -> DependencyId {
        DependencyId { task: self.task.clone(), dep: dep.clone() }
    }

    pub(super) fn task(&self, seq: Seq, at: Timestamp) -> Task {
        let mut clocks = Alarms::default();
        if let Some(deadline) = self.origin.terms.as_ref().and_then(|terms| terms.deadline) {
            clocks.set(AlarmKind::Deadline, deadline, seq);
        }
        Task {
            id: self.task.clone(),
            run: self.run.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            assigned_by: self.assigned_by.clone(),
            state: TaskState::Pending,
            state_since: at,
            reserved_for: None,
            claim: None,
            last_holder: None,
            resources: self.resources.clone(),
            depends_on: self.depends_on.clone(),
            waiting_on: self.waiting_on.iter().cloned().collect(),
            created_at: at,
            created: seq,
            started_at: None,
            completed_at: None,
            reason: None,
            waiting_for: None,
            outcome: None,
            outcome_detail: None,
            attempt: 1,
            checkpoints: 0,
            sequence: self.sequence,
            context_from: self.context_from.clone(),
            details: self.details.clone(),
            plan: None,
            context: serde_json::Map::new(),
            files_changed: BTreeSet::new(),
            origin: self.origin.clone(),
            routing: Routing::default(),
            has_parts: false,
            clocks,
            unblocked_to: None,
        }
    }
}

impl Event for TaskCreated {
    const KIND: &'static str = "task.created";

    fn subject(&self) -> Subject<'_> {
        let trace = self.origin.terms.as_ref().map(|terms| &terms.trace).filter(|trace| !trace.is_none());
        Subject { thread: self.origin.thread.as_ref(), trace, ..Subject::task(&self.task, Some(&self.run)) }
    }

    fn write_set(&self) -> Vec<Key> {
        let own = Key::Task(self.task.clone());
        let edges = self.depends_on.iter().map(|dep| Key::Dependency(self.edge(dep)));
        let run = run::row_id(Some(&self.run)).map(Key::Run);
        let parent = self.origin.parent.iter().cloned().map(Key::Task);
        std::iter::once(own).chain(edges).chain(run).chain(parent).collect()
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.task.clone(), self.task(stamp.seq, stamp.at));
        for dep in &self.depends_on {
            rows.put(self.edge(dep), Dependency { task: self.task.clone(), dep: dep.clone() });
        }
        if let Some(id) = run::row_id(Some(&self.run)) {
            rows.replace(id, |old: Option<Run>| {
                let implied = || Run::implied(&self.run, &self.assigned_by, stamp.seq, stamp.at);
                let mut run = old.unwrap_or_else(implied);
                run.add_task(stamp.at);
                Some(run)
            });
        }
        if let Some(parent) = self.origin.parent.as_ref().filter(|parent| **parent != self.task) {
            rows.update(parent.clone(), |parent: &mut Task| parent.has_parts = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, by, cancel, claim, complete, create, fail, retry, skip, start};

    #[test]
    fn a_task_is_queued_or_reserved() {
        let mut w = World::of(&["a", "b"]);
        assert_eq!(w.creates("t", &[]), ["task.created"]);
        let task = w.task("t");
        assert_eq!((task.state, task.held_by(), task.attempt), (TaskState::Pending, None, 1));
        w.reserves("u", "b");
        let task = w.task("u");
        assert_eq!((task.state, task.holder(), task.held_by().unwrap().as_str()), (TaskState::Pending, None, "b"));
        assert_eq!(w.agent("b").holding, 0, "reserved is not claimed");
    }

    #[test]
    fn what_it_names_must_exist() {
        let mut w = World::of(&["a"]);
        let nobody = Caller::anonymous();
        w.creates("t", &[]);
        assert_eq!(w.refuses(&nobody, create("t", &[])), Code::AlreadyExists);
        assert_eq!(w.refuses(&nobody, create("u", &["x"])), Code::UnknownReference);
        assert_eq!(w.refuses(&nobody, create("u", &["u"])), Code::DependencyCycle);
        assert_eq!(w.refuses(&nobody, create("u", &["t", "t"])), Code::Invalid);
        let to = |agent: &str| CreateTask { assigned_to: Some(agent.into()), ..create("u", &[]) };
        assert_eq!(w.refuses(&nobody, to("x")), Code::UnknownReference);
        w.goes_offline("a");
        assert_eq!(w.refuses(&nobody, to("a")), Code::AgentOffline);
        assert_eq!(w.refuses(&crate::testing::anna(), crate::testing::assign("t", "a")), Code::AgentOffline);
    }

    #[test]
    fn nobody_signs_with_a_name_of_another_kind() {
        let mut w = World::of(&["lead", "a"]);
        let signed = |by: &str| CreateTask { assigned_by: by.to_owned(), ..create("t", &[]) };
        for name in ["system", "person:anna", "router"] {
            for caller in [Caller::anonymous(), by("a"), by("lead")] {
                assert_eq!(w.refuses(&caller, signed(name)), Code::Forbidden, "{name}");
            }
        }
        assert_eq!(w.refuses(&by("a"), signed("lead")), Code::Forbidden);
        assert_eq!(w.does(&crate::testing::anna(), signed("person:anna")), ["task.created"]);
    }

    #[test]
    fn sizes_are_limited() {
        let mut w = World::default();
        let nobody = Caller::anonymous();
        let long = |bytes: usize| "x".repeat(bytes + 1);
        assert_eq!(w.refuses(&nobody, CreateTask { title: " ".to_owned(), ..create("t", &[]) }), Code::Invalid);
        for big in [
            CreateTask { title: long(limit::TITLE_BYTES), ..create("t", &[]) },
            CreateTask { description: long(limit::TEXT_BYTES), ..create("t", &[]) },
            CreateTask { assigned_by: long(limit::NAME_BYTES), ..create("t", &[]) },
            CreateTask { resources: vec![String::new(); limit::LIST_ENTRIES + 1], ..create("t", &[]) },
            CreateTask { resources: vec![long(limit::PATH_BYTES)], ..create("t", &[]) },
            CreateTask { depends_on: vec!["x".into(); limit::LIST_ENTRIES + 1], ..create("t", &[]) },
        ] {
            assert_eq!(w.refuses(&nobody, big), Code::TooLarge);
        }
    }

    #[test]
    fn it_waits_for_what_is_not_finished() {
        let mut w = World::of(&["a"]);
        for dep in ["done", "skipped", "cancelled", "open", "failed"] {
            w.creates(dep, &[]);
        }
        w.starts("a", "done");
        w.does(&by("a"), complete("done"));
        w.does(&by("a"), skip("skipped"));
        w.does(&by("a"), cancel("cancelled"));
        w.starts("a", "failed");
        w.does(&by("a"), fail("failed"));
        w.creates("t", &["done", "skipped", "cancelled", "open", "failed"]);
        let waits: Vec<_> = w.task("t").waiting_on.iter().map(|dep| dep.to_string()).collect();
        assert_eq!(waits, ["failed", "open"]);
        assert!(w.task("t").is_blocked());
    }

    #[test]
    fn a_finished_dependency_unblocks_and_a_failed_one_does_not() {
        for (end, unblocks) in [("completed", true), ("skipped", true), ("cancelled", true), ("failed", false)] {
            let mut w = World::of(&["a", "b"]);
            w.creates("dep", &[]);
            w.creates("t", &["dep"]);
            assert_eq!(w.refuses(&by("b"), start(Some("b"), "t")), Code::DependenciesUnfinished);
            match end {
                "completed" | "failed" => {
                    w.starts("a", "dep");
                    if unblocks { w.does(&by("a"), complete("dep")) } else { w.does(&by("a"), fail("dep")) }
                }
                "skipped" => w.does(&by("a"), skip("dep")),
                _ => w.does(&by("a"), cancel("dep")),
            };
            assert_eq!(w.task("t").waiting_on.is_empty(), unblocks, "{end}");
            if !unblocks {
                assert_eq!(w.refuses(&by("b"), start(Some("b"), "t")), Code::DependenciesUnfinished);
                w.does(&by("a"), retry("dep"));
                w.starts("a", "dep");
                w.does(&by("a"), complete("dep"));
            }
            assert_eq!(w.starts("b", "t"), ["task.claimed", "task.started"], "{end}");
        }
    }

    #[test]
    fn a_waiting_task_can_be_claimed_and_planned_but_not_begun() {
        let mut w = World::of(&["a"]);
        w.creates("dep", &[]);
        w.creates("t", &["dep"]);
        w.does(&by("a"), claim("a", "t"));
        w.does(&by("a"), crate::testing::moves("t", TaskState::Planning));
        assert!(w.task("t").is_blocked());
        assert_eq!(w.refuses(&by("a"), start(None, "t")), Code::DependenciesUnfinished);
    }
}
