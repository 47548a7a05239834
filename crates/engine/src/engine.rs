//! What one node needs to decide commands: the store, the settings, and the state that it keeps in memory.
//!
//! [`Engine::commit`] is the lowest entry point. Surfaces submit with [`Engine::submit`] (`submit.rs`), which needs the
//! services that this file does not know: liveness, contracts, access and artifacts.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::{AnyEvent, HandoffId, IntentId, Seq, TaskId};
use rookery_store::store::Health;
use rookery_store::{Clock, Committed, Node, PresenceBoard, Store, Submission, SubmitError};

use crate::config::Config;
use crate::credentials::Access;
use crate::paths::Paths;
use crate::ports::Ids;
use crate::projections::last_shown::LastShown;
use crate::projections::roster::Roster;
use crate::projections::unread::Counts;
use crate::schemas::Schemas;
use crate::settings::Settings;
use crate::state::cluster::Cluster;
use crate::state::delivery_attempts::AttemptLog;
use crate::state::effects::EffectsInProgress;
use crate::state::rate_limit::Rates;
use crate::state::rejections::Rejections;
use crate::state::wake_hub::WakeHub;

/// Bodies above this are kept as files, not in the log's rows.
pub(crate) const BODY_IN_ROW_BYTES: usize = 64 * 1024;

/// What the engine is made of; the process that wires it chooses.
#[expect(missing_debug_implementations, reason = "a store shows nothing of itself")]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub board: Arc<PresenceBoard>,
    pub access: Access,
    /// What this process is among those that share the store.
    pub node: Node,
    pub config: Config,
}

/// How long the answers to requests with an idempotency key are kept.
const REMEMBER_REPLIES: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) parts: Parts,
    pub(crate) paths: Paths,
    pub(crate) roster: Roster,
    pub(crate) cluster: Cluster,
    pub(crate) shown: LastShown,
    pub(crate) wakes: WakeHub,
    pub(crate) counts: Counts,
    pub(crate) attempts: AttemptLog,
    pub(crate) effects_in_progress: EffectsInProgress,
    pub(crate) rejections: Rejections,
    pub(crate) rates: Rates,
    pub(crate) schemas: Schemas,
}

impl Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("project", &self.inner.parts.config.project).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(parts: Parts) -> Engine {
        let paths = Paths::new(&parts.config.root);
        let cluster = Cluster::new(parts.node.clone());
        let schemas = Schemas::new(parts.config.schema_checker.clone());
        Engine {
            inner: Arc::new(Inner {
                parts,
                paths,
                roster: Roster::default(),
                cluster,
                shown: LastShown::default(),
                wakes: WakeHub::default(),
                counts: Counts::default(),
                attempts: AttemptLog::default(),
                effects_in_progress: EffectsInProgress::default(),
                rejections: Rejections::default(),
                rates: Rates::default(),
                schemas,
            }),
        }
    }

    /// Submits to the store, and has what this node remembers of the log follow the events before they are answered: the
    /// next call finds its own writes.
    pub(crate) async fn commit(&self, submission: Submission) -> Result<Committed, SubmitError> {
        let committed = self.store().submit(submission).await?;
        for (seq, event) in committed.all_events() {
            self.follow(*seq, event);
            self.counts().note(event);
        }
        Ok(committed)
    }

    /// Brings the roster and the sessions of teams up to an event; one that they know already changes nothing.
    pub(crate) fn follow(&self, seq: Seq, event: &AnyEvent) {
        self.roster().follow(seq, event);
        self.credentials().team_sessions().follow(seq, event);
    }

    /// Until when the answer to a command with an idempotency key of now is remembered.
    pub(crate) fn replies_are_kept_until(&self) -> i64 {
        let keep = u64::try_from(REMEMBER_REPLIES.as_millis()).unwrap_or(u64::MAX);
        self.clock().now().plus_millis(keep).0
    }

    pub fn mint_task(&self) -> TaskId {
        TaskId::new(self.inner.parts.ids.mint("task_"))
    }

    pub fn mint_handoff(&self) -> HandoffId {
        HandoffId::new(self.inner.parts.ids.mint("hoff_"))
    }

    pub fn mint_intent(&self) -> IntentId {
        IntentId::new(self.inner.parts.ids.mint("int_"))
    }

    pub fn mint(&self, prefix: &str) -> String {
        self.inner.parts.ids.mint(prefix)
    }

    pub fn paths(&self) -> &Paths {
        &self.inner.paths
    }

    pub(crate) fn credentials(&self) -> &Access {
        &self.inner.parts.access
    }

    pub fn config(&self) -> &Config {
        &self.inner.parts.config
    }

    pub fn settings(&self) -> &Settings {
        &self.config().settings
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.parts.clock
    }

    pub fn board(&self) -> &Arc<PresenceBoard> {
        &self.inner.parts.board
    }

    /// Whether the store takes writes, and why not.
    pub fn health(&self) -> Health {
        self.store().health()
    }

    /// Stops accepting commands, finishes those that wait, and closes the store.
    pub async fn close(&self) {
        self.store().close().await;
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.inner.parts.store
    }

    pub(crate) fn cluster_state(&self) -> &Cluster {
        &self.inner.cluster
    }

    pub(crate) fn wake_hub(&self) -> &WakeHub {
        &self.inner.wakes
    }

    pub(crate) fn attempt_log(&self) -> &AttemptLog {
        &self.inner.attempts
    }

    pub(crate) fn effects_in_progress(&self) -> &EffectsInProgress {
        &self.inner.effects_in_progress
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    pub(crate) fn schemas_here(&self) -> &Schemas {
        &self.inner.schemas
    }

    pub(crate) fn shown(&self) -> &LastShown {
        &self.inner.shown
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.inner.rates
    }

    pub(crate) fn rejections(&self) -> &Rejections {
        &self.inner.rejections
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.inner.roster
    }
}
