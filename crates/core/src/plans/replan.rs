//! A new plan for what has not begun. What has begun, ended or is claimed stays as it is, and where it waited for
//! something that goes, it waits for what that waited for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::add_task::has_a_plan;
use super::remove_task::{Going, is_removable, removal_asks, removed, without};
use super::set::last;
use super::{PlannedTask, check_summary, planned, resolve};
use crate::kernel::code::Code;
use crate::kernel::id::{RunId, TaskId, Timestamp};
use crate::kernel::limit;
use crate::model::run::{Run, author, change_run, run_only, steering_asks};
use crate::model::task::Task;
use crate::model::{EventStamp, Key, Lookup, ReadSet, RowWriter, Undecided};
use crate::runs::{ends_with, reopens};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, Event, FirstSeq, ReplySource, Subject};

/// How many earlier plans are remembered in the run's `replan_history`; the log has them all.
const HISTORY: usize = 20;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReplanRun {
    pub run: RunId,
    pub summary: String,
    pub reason: String,
    pub tasks: Vec<PlannedTask>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunReplanned {
    pub run: RunId,
    pub summary: String,
    pub reason: String,
    /// The run's whole configuration, with this plan in its history.
    pub config: Map<String, Value>,
    pub added: Vec<TaskId>,
    pub removed: Vec<TaskId>,
    pub preserved: Vec<TaskId>,
}

impl Event for RunReplanned {
    const KIND: &'static str = "run.replanned";

    fn subject(&self) -> Subject<'_> {
        Subject { run: Some(&self.run), ..Subject::default() }
    }

    fn write_set(&self) -> Vec<Key> {
        run_only(&self.run)
    }

    fn apply(&self, rows: &mut RowWriter<'_>, stamp: EventStamp) {
        change_run(rows, &self.run, stamp.at, |run| {
            run.summary = Some(self.summary.clone());
            run.brief.config.clone_from(&self.config);
        });
    }
}

impl Command for ReplanRun {
    const NAME: &'static str = "ReplanRun";

    type Reply = FirstSeq;

    fn read_set(&self) -> ReadSet {
        let mut read_set: ReadSet = steering_asks(&self.run);
        read_set.push(Lookup::tasks_of_run(&self.run).into());
        read_set.extend(self.tasks.iter().take(limit::RUN_TASKS).map(|task| Key::Task(task.id.clone()).into()));
        read_set
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<FirstSeq>, Undecided> {
        let run = cx.view.run_known(&self.run)?;
        cx.view.may_overturn(cx.caller, run)?;
        has_a_plan(run)?;
        check_summary(&self.summary)?;
        limit::text("reason", &self.reason, limit::TITLE_BYTES)?;
        let tasks = cx.view.tasks_of_run(&self.run)?;
        let (goes, stays): (Vec<&Task>, Vec<&Task>) = tasks.iter().partition(|task| is_removable(task));
        let resolved = resolve(&stays, &self.tasks, Code::NameConflict)?;
        let config = self.config(run, cx.now);
        limit::json("config", &config, limit::METADATA_BYTES)?;
        cx.view.ensure_loaded(goes.iter().flat_map(|task| removal_asks(&task.id)).collect())?;
        let ids = |tasks: &[&Task]| tasks.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
        let mut facts = vec![AnyEvent::new(RunReplanned {
            run: self.run.clone(),
            summary: self.summary.clone(),
            reason: self.reason.clone(),
            config,
            added: self.tasks.iter().map(|task| task.id.clone()).collect(),
            removed: ids(&goes),
            preserved: ids(&stays),
        })];
        let going: Going<'_> = goes.iter().map(|task| (&task.id, *task)).collect();
        for task in &goes {
            facts.extend(removed(cx.view, task, &going, &tasks)?);
        }
        facts.extend(planned(cx.view, &self.run, &author(cx.caller), last(&stays), resolved)?);
        facts.extend(self.outcome(run, &goes));
        Ok(Decision::new(facts, ReplySource::first_seq()))
    }
}

impl ReplanRun {
    /// A run that has work again is open again; one that has none left is completed.
    fn outcome(&self, run: &Run, goes: &[&Task]) -> Option<AnyEvent> {
        if self.tasks.is_empty() { ends_with(&without(run, goes.len())) } else { reopens(run) }
    }

    fn config(&self, run: &Run, now: Timestamp) -> Map<String, Value> {
        let mut config = run.brief.config.clone();
        let mut history = match config.remove("replan_history") {
            Some(Value::Array(history)) => history,
            _ => vec![],
        };
        history.push(json!({ "summary": self.summary, "reason": self.reason, "timestamp": now }));
        history.drain(..history.len().saturating_sub(HISTORY));
        config.insert("replan_history".to_owned(), Value::Array(history));
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DependencyId;
    use crate::model::run::RunStatus;
    use crate::registry::EventRef;
    use crate::testing::{World, by, complete, create_run, plan};
    use crate::traits::AnyReplySource;

    fn replan(tasks: &[(&str, &[&str])]) -> ReplanRun {
        let plan = plan("wf", tasks);
        ReplanRun { run: plan.run, summary: "another".to_owned(), reason: "we know more".to_owned(), tasks: plan.tasks }
    }

    #[test]
    fn what_has_begun_stays_and_the_rest_is_replaced() {
        let mut w = World::of(&["a"]);
        w.plans(
            "wf",
            &[
                ("done", &[]),
                ("doing", &["done"]),
                ("claimed", &["later"]),
                ("later", &["doing"]),
                ("last", &["later"]),
            ],
        );
        w.starts("a", "tk_done");
        w.does(&by("a"), complete("tk_done"));
        w.starts("a", "tk_doing");
        w.claims("a", "tk_claimed");
        let (facts, reply) = w.run(&by("a"), replan(&[("new", &["doing", "done"]), ("newer", &["new"])])).unwrap();
        assert_eq!(reply, AnyReplySource::FirstSeq);
        match facts[0].typed() {
            EventRef::RunReplanned(fact) => {
                assert_eq!(fact.removed, ["tk_later".into(), "tk_last".into()]);
                assert_eq!(fact.preserved, ["tk_done".into(), "tk_doing".into(), "tk_claimed".into()]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(w.task("tk_claimed").depends_on, ["tk_doing".into()], "what went waited for it");
        assert_eq!((w.task("tk_new").sequence, w.task("tk_new").waiting_on.len()), (4, 1));
        let run = w.run_row("wf");
        assert_eq!((run.tasks, run.unfinished, run.summary.as_deref()), (5, 4, Some("another")));
        assert_eq!(run.brief.config["replan_history"][0]["reason"], "we know more");
        assert_eq!(w.rebuilt(), *w.rows());
    }

    #[test]
    fn what_stays_waits_for_what_the_removed_waited_for_however_many_those_are() {
        let mut w = World::of(&["a"]);
        w.plans(
            "wf",
            &[
                ("done", &[]),
                ("open", &[]),
                ("first", &["done", "open"]),
                ("second", &["first"]),
                ("other", &["done"]),
                ("claimed", &["second", "other"]),
            ],
        );
        w.starts("a", "tk_done");
        w.does(&by("a"), complete("tk_done"));
        w.claims("a", "tk_open");
        w.claims("a", "tk_claimed");
        w.does(&by("a"), replan(&[("new", &["claimed"])]));
        let claimed = w.task("tk_claimed");
        assert_eq!(claimed.depends_on, ["tk_done".into(), "tk_open".into()]);
        assert_eq!(claimed.waiting_on.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["tk_open"]);
        let edges: Vec<String> =
            w.rows().keys().filter(|key| matches!(key, Key::Dependency(DependencyId { .. }))).map(Key::id).collect();
        assert_eq!(edges, ["tk_claimed>tk_done", "tk_claimed>tk_open", "tk_new>tk_claimed"]);
        assert_eq!(w.rebuilt(), *w.rows());
        w.starts("a", "tk_open");
        w.does(&by("a"), complete("tk_open"));
        assert!(!w.task("tk_claimed").is_blocked());
    }

    #[test]
    fn names_of_what_stays_are_taken_and_those_of_what_goes_are_not() {
        let mut w = World::of(&["a"]);
        w.plans("wf", &[("one", &[]), ("two", &[])]);
        w.claims("a", "tk_one");
        assert_eq!(w.refuses(&by("a"), replan(&[("one", &[])])), Code::NameConflict);
        assert_eq!(w.refuses(&by("a"), replan(&[("x", &["two"])])), Code::UnknownDependency, "it goes");
        assert_eq!(w.refuses(&by("a"), replan(&[("x", &["y"]), ("y", &["x"])])), Code::DependencyCycle);
        let mut again = replan(&[("two", &["one"])]);
        again.tasks[0].id = "tk_two_again".into();
        w.does(&by("a"), again);
        assert_eq!(w.task("tk_two_again").title, "two");
    }

    #[test]
    fn a_plan_that_leaves_nothing_to_do_completes_and_one_that_adds_opens_again() {
        let mut w = World::of(&["a"]);
        w.does(&by("a"), create_run("wf"));
        assert_eq!(w.refuses(&by("a"), replan(&[("one", &[])])), Code::InvalidState);
        w.does(&by("a"), plan("wf", &[("one", &[]), ("two", &[])]));
        w.starts("a", "tk_one");
        w.does(&by("a"), complete("tk_one"));
        w.does(&by("a"), replan(&[]));
        assert_eq!(w.run_row("wf").status, RunStatus::Completed);
        w.does(&by("a"), replan(&[("three", &[])]));
        assert_eq!(w.run_row("wf").status, RunStatus::InProgress);
    }
}
