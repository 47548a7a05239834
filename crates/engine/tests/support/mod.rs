//! Parts of the engine's tests: a node, an engine over a store in memory, a profile.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::Timestamp;
use rookery_core::model::agent::{AgentRole, Profile};
use rookery_engine::credentials::Trust;
use rookery_engine::{Access, Config, Engine, Parts, RandomIds};
use rookery_store::memory::{Database, MemoryStore};
use rookery_store::{Clock, Node, PresenceBoard, Site, Store};

/// Longer than any machine needs; only a failing test waits for it.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub fn node(name: &str, root: &Path) -> Node {
    Node {
        id: format!("node_{name}").as_str().into(),
        host: name.to_owned(),
        pid: 1,
        url: None,
        version: "1.0.0".to_owned(),
        site: Site { id: format!("site_{name}").as_str().into(), root: root.to_string_lossy().into_owned() },
        started_at: Timestamp(0),
    }
}

/// The engine of a node over a database that others may share.
pub fn engine(database: &Database, clock: Arc<dyn Clock>, node: Node, config: Config) -> Engine {
    engine_over(database, clock, node, config, |memory| Arc::new(memory))
}

/// The engine of a node, with a wrapper around its store.
pub fn engine_over(
    database: &Database,
    clock: Arc<dyn Clock>,
    node: Node,
    config: Config,
    around: impl FnOnce(MemoryStore) -> Arc<dyn Store>,
) -> Engine {
    let board = Arc::new(PresenceBoard::default());
    let memory = MemoryStore::new(database.clone(), clock.clone(), board.clone()).of(node.id.clone());
    let (ids, access) = (Arc::new(RandomIds), Access::new(Trust::Local, None));
    Engine::new(Parts { store: around(memory), clock, ids, board, access, node, config })
}

pub fn worker() -> Profile {
    Profile {
        tool: "test".into(),
        role: AgentRole::Worker,
        capabilities: vec![],
        name: None,
        workspace_path: None,
        metadata: serde_json::Map::new(),
        card: None,
        role_name: None,
        session_id: None,
    }
}
