//! Runs as trees: what each task came to, who worked on it and how long it took.
//!
//! Everything is read from rows and the log at one position and by index, and nothing from the clock: the same log gives
//! the same tree, wherever and whenever it is read.

use std::collections::BTreeMap;

use rookery_core::model::Table;
use rookery_core::model::run::{Run, RunStatus};
use rookery_core::model::task::Task;
use rookery_core::{Code, Rejection, RunId, Seq, TaskId, Timestamp};
use rookery_store::query::{ColumnTest, Order};
use rookery_store::{LogQuery, RowQuery};

use super::attempts::{self, TaskAttempt};
use crate::error::EngineError;
use crate::query::At;
use crate::runs::{RunsHandle, default_run, run_query, runs_of, tasks_of, tasks_query};

/// More tasks of the default run than these are not counted.
const COUNTED: u32 = 1_000;
/// How many messages of a task are counted.
pub const MESSAGES: u32 = 1_000;
/// How deep a tree is shown: readers of JSON give up where it nests too deep.
const DEPTH: usize = 32;
/// How many runs are read at once when those without tasks are passed over, and how many at most.
const READ: u32 = 200;
const READS: usize = 20;

/// A run as lists show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunEntry {
    pub id: RunId,
    pub title: String,
    pub status: RunStatus,
    /// How many tasks it has, and how many of them are left to do; `None` where there are too many to count.
    pub tasks: Option<(u32, u32)>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunList {
    pub runs: Vec<RunEntry>,
    /// Where the next page begins, if there may be one.
    pub next: Option<Seq>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct RunTree {
    pub run: RunEntry,
    /// The tasks that have no parent here, with those below them.
    pub roots: Vec<TaskNode>,
    /// Where the tasks go on that were left out.
    pub next: Option<Seq>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TaskNode {
    pub task: Task,
    pub parent: Option<TaskId>,
    pub attempts: Vec<TaskAttempt>,
    /// How many messages are about it, up to [`MESSAGES`].
    pub messages: u32,
    pub children: Vec<TaskNode>,
}

impl TaskNode {
    /// From its creation until somebody took it up, or until it ended without that; none while it waits.
    pub fn queued_millis(&self) -> Option<i64> {
        let first = self.attempts.iter().find(|attempt| attempt.is_work());
        let until = first.map(|first| first.started_at).or(self.task.completed_at)?;
        Some((until.0 - self.task.created_at.0).max(0))
    }

    /// How long the attempts took that have ended.
    pub fn working_millis(&self) -> i64 {
        self.attempts.iter().filter(|attempt| attempt.is_work()).filter_map(TaskAttempt::millis).sum()
    }
}

impl RunEntry {
    fn of(run: Run, tasks: Option<(u32, u32)>) -> RunEntry {
        RunEntry {
            id: run.id,
            title: run.brief.title,
            status: run.status,
            tasks,
            created_at: run.created_at,
            updated_at: run.updated_at,
        }
    }

    fn counted(run: Run) -> RunEntry {
        let tasks = Some((run.tasks, run.unfinished));
        RunEntry::of(run, tasks)
    }

    /// The default run, of as many of its tasks as were read.
    fn of_default(tasks: &[Task]) -> RunEntry {
        let run = default_run(tasks);
        let counted = (tasks.len() <= COUNTED as usize).then_some((run.tasks, run.unfinished));
        RunEntry::of(run, counted)
    }
}

impl RunsHandle<'_> {
    /// Runs that have tasks, newest first, beginning before a place. The project's default run is the oldest of all.
    pub async fn list(&self, before: Option<Seq>, limit: u32) -> Result<At<RunList>, EngineError> {
        let limit = limit as usize;
        let mut before = before.unwrap_or(Seq(u64::MAX));
        let mut runs: Vec<(Seq, RunEntry)> = Vec::new();
        for _ in 0..READS {
            let queries = vec![runs_query(before), tasks_query(&RunId::project_default()).at_most(Some(COUNTED + 1))];
            let (lists, head) = self.engine.store().lists(queries).await?;
            let mut lists = lists.into_iter();
            let read = runs_of(lists.next().unwrap_or_default());
            let ended = read.len() < READ as usize;
            before = read.last().map_or(before, |run| run.created);
            runs.extend(read.into_iter().filter(|run| run.tasks > 0).map(|run| (run.created, RunEntry::counted(run))));
            let of_default = tasks_of(lists.next().unwrap_or_default());
            if ended && !of_default.is_empty() && before > Seq::ZERO {
                runs.push((Seq::ZERO, RunEntry::of_default(&of_default)));
            }
            let next = if runs.len() > limit {
                runs.truncate(limit);
                runs.last().map(|(created, _)| *created)
            } else if ended {
                None
            } else {
                continue;
            };
            return Ok(At { value: RunList { runs: runs.into_iter().map(|(_, run)| run).collect(), next }, head });
        }
        // So many runs without a task: whoever wants to go on can.
        let head = self.engine.query().tallies().await?.head;
        let runs = runs.into_iter().map(|(_, run)| run).collect();
        Ok(At { value: RunList { runs, next: Some(before) }, head })
    }

    /// A run and so many of its tasks, beginning after the one that was created at a place.
    pub async fn tree(&self, id: &RunId, after: Seq, limit: u32) -> Result<At<RunTree>, EngineError> {
        let is_default = *id == RunId::project_default();
        let page =
            tasks_query(id).with("created", ColumnTest::Above(stored(after))).at_most(Some(limit.saturating_add(1)));
        let counted =
            if is_default { tasks_query(id).at_most(Some(COUNTED + 1)) } else { page.clone().at_most(Some(0)) };
        let (lists, head) = self.engine.store().lists(vec![run_query(id), page, counted]).await?;
        let mut lists = lists.into_iter();
        let run = runs_of(lists.next().unwrap_or_default()).pop().map(RunEntry::counted);
        let mut tasks = tasks_of(lists.next().unwrap_or_default());
        let of_default = tasks_of(lists.next().unwrap_or_default());
        let run = match run {
            Some(run) => run,
            None if !of_default.is_empty() => RunEntry::of_default(&of_default),
            None => return Err(unknown_run().into()),
        };
        let next = (tasks.len() > limit as usize).then(|| tasks.truncate(limit as usize));
        let next = next.and_then(|()| tasks.last().map(|task| task.created));
        let mut nodes = Vec::new();
        for task in tasks {
            nodes.push(self.task_node(task, head.head).await?);
        }
        Ok(At { value: RunTree { run, roots: nest(nodes), next }, head })
    }

    /// Whether a run is known: one with a row, or the default one.
    pub async fn ensure_exists(&self, id: &RunId) -> Result<(), EngineError> {
        let known = *id == RunId::project_default() || !self.engine.store().list(run_query(id)).await?.0.is_empty();
        if known { Ok(()) } else { Err(unknown_run().into()) }
    }

    /// A task with what the log has about it.
    pub(crate) async fn task_node(&self, task: Task, upto: Seq) -> Result<TaskNode, EngineError> {
        let about =
            LogQuery { upto: Some(upto), task: Some(task.id.to_string()), ..LogQuery::after(Seq::ZERO, MESSAGES) };
        let rows = self.engine.query().log(about.clone()).await?.value;
        let messages = u32::try_from(rows.len()).unwrap_or(MESSAGES);
        let attempts = if messages < MESSAGES {
            attempts::of(&rows)
        } else {
            // Much was said about it. What attempts are read from is little.
            let kinds = attempts::KINDS.iter().map(|kind| (*kind).to_owned()).collect();
            attempts::of(&self.engine.query().log(LogQuery { kinds: Some(kinds), ..about }).await?.value)
        };
        let parent = task.origin.parent.clone();
        Ok(TaskNode { task, parent, attempts, messages, children: vec![] })
    }
}

fn stored(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

fn runs_query(before: Seq) -> RowQuery {
    let newest = RowQuery { order: Order::Descending, ..RowQuery::all(Table::Runs).ordered_by("created") };
    newest.with("created", ColumnTest::AtMost(stored(Seq(before.0.saturating_sub(1))))).at_most(Some(READ))
}

fn unknown_run() -> Rejection {
    Rejection::new(Code::WorkflowNotFound, "Run not found").hint("list the runs to see their ids")
}

/// Puts each task under its parent, which was there before it. One whose parent is not among these, or stands too deep,
/// is a root of its own and still tells its parent.
fn nest(mut nodes: Vec<TaskNode>) -> Vec<TaskNode> {
    nodes.sort_by_key(|node| node.task.created);
    let mut depths: BTreeMap<TaskId, usize> = BTreeMap::new();
    let mut below: BTreeMap<Option<TaskId>, Vec<TaskNode>> = BTreeMap::new();
    for node in nodes {
        let parent = node.parent.clone().filter(|parent| depths.get(parent).is_some_and(|depth| depth + 1 < DEPTH));
        let depth = parent.as_ref().and_then(|parent| depths.get(parent)).map_or(0, |depth| depth + 1);
        depths.insert(node.task.id.clone(), depth);
        below.entry(parent).or_default().push(node);
    }
    gather(None, &mut below)
}

fn gather(parent: Option<TaskId>, below: &mut BTreeMap<Option<TaskId>, Vec<TaskNode>>) -> Vec<TaskNode> {
    let mut nodes = below.remove(&parent).unwrap_or_default();
    nodes.sort_by_key(|node| (node.task.sequence, node.task.created));
    for node in &mut nodes {
        node.children = gather(Some(node.task.id.clone()), below);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use rookery_core::tasks::TaskCreated;
    use rookery_core::{AnyEvent, EventStamp, apply_row};

    use super::*;

    fn node(id: &str, created: u64, parent: Option<&str>) -> TaskNode {
        let fact = TaskCreated {
            task: id.into(),
            run: "run_x".into(),
            title: id.to_owned(),
            description: String::new(),
            assigned_by: "ken".to_owned(),
            resources: vec![],
            depends_on: vec![],
            waiting_on: vec![],
            sequence: 0,
            context_from: vec![],
            details: rookery_core::model::task::Details::default(),
            origin: rookery_core::model::task::TaskOrigin::default(),
        };
        let key = rookery_core::Key::Task(id.into());
        let row = apply_row(None, &key, &AnyEvent::new(fact), EventStamp { seq: Seq(created), at: Timestamp(0) });
        let Some(rookery_core::Row::Task(task)) = row else { panic!("{id} was not created") };
        TaskNode { task, parent: parent.map(Into::into), attempts: vec![], messages: 0, children: vec![] }
    }

    fn drawn(nodes: &[TaskNode]) -> String {
        let parts: Vec<String> = nodes
            .iter()
            .map(|node| match node.children.is_empty() {
                true => node.task.id.to_string(),
                false => format!("{}({})", node.task.id, drawn(&node.children)),
            })
            .collect();
        parts.join(" ")
    }

    #[test]
    fn children_stand_below_their_parents() {
        let nodes = vec![
            node("d", 4, Some("b")),
            node("a", 1, None),
            node("c", 3, Some("a")),
            node("b", 2, Some("a")),
            node("e", 5, Some("elsewhere")),
        ];
        assert_eq!(drawn(&nest(nodes)), "a(b(d) c) e");
    }

    #[test]
    fn no_circle_and_no_depth_makes_a_task_vanish() {
        let circle = vec![node("a", 1, Some("b")), node("b", 2, Some("a")), node("c", 3, Some("c"))];
        assert_eq!(drawn(&nest(circle)), "a(b) c");
        let ids: Vec<String> = (0..=DEPTH).map(|at| format!("t{at}")).collect();
        let deep = ids.iter().enumerate();
        let deep = deep.map(|(at, id)| node(id, at as u64 + 1, at.checked_sub(1).map(|at| ids[at].as_str())));
        let roots = nest(deep.collect());
        assert_eq!((roots.len(), roots[1].task.id.as_str()), (2, format!("t{DEPTH}").as_str()));
        assert_eq!(roots[1].parent, Some(format!("t{}", DEPTH - 1).as_str().into()));
    }
}
