//! The command that all parts measure: an agent creates a task.

use std::path::Path;
use std::sync::Arc;

use rookery_core::agents::RegisterAgent;
use rookery_core::model::agent::{AgentRole, Profile};
use rookery_core::tasks::CreateTask;
use rookery_core::traits::{Body, BodyBytes};
use rookery_core::{Caller, LogId, RunId, TaskId};
use rookery_engine::{Ids, RandomIds, SystemClock};
use rookery_store::postgres::{self, Birth, PostgresStore};
use rookery_store::queue::Limits;
use rookery_store::sqlite::{Options, SqliteStore};
use rookery_store::{PresenceBoard, Store, Submission};
use sha2::{Digest, Sha256};

const TITLE: &str = "Give the importer a dry run";
const DESCRIPTION: &str = "The importer writes while it reads. Add a dry run that goes through the same steps and \
    only says what it would do: which rows it would add, which it would change, and which it cannot read, with the \
    line of each. Keep the summary below the first screen, exit with 2 if anything cannot be read, and cover the \
    three cases with tests beside those of the parser. The flag is described in the reference, and the changelog \
    has a line for it.";
const RESOURCE: &str = "src/import/";

pub(crate) fn agent(at: usize) -> String {
    format!("bench-{at}")
}

pub(crate) fn mint() -> TaskId {
    TaskId::new(RandomIds.mint("task_"))
}

/// The body of the request.
pub(crate) fn body(agent: &str) -> String {
    serde_json::json!({
        "title": TITLE, "description": DESCRIPTION, "assigned_by": agent, "resources": [RESOURCE],
    })
    .to_string()
}

/// The same request as a submission to the store.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    caller: Caller,
    agent: String,
    body: Body,
}

impl Order {
    pub(crate) fn by(at: usize) -> Order {
        let agent = agent(at);
        let bytes = body(&agent).into_bytes();
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Order { caller: Caller::asserted(agent.as_str()), agent, body: Body { sha256, bytes: BodyBytes::Here(bytes) } }
    }

    pub(crate) fn create(&self, id: TaskId) -> Submission {
        let command = CreateTask {
            id,
            run: RunId::project_default(),
            title: TITLE.to_owned(),
            description: DESCRIPTION.to_owned(),
            assigned_by: self.agent.clone(),
            assigned_to: None,
            resources: vec![RESOURCE.to_owned()],
            depends_on: vec![],
        };
        Submission { body: Some(self.body.clone()), ..Submission::new(self.caller.clone(), command) }
    }
}

/// Opens an SQLite store as the daemon does.
pub(crate) fn open(path: &Path) -> anyhow::Result<SqliteStore> {
    let clock = Arc::new(SystemClock::default());
    let board = Arc::new(PresenceBoard::default());
    Ok(SqliteStore::open(Options::new(path, LogId::new(RandomIds.mint("log_")), clock, board))?)
}

/// Opens a PostgreSQL store as the daemon does.
pub(crate) async fn open_postgres(url: &str) -> anyhow::Result<PostgresStore> {
    let options = postgres::Options {
        address: url.parse()?,
        clock: Arc::new(SystemClock::default()),
        board: Arc::new(PresenceBoard::default()),
        limits: Limits::default(),
        birth: Birth {
            log_id: LogId::new(RandomIds.mint("log_")),
            project_id: "bench".to_owned(),
            project: "bench".to_owned(),
        },
        node: RandomIds.mint("node_").as_str().into(),
        connections: 8,
    };
    Ok(PostgresStore::open(options).await?)
}

/// Replaces a text in some bytes by another one of the same length.
pub(crate) fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(at) = bytes.windows(old.len()).position(|window| window == old) {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    bytes
}

/// Registers as many agents as there are clients.
pub(crate) async fn announce(store: &dyn Store, agents: usize) -> anyhow::Result<()> {
    for at in 0..agents {
        let id = agent(at);
        let profile = Profile {
            tool: "bench".to_owned(),
            role: AgentRole::Worker,
            capabilities: vec![],
            name: None,
            workspace_path: None,
            metadata: serde_json::Map::new(),
            card: None,
            role_name: None,
            session_id: None,
        };
        let register = RegisterAgent::with_profile(id.as_str().into(), profile);
        store.submit(Submission::new(Caller::asserted(id.as_str()), register)).await?;
    }
    Ok(())
}
