//! The long log. The real store makes it once, and it is kept because that takes long.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use futures_util::future::join_all;
use rookery_core::model::task::Outcome;
use rookery_core::tasks::{ClaimTask, CompleteTask, CreateTask, HeldByOther, Required, StartTask};
use rookery_core::{AgentId, AnyCommand, Caller, RunId, TaskId, ThreadId};
use rookery_store::sqlite::SqliteStore;
use rookery_store::{Store, Submission};

use crate::{Plan, say, work};

/// The version of the log's content. A new version replaces a kept log.
const CONTENT_VERSION: &str = "3";
const AGENTS: u64 = 200;
const RUNS: u64 = 1_000;
const THREADS: u64 = 5_000;
const CONCURRENT_TASKS: u64 = 512;
/// The events created, claimed, started and completed.
const EVENTS_OF_A_TASK: u64 = 4;

/// A project with a long log.
#[derive(Debug)]
pub(crate) struct LongLog {
    pub(crate) root: PathBuf,
    tasks: u64,
}

impl LongLog {
    pub(crate) async fn get(plan: &Plan) -> anyhow::Result<LongLog> {
        let root = plan.folder.join(format!("log-{}", plan.events));
        let log = LongLog { root, tasks: plan.events / EVENTS_OF_A_TASK };
        make_or_reuse(&log.root, CONTENT_VERSION, format_args!("{} events", plan.events), async || {
            let store = work::open(&log.database())?;
            work::announce(&store, AGENTS as usize).await?;
            log.fill(&store).await?;
            store.close().await;
            Ok(())
        })
        .await?;
        Ok(log)
    }

    pub(crate) fn database(&self) -> PathBuf {
        database(&self.root)
    }

    async fn fill(&self, store: &SqliteStore) -> anyhow::Result<()> {
        let next = AtomicU64::new(0);
        let workers = (0..CONCURRENT_TASKS).map(|_| async {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= self.tasks {
                    return anyhow::Ok(());
                }
                if at.is_multiple_of(self.tasks / 10) {
                    say::note(format_args!("{} %", 100 * at / self.tasks));
                }
                run_task(store, at).await?;
            }
        });
        join_all(workers).await.into_iter().collect::<anyhow::Result<()>>()
    }

    /// Picks a run, thread, agent and task of the log for each number.
    pub(crate) fn pick(&self, at: u64) -> Pick {
        let at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        Pick {
            run: run(at).to_string(),
            thread: thread(at).to_string(),
            agent: agent(at).to_string(),
            task: task(at % self.tasks),
        }
    }
}

/// Makes a project, unless one of the same version was kept.
pub(crate) async fn make_or_reuse(
    root: &Path,
    way: &str,
    what: impl Display,
    make: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let made = root.join("made");
    if std::fs::read_to_string(&made).is_ok_and(|text| text == way) {
        return Ok(());
    }
    say::note(format_args!("making a log of {what}; it is kept for the next run"));
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    std::fs::create_dir_all(root.join(".rookery"))?;
    make().await?;
    Ok(std::fs::write(made, way)?)
}

/// The path of a project's store.
pub(crate) fn database(root: &Path) -> PathBuf {
    root.join(".rookery/rookery.db")
}

#[derive(Debug)]
pub(crate) struct Pick {
    pub(crate) run: String,
    pub(crate) thread: String,
    pub(crate) agent: String,
    pub(crate) task: TaskId,
}

fn run(at: u64) -> RunId {
    RunId::new(format!("run_{}", at % RUNS))
}

fn thread(at: u64) -> ThreadId {
    ThreadId::new(format!("thr_{}", at % THREADS))
}

fn agent(at: u64) -> AgentId {
    AgentId::new(work::agent((at % AGENTS) as usize))
}

/// A task id as long as a real one, in ascending order, computed from its number.
fn task(at: u64) -> TaskId {
    TaskId::new(format!("task_{at:09}{:012x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16))
}

/// Takes one task from its creation to its completion.
async fn run_task(store: &SqliteStore, at: u64) -> anyhow::Result<()> {
    let (id, agent) = (task(at), agent(at));
    let caller = Caller::asserted(agent.clone());
    let create = CreateTask {
        id: id.clone(),
        run: run(at),
        title: format!("Task {at}"),
        description: "Something that somebody wants to have done, in about as many words as people use.".repeat(3),
        assigned_by: agent.to_string(),
        assigned_to: None,
        resources: vec!["src/lib.rs".to_owned()],
        depends_on: vec![],
    };
    let outcome = Outcome { text: Some("done".to_owned()), detail: None };
    let steps: [AnyCommand; 4] = [
        create.into(),
        ClaimTask { task: id.clone(), agent: agent.clone() }.into(),
        StartTask { task: id.clone(), agent: Some(agent.clone()), held_by_other: HeldByOther::KeepHolder }.into(),
        CompleteTask { task: id, agent: Some(agent), outcome, outcome_required: Required::No, contract: None }.into(),
    ];
    for command in steps {
        let submission =
            Submission { run: Some(run(at)), thread: Some(thread(at)), ..Submission::new(caller.clone(), command) };
        store.submit(submission).await.context("the log could not be made")?;
    }
    Ok(())
}
