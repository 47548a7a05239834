//! A daemon on a long log answers correctly.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use rookery_core::agents::RegisterAgent;
use rookery_core::files::Report;
use rookery_core::files::{ClaimFile, ClaimMode};
use rookery_core::model::agent::{AgentRole, Profile};
use rookery_core::model::file_path::{Case, FilePath};
use rookery_core::tasks::{ClaimTask, CreateTask};
use rookery_core::{Caller, LogId, NodeId, RunId, TaskId};
use rookery_engine::SystemClock;
use rookery_store::postgres::{self, Birth, PostgresStore};
use rookery_store::queue::Limits;
use rookery_store::sqlite::{self, SqliteStore};
use rookery_store::{PresenceBoard, Store, Submission};
use rookery_testkit::daemon::Engine;
use rookery_testkit::postgres::Schema;
use serde_json::Value;

use crate::store_checks::{seq_of, verify};
use crate::wire::{Follower, create_task, position, within};

const AGENTS: usize = 20;
const TASKS: usize = 4_000;
const CLAIMED: usize = 2_000;
const FILES: usize = 1_000;
const REPORTS: usize = 13_000;
/// One event more than requests: the first agent becomes the lead.
const EVENTS: usize = AGENTS + 1 + TASKS + CLAIMED + FILES + REPORTS;
const BATCH_SIZE: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_of_twenty_thousand_events_is_served() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let schema = (Engine::from_env()? == Engine::Postgres).then(Schema::new).transpose()?;
    fill(&*open(folder.path(), schema.as_ref()).await?).await?;
    let setup = schema.iter().fold(crate::daemon(), |setup, schema| setup.store(schema.url()));
    let mut daemon = setup.start_at(folder.path())?;

    let status = daemon.get("/status").await?;
    ensure!(position(&status)? == EVENTS as u64 && status.body["event_count"] == EVENTS, "{status:?}");
    ensure!(status.body["agents"]["total"] == AGENTS && status.body["tasks"]["total"] == TASKS, "{status:?}");
    ensure!(status.body["resources"]["claimed"] == FILES, "{status:?}");

    let events = async |query: &str| -> anyhow::Result<Vec<Value>> {
        let reply = daemon.get(&format!("/events?{query}")).await?;
        ensure!(reply.status.is_success(), "{query}: {reply:?}");
        Ok(reply.body.as_array().context("no list")?.clone())
    };
    let newest = events("limit=100").await?;
    let seqs = newest.iter().map(seq_of).collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(seqs == (1..=EVENTS as u64).rev().take(100).collect::<Vec<_>>(), "{seqs:?}");
    let onward = events(&format!("after={}&limit=1000", EVENTS / 2)).await?;
    ensure!(onward.len() == 1_000 && seq_of(&onward[0])? == EVENTS as u64 / 2 + 1);

    for (query, wanted) in [
        ("action=agent.joined&limit=1000", AGENTS),
        ("action=task.assigned&agent_id=agent-3&limit=1000", CLAIMED / AGENTS),
        ("action=x.rare&limit=1000", REPORTS / 1_000),
        ("resource=src/77.rs&limit=1000", 1),
        ("task_id=task_77&limit=1000", 2),
        ("agent_id=unknown-agent", 0),
    ] {
        let found = events(query).await?;
        ensure!(found.len() == wanted, "{query} finds {} events, not {wanted}", found.len());
    }
    let assigned = daemon.get("/tasks?assigned_to=agent-3").await?.body;
    ensure!(assigned.as_array().map(Vec::len) == Some(CLAIMED / AGENTS));
    let page = daemon.get("/tasks?status=queued&limit=10").await?.body;
    ensure!(page.as_array().map(Vec::len) == Some(10), "{page}");

    // The log keeps growing, and a reader can resume from any position.
    ensure!(create_task(&daemon, "one more").await?.status.as_u16() == 201);
    let mut follower = Follower::open(daemon.url(), "", Some("15000")).await?;
    for seq in 15_001..=EVENTS as u64 + 1 {
        let sent = within("the next event", follower.next()).await??.context("the stream ended")?;
        ensure!(sent.seq == seq, "got {}, expected {seq}", sent.seq);
    }
    daemon.kill()?;
    verify(&daemon).await
}

/// Opens the store that the daemon will use.
async fn open(root: &Path, schema: Option<&Schema>) -> anyhow::Result<Box<dyn Store>> {
    let (board, clock) = (Arc::new(PresenceBoard::default()), Arc::new(SystemClock::default()));
    let log_id = LogId::from("log_large");
    let Some(schema) = schema else {
        let options = sqlite::Options::new(root.join(".rookery/rookery.db"), log_id, clock, board);
        return Ok(Box::new(SqliteStore::open(options)?));
    };
    let options = postgres::Options {
        address: schema.url().parse()?,
        clock,
        board,
        limits: Limits::default(),
        birth: Birth { log_id, project_id: "large".to_owned(), project: "large".to_owned() },
        node: NodeId::from("filler"),
        connections: 1,
    };
    Ok(Box::new(PostgresStore::open(options).await?))
}

/// Writes the log directly to the store, without a daemon.
async fn fill(store: &dyn Store) -> anyhow::Result<()> {
    submit(store, (0..AGENTS).map(join)).await?;
    submit(store, (0..TASKS).map(create)).await?;
    submit(store, (0..CLAIMED).map(claim)).await?;
    let files = (0..FILES).map(claim_file).collect::<anyhow::Result<Vec<_>>>()?;
    submit(store, files.into_iter()).await?;
    submit(store, (0..REPORTS).map(report)).await?;
    store.close().await;
    Ok(())
}

async fn submit(store: &dyn Store, mut submissions: impl Iterator<Item = Submission>) -> anyhow::Result<()> {
    loop {
        let waiting: Vec<_> =
            submissions.by_ref().take(BATCH_SIZE).map(|submission| store.submit(submission)).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        for outcome in waiting {
            outcome.await?;
        }
    }
}

fn agent(number: usize) -> String {
    format!("agent-{}", number % AGENTS)
}

fn join(number: usize) -> Submission {
    let profile = Profile {
        tool: "test".to_owned(),
        role: AgentRole::Worker,
        capabilities: vec![],
        name: None,
        workspace_path: None,
        metadata: Default::default(),
        card: None,
        role_name: None,
        session_id: None,
    };
    let id = agent(number);
    Submission::new(Caller::asserted(id.as_str()), RegisterAgent::with_profile(id.as_str().into(), profile))
}

fn create(number: usize) -> Submission {
    let command = CreateTask {
        id: TaskId::from(format!("task_{number}").as_str()),
        run: RunId::project_default(),
        title: format!("task {number}"),
        description: String::new(),
        assigned_by: "anna".to_owned(),
        assigned_to: None,
        resources: vec![],
        depends_on: vec![],
    };
    Submission::new(Caller::anonymous(), command)
}

fn claim(number: usize) -> Submission {
    let (task, id) = (format!("task_{number}"), agent(number));
    Submission::new(Caller::asserted(id.as_str()), ClaimTask { task: task.as_str().into(), agent: id.as_str().into() })
}

fn claim_file(number: usize) -> anyhow::Result<Submission> {
    let id = agent(number);
    let path = FilePath::parse(&format!("src/{number}.rs"), Case::Kept).ok().context("no path")?;
    let command = ClaimFile {
        path,
        agent: id.as_str().into(),
        task: None,
        hash: String::new(),
        site: None,
        insist: ClaimMode::Request,
    };
    Ok(Submission::new(Caller::asserted(id.as_str()), command))
}

fn report(number: usize) -> Submission {
    let id = agent(number);
    let action = if number.is_multiple_of(1_000) { "x.rare" } else { "x.tick" };
    let command = Report {
        agent: id.as_str().into(),
        action: action.to_owned(),
        resource: None,
        task: None,
        before_hash: None,
        after_hash: None,
        metadata: Default::default(),
    };
    Submission::new(Caller::asserted(id.as_str()), command)
}
