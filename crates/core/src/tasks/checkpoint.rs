//! What a worker leaves behind on the way, so that it, or another, can go on from there.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::artifacts;
use crate::kernel::caller::{Actor, Caller};
use crate::kernel::code::Code;
use crate::kernel::id::{AgentId, RunId, Seq, TaskId, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::task::{Checkpoint, CheckpointKind, Task, ensure_may_change};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, NamedArtifacts, ReplySource, Subject};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AddCheckpoint {
    pub id: String,
    pub task: TaskId,
    pub agent: Option<AgentId>,
    pub kind: CheckpointKind,
    pub summary: String,
    pub detail: Option<Value>,
    pub files_changed: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CheckpointAdded {
    pub id: String,
    pub task: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub kind: CheckpointKind,
    pub summary: String,
    /// Its place among the checkpoints of the task, counted from 1.
    pub sequence: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_changed: Vec<String>,
    /// What is attached in the detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
}

impl Command for AddCheckpoint {
    const NAME: &'static str = "AddCheckpoint";

    type Reply = Checkpoint;

    fn read_set(&self) -> ReadSet {
        let mut read_set = crate::model::task::read_set(&self.task, self.agent.as_ref());
        read_set.push(Key::Checkpoint(self.id.clone()).into());
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Checkpoint>, Undecided> {
        let task = cx.view.task(&self.task)?;
        if let Some(agent) = &self.agent {
            cx.view.ensure_may_act_for(cx.caller, agent)?;
        }
        self.may_tell(cx.view, cx.caller, task)?;
        let fact = AnyEvent::new(CheckpointAdded::from_asked(self, cx.view, task)?);
        Ok(Decision::new(vec![fact], ReplySource::row(self.id.clone())))
    }
}

impl AddCheckpoint {
    /// The holder while the task is held, and the one who worked on it when that is over. The lead and people always.
    fn may_tell(&self, view: &View, caller: &Caller, task: &Task) -> Result<(), Undecided> {
        if task.held_by().is_some() {
            return ensure_may_change(view, caller, task, self.agent.as_ref());
        }
        let acting = self.agent.as_ref().or(caller.actor.agent());
        let worker = task.last_holder.as_ref().filter(|_| !task.state.is_open());
        let is_worker = match worker {
            // Whoever gave no name speaks for it, as while it held the task: but not if that takes a credential.
            Some(worker) if acting.is_none() && caller.actor == Actor::Anonymous => {
                view.ensure_may_act_for(caller, worker)?;
                true
            }
            worker => worker.is_some() && acting == worker,
        };
        if is_worker || view.has_authority(caller)? {
            return crate::model::task::ensure_fence(caller, None).map_err(Undecided::from);
        }
        if task.state.is_open() {
            return Err(Rejection::new(Code::NotClaimed, format!("nobody holds task {}", task.id))
                .hint("claim it first: only its holder adds checkpoints")
                .into());
        }
        Err(Rejection::new(Code::NotHolder, format!("task {} was not yours", task.id))
            .hint("only who worked on it, the lead or a person can add to it")
            .into())
    }

    fn check(&self) -> Result<(), Rejection> {
        if self.summary.trim().is_empty() {
            return Err(Rejection::new(Code::Invalid, "summary must not be empty"));
        }
        limit::name("id", &self.id, limit::NAME_BYTES)?;
        limit::text("summary", &self.summary, limit::SUMMARY_BYTES)?;
        limit::json("detail", &self.detail, limit::METADATA_BYTES)?;
        limit::paths("files_changed", &self.files_changed)
    }
}

impl CheckpointAdded {
    /// The next checkpoint of a task, if what is asked for is sound.
    pub(super) fn from_asked(asked: &AddCheckpoint, view: &View, task: &Task) -> Result<CheckpointAdded, Undecided> {
        asked.check()?;
        if view.get(&Key::Checkpoint(asked.id.clone()))?.is_some() {
            return Err(Rejection::new(Code::AlreadyExists, format!("checkpoint {} exists", asked.id)).into());
        }
        if task.checkpoints as usize >= limit::TASK_CHECKPOINTS {
            let message = format!("task {} has {} checkpoints, the most it can have", task.id, task.checkpoints);
            return Err(Rejection::new(Code::TooLarge, message).hint("end it, and go on in another task").into());
        }
        Ok(CheckpointAdded {
            id: asked.id.clone(),
            task: task.id.clone(),
            run: task.run_if_named(),
            kind: asked.kind,
            summary: asked.summary.clone(),
            sequence: task.checkpoints.saturating_add(1),
            detail: asked.detail.clone(),
            files_changed: asked.files_changed.clone(),
            artifacts: artifacts::attached(asked.detail.as_ref())?,
        })
    }

    pub(crate) fn checkpoint(&self, seq: Seq, at: Timestamp) -> Checkpoint {
        Checkpoint {
            id: self.id.clone(),
            task: self.task.clone(),
            sequence: self.sequence,
            kind: self.kind,
            summary: self.summary.clone(),
            detail: self.detail.clone(),
            files_changed: self.files_changed.clone(),
            created: seq,
            created_at: at,
        }
    }
}

impl Event for CheckpointAdded {
    const KIND: &'static str = "checkpoint.added";

    fn subject(&self) -> Subject<'_> {
        Subject::task(&self.task, self.run.as_ref())
    }

    fn write_set(&self) -> Vec<Key> {
        vec![Key::Checkpoint(self.id.clone()), Key::Task(self.task.clone())]
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        rows.put(self.id.clone(), self.checkpoint(stamp.seq, stamp.at));
        rows.update(self.task.clone(), |task: &mut Task| task.add_checkpoint(&self.files_changed));
    }

    fn artifacts(&self) -> Option<NamedArtifacts<'_>> {
        NamedArtifacts::of("checkpoint", &self.id, &self.artifacts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Row;
    use crate::model::agent::AgentRole;
    use crate::testing::{World, anna, by, complete, register, with_token};

    fn note(id: &str, kind: CheckpointKind) -> AddCheckpoint {
        AddCheckpoint {
            id: id.to_owned(),
            task: "t".into(),
            agent: None,
            kind,
            summary: format!("about {id}"),
            detail: Some(serde_json::json!({ "why": id })),
            files_changed: vec![format!("src/{id}")],
        }
    }

    fn kept(w: &World, id: &str) -> Checkpoint {
        match w.rows().get(&Key::Checkpoint(id.to_owned())) {
            Some(Row::Checkpoint(checkpoint)) => checkpoint.clone(),
            other => panic!("{id}: {other:?}"),
        }
    }

    #[test]
    fn they_are_counted_for_each_task_and_the_files_are_gathered() {
        let mut w = World::of(&["lead", "a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        w.does(&by("a"), note("cp_x", CheckpointKind::Plan));
        w.does(&by("a"), note("cp_y", CheckpointKind::Decision));
        assert_eq!((kept(&w, "cp_x").sequence, kept(&w, "cp_y").sequence), (1, 2));
        w.goes_offline("a");
        assert_eq!(kept(&w, "cp_t_3").sequence, 3, "what we add ourselves is counted, too");
        let files: Vec<_> = w.task("t").files_changed.iter().cloned().collect();
        assert_eq!(files, ["src/cp_x", "src/cp_y"]);
    }

    #[test]
    fn the_holder_tells_and_afterwards_who_worked() {
        let mut w = World::of(&["lead", "a", "b"]);
        w.creates("t", &[]);
        assert_eq!(w.refuses(&by("a"), note("cp_0", CheckpointKind::Progress)), Code::NotClaimed);
        w.does(&anna(), note("cp_1", CheckpointKind::Decision));
        w.starts("a", "t");
        assert_eq!(w.refuses(&by("b"), note("cp_2", CheckpointKind::Progress)), Code::NotHolder);
        for (at, caller) in [by("a"), by("lead"), anna(), Caller::anonymous()].into_iter().enumerate() {
            w.does(&caller, note(&format!("cp_held_{at}"), CheckpointKind::Progress));
        }
        let stale = Caller { fence: Some(Seq(1)), ..by("a") };
        assert_eq!(w.refuses(&stale, note("cp_3", CheckpointKind::Progress)), Code::StaleFence);
        w.does(&by("a"), complete("t"));
        w.does(&by("a"), note("cp_4", CheckpointKind::Complete));
        assert_eq!(w.refuses(&by("b"), note("cp_5", CheckpointKind::Complete)), Code::NotHolder);
    }

    #[test]
    fn nobody_tells_for_a_sealed_agent_what_it_has_done() {
        let mut w = World::of(&["lead", "open"]);
        w.does(&with_token("a"), register("a", AgentRole::Worker));
        w.creates("t", &[]);
        w.does(&with_token("a"), crate::testing::start(Some("a"), "t"));
        w.does(&with_token("a"), complete("t"));
        assert_eq!(w.refuses(&Caller::anonymous(), note("cp_1", CheckpointKind::Decision)), Code::CredentialRequired);
        w.does(&with_token("a"), note("cp_2", CheckpointKind::Decision));
        w.creates("u", &[]);
        w.starts("open", "u");
        w.does(&by("open"), complete("u"));
        w.does(&Caller::anonymous(), AddCheckpoint { task: "u".into(), ..note("cp_3", CheckpointKind::Decision) });
    }

    #[test]
    fn sizes_are_limited_and_ids_are_taken_once() {
        let mut w = World::of(&["a"]);
        w.creates("t", &[]);
        w.starts("a", "t");
        let note = |id: &str| note(id, CheckpointKind::Progress);
        w.does(&by("a"), note("cp_1"));
        assert_eq!(w.refuses(&by("a"), note("cp_1")), Code::AlreadyExists);
        assert_eq!(w.refuses(&by("a"), AddCheckpoint { task: "u".into(), ..note("cp_2") }), Code::TaskNotFound);
        assert_eq!(w.refuses(&by("a"), AddCheckpoint { summary: " ".to_owned(), ..note("cp_2") }), Code::Invalid);
        let summary = "x".repeat(limit::SUMMARY_BYTES + 1);
        assert_eq!(w.refuses(&by("a"), AddCheckpoint { summary, ..note("cp_2") }), Code::TooLarge);
        let detail = Some(Value::String("x".repeat(limit::METADATA_BYTES)));
        assert_eq!(w.refuses(&by("a"), AddCheckpoint { detail, ..note("cp_2") }), Code::TooLarge);
        let files_changed = vec![String::new(); limit::LIST_ENTRIES + 1];
        assert_eq!(w.refuses(&by("a"), AddCheckpoint { files_changed, ..note("cp_2") }), Code::TooLarge);
    }
}
