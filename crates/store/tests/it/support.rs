//! Stores of every engine for tests, and short constructors for common commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rookery_core::agents::RegisterAgent;
use rookery_core::files::Report;
use rookery_core::files::{ClaimFile, ClaimMode};
use rookery_core::model::agent::{AgentRole, Profile};
use rookery_core::model::file_path::{Case, FilePath};
use rookery_core::model::run::{RunSpec, SourceType};
use rookery_core::model::task::Details;
use rookery_core::plans::{PlannedTask, SetRunPlan};
use rookery_core::runs::CreateRun;
use rookery_core::tasks::{ClaimTask, CreateTask};
use rookery_core::traits::{Body, BodyBytes, LogRow};
use rookery_core::{Caller, LogId, RunId, Seq, Table, TaskId, Timestamp};
use rookery_store::artifact::{ArtifactDir, sha256_hex};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::offline::{self, OfflineError, Progress, VerifyReport};
use rookery_store::postgres::{self, Birth, PostgresStore};
use rookery_store::query::Bodies;
use rookery_store::queue::Limits;
use rookery_store::replay::Fold;
use rookery_store::sqlite::offline::source;
use rookery_store::sqlite::{Options, SqliteStore, Upkeep};
use rookery_store::store::Health;
use rookery_store::{
    Clock, Committed, Idempotency, LogQuery, Node, PresenceBoard, RowQuery, Site, Store, Submission, SubmitError,
};
use rookery_testkit::postgres::Schema;

/// A clock that advances by a millisecond with every reading.
#[derive(Debug, Default)]
pub(crate) struct FakeClock {
    millis: AtomicI64,
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_000 + self.millis.fetch_add(1, Ordering::Relaxed))
    }

    fn monotonic(&self) -> u64 {
        self.millis.fetch_add(1, Ordering::Relaxed).unsigned_abs()
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) board: Arc<PresenceBoard>,
    /// The folder or schema of the store, removed with it.
    location: StoreLocation,
}

enum StoreLocation {
    Memory,
    Folder { _folder: tempfile::TempDir },
    Schema { _schema: Schema },
}

impl World {
    pub(crate) fn memory() -> World {
        let board = Arc::new(PresenceBoard::default());
        let database = Database::new(LogId::from("log_test"));
        let store = MemoryStore::new(database, Arc::new(FakeClock::default()), board.clone());
        World { store: Arc::new(store), board, location: StoreLocation::Memory }
    }

    pub(crate) fn sqlite() -> World {
        let folder = tempfile::tempdir().unwrap();
        let options = options(&folder.path().join("rookery.db"));
        let board = options.board.clone();
        World {
            store: Arc::new(SqliteStore::open(options).unwrap()),
            board,
            location: StoreLocation::Folder { _folder: folder },
        }
    }

    pub(crate) async fn postgres() -> World {
        let schema = Schema::new().unwrap();
        let options = postgres_options(&schema.url(), "node_a");
        let board = options.board.clone();
        let store = PostgresStore::open(options).await.unwrap();
        World { store: Arc::new(store), board, location: StoreLocation::Schema { _schema: schema } }
    }

    pub(crate) async fn end(self) {
        replay_matches(&*self.store).await;
        assert_eq!(self.store.health(), Health::Writable);
        self.store.close().await;
        drop(self.location);
    }
}

/// Options of one of several nodes that share a schema.
pub(crate) fn postgres_options(url: &str, node: &str) -> postgres::Options {
    postgres::Options {
        address: url.parse().unwrap(),
        clock: Arc::new(FakeClock::default()),
        board: Arc::new(PresenceBoard::default()),
        limits: Limits::default(),
        birth: Birth { log_id: "log_test".into(), project_id: "test-1".into(), project: "test".into() },
        node: node.into(),
        connections: 4,
    }
}

/// Options of a store that never checkpoints its write-ahead log and probes quickly.
pub(crate) fn options(path: &Path) -> Options {
    let clock = Arc::new(FakeClock::default());
    let mut options = Options::new(path, LogId::from("log_test"), clock, Arc::new(PresenceBoard::default()));
    options.project = "test".to_owned();
    let never = Duration::from_secs(3_600);
    options.upkeep = Upkeep {
        every: never,
        above_bytes: u64::MAX,
        bound_bytes: u64::MAX,
        idle: never,
        idle_after_redaction: never,
        probe: Duration::from_millis(5),
    };
    options
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(options(path)).unwrap()
}

pub(crate) fn database(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("rookery.db")
}

/// The artifact folder of a database.
pub(crate) fn artifacts_of(path: &Path) -> ArtifactDir {
    ArtifactDir::new(path.with_file_name("artifacts"))
}

pub(crate) fn verify(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<VerifyReport, OfflineError> {
    offline::verify(&mut source(path, artifacts_of(path))?, progress)
}

/// Asserts that rows and tallies are the fold of the log, and that the log has no gap.
pub(crate) async fn replay_matches(store: &dyn Store) {
    let log = whole_log(store).await;
    let mut fold = Fold::default();
    for (row, seq) in log.iter().zip(1..) {
        assert_eq!(row.seq, Seq(seq));
        fold.add(row);
    }
    let keys: Vec<_> = fold.rows().keys().cloned().collect();
    let (stored, head) = store.rows(keys.clone()).await.unwrap();
    assert_eq!(head.head, Seq(log.len() as u64));
    let stored = keys.into_iter().zip(stored).filter_map(|(key, row)| Some((key, row?))).collect();
    let (tallies, _) = store.tallies().await.unwrap();
    assert_eq!(fold.differences(&stored, &tallies), Vec::<String>::new());
    for table in Table::ALL {
        let (rows, _) = store.list(RowQuery::all(table)).await.unwrap();
        assert_eq!(rows.len(), fold.rows().keys().filter(|key| key.table() == table).count(), "{table:?}");
    }
}

pub(crate) async fn whole_log(store: &dyn Store) -> Vec<LogRow> {
    let mut log: Vec<LogRow> = Vec::new();
    loop {
        let after = log.last().map_or(Seq::ZERO, |row| row.seq);
        let query = LogQuery { bodies: Bodies::Read, ..LogQuery::after(after, 500) };
        let (rows, _) = store.log(query).await.unwrap();
        if rows.is_empty() {
            return log;
        }
        log.extend(rows);
    }
}

pub(crate) fn register_agent(id: &str) -> Submission {
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
    Submission::new(Caller::asserted(id), RegisterAgent::with_profile(id.into(), profile))
}

pub(crate) fn create_run(id: &str) -> Submission {
    let brief = RunSpec {
        title: format!("run {id}"),
        source_type: SourceType::Prompt,
        source_ref: None,
        source_content: "do it".to_owned(),
        repository_paths: vec![],
        max_parallel_tasks: 1,
        auto_create_workspaces: false,
        config: serde_json::Map::new(),
    };
    Submission::new(Caller::asserted("a"), CreateRun { id: id.into(), brief })
}

/// Sets a run plan of named tasks with their dependencies.
pub(crate) fn plan(run: &str, tasks: &[(&str, &[&str])]) -> Submission {
    let planned = |(name, depends_on): &(&str, &[&str])| PlannedTask {
        id: TaskId::new(format!("tk_{name}")),
        title: (*name).to_owned(),
        description: String::new(),
        resources: vec![],
        depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
        context_from: vec![],
        details: Details::default(),
    };
    let tasks = tasks.iter().map(planned).collect();
    Submission::new(Caller::asserted("a"), SetRunPlan { run: run.into(), summary: "the plan".to_owned(), tasks })
}

pub(crate) fn create_task(id: &str, title: &str) -> Submission {
    Submission::new(Caller::anonymous(), new_task(id, title))
}

pub(crate) fn new_task(id: &str, title: &str) -> CreateTask {
    CreateTask {
        id: TaskId::from(id),
        run: RunId::project_default(),
        title: title.to_owned(),
        description: String::new(),
        assigned_by: "anna".to_owned(),
        assigned_to: None,
        resources: vec![],
        depends_on: vec![],
    }
}

pub(crate) fn claim_task(id: &str, agent: &str) -> Submission {
    Submission::new(Caller::asserted(agent), ClaimTask { task: id.into(), agent: agent.into() })
}

pub(crate) fn claim_file(path: &str, agent: &str) -> Submission {
    let path = FilePath::parse(path, Case::Kept).unwrap();
    let claim = ClaimFile {
        path,
        agent: agent.into(),
        task: None,
        hash: "h".to_owned(),
        site: None,
        insist: ClaimMode::Request,
    };
    Submission::new(Caller::asserted(agent), claim)
}

pub(crate) fn report(agent: &str, action: &str) -> Submission {
    let report = Report {
        agent: agent.into(),
        action: action.to_owned(),
        resource: None,
        task: None,
        before_hash: None,
        after_hash: None,
        metadata: Default::default(),
    };
    Submission::new(Caller::asserted(agent), report)
}

pub(crate) fn with_body(mut submission: Submission, bytes: &[u8]) -> Submission {
    submission.body = Some(Body { sha256: sha256_hex(bytes), bytes: BodyBytes::Here(bytes.to_vec()) });
    submission
}

pub(crate) fn with_key(mut submission: Submission, key: &str, hash: &str) -> Submission {
    let (scope, key, hash) = ("run_default/x".to_owned(), key.to_owned(), hash.to_owned());
    submission.idempotency = Some(Idempotency { scope, key, hash, keep_until: 1_000 });
    submission
}

/// Submits a command that must succeed.
pub(crate) async fn submit_ok(store: &dyn Store, submission: Submission) -> Committed {
    store.submit(submission).await.unwrap()
}

pub(crate) async fn submit_rejected(store: &dyn Store, submission: Submission) -> rookery_core::Code {
    match store.submit(submission).await {
        Err(SubmitError::Refused(refusal)) => refusal.code,
        other => panic!("expected a rejection, got {other:?}"),
    }
}

pub(crate) fn node(id: &str) -> Node {
    Node {
        id: id.into(),
        host: "here".to_owned(),
        pid: 1,
        url: Some("http://127.0.0.1:1".to_owned()),
        version: "1.0.0".to_owned(),
        site: Site { id: format!("site_{id}").as_str().into(), root: "/work".to_owned() },
        started_at: Timestamp(1),
    }
}
