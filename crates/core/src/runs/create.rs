//! Opening a run: it has a purpose, and no plan yet.

use serde::{Deserialize, Serialize};

use crate::kernel::caller::Caller;
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, Seq, Timestamp};
use crate::kernel::limit;
use crate::kernel::rejection::Rejection;
use crate::model::run::{Run, RunSpec, RunStatus, author, row_id, run_only};
use crate::model::{EventStamp, Key, ReadSet, RowWriter, Undecided, View};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, ReplySource, Subject};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CreateRun {
    pub id: RunId,
    pub brief: RunSpec,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunCreated {
    pub run: RunId,
    #[serde(flatten)]
    pub brief: RunSpec,
    pub created_by: String,
}

impl Command for CreateRun {
    const NAME: &'static str = "CreateRun";

    type Reply = Run;

    fn read_set(&self) -> ReadSet {
        vec![Key::Run(self.id.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<Run>, Undecided> {
        let created = self.created(cx.view, cx.caller)?;
        Ok(Decision::new(vec![created], ReplySource::row(self.id.clone())))
    }
}

impl CreateRun {
    /// The fact that opens the run.
    pub(crate) fn created(&self, view: &View, caller: &Caller) -> Result<AnyEvent, Undecided> {
        self.brief.check()?;
        if self.id == RunId::project_default() || view.run(&self.id)?.is_some() {
            return Err(Rejection::new(Code::AlreadyExists, format!("workflow {} exists", self.id)).into());
        }
        Ok(AnyEvent::new(RunCreated { run: self.id.clone(), brief: self.brief.clone(), created_by: author(caller) }))
    }
}

impl RunSpec {
    fn check(&self) -> Result<(), Rejection> {
        if self.title.trim().is_empty() {
            return Err(Rejection::new(Code::Invalid, "name must not be empty"));
        }
        if self.max_parallel_tasks == 0 {
            return Err(Rejection::new(Code::Invalid, "max_parallel_tasks must be at least 1"));
        }
        limit::text("name", &self.title, limit::TITLE_BYTES)?;
        limit::text("source_ref", self.source_ref.as_deref().unwrap_or(""), limit::TITLE_BYTES)?;
        limit::text("source_content", &self.source_content, limit::TEXT_BYTES)?;
        limit::paths("repository_paths", &self.repository_paths)?;
        limit::json("config", &self.config, limit::METADATA_BYTES)
    }
}

impl RunCreated {
    pub(super) fn run(&self, seq: Seq, at: Timestamp) -> Run {
        Run {
            brief: self.brief.clone(),
            status: RunStatus::Planning,
            ..Run::implied(&self.run, &self.created_by, seq, at)
        }
    }
}

impl Event for RunCreated {
    const KIND: &'static str = "run.created";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.run), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        run_only(&self.run)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        if let Some(id) = row_id(Some(&self.run)) {
            rows.put(id, self.run(stamp.seq, stamp.at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, anna, brief, by, create_run};

    #[test]
    fn a_run_begins_with_planning_and_knows_who_opened_it() {
        let mut w = World::of(&["a"]);
        assert_eq!(w.does(&by("a"), create_run("wf_1")), ["run.created"]);
        let run = w.run_row("wf_1");
        assert_eq!((run.status, run.created_by.as_str(), run.tasks, run.unfinished), (RunStatus::Planning, "a", 0, 0));
        w.does(&Caller::anonymous(), create_run("wf_2"));
        assert_eq!(w.run_row("wf_2").created_by, "system");
        w.does(&anna(), create_run("wf_3"));
        assert_eq!(w.run_row("wf_3").created_by, "person:anna");
    }

    #[test]
    fn ids_are_taken_once_and_sizes_are_limited() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), create_run("wf_1"));
        assert_eq!(w.refuses(&by("a"), create_run("wf_1")), Code::AlreadyExists);
        assert_eq!(w.refuses(&by("a"), create_run("run_default")), Code::AlreadyExists);
        let with = |brief: RunSpec| CreateRun { id: "wf_2".into(), brief };
        assert_eq!(w.refuses(&by("a"), with(RunSpec { title: " ".to_owned(), ..brief("x") })), Code::Invalid);
        assert_eq!(w.refuses(&by("a"), with(RunSpec { max_parallel_tasks: 0, ..brief("x") })), Code::Invalid);
        let long = "x".repeat(limit::TEXT_BYTES + 1);
        assert_eq!(w.refuses(&by("a"), with(RunSpec { source_content: long, ..brief("x") })), Code::TooLarge);
    }
}
