//! Submitting commands and waiting for their effects.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::kernel::hex::hex;
use rookery_core::model::LifeSource;
use rookery_core::traits::{Body, BodyBytes};
use rookery_core::{AgentId, AnyCommand, AnyEvent, Caller, Code, HandoffId, IntentId, Key, Seq, TaskId};
use rookery_store::store::Health;
use rookery_store::{Clock, Committed, Idempotency, Node, PresenceBoard, Store, Submission, SubmitError};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::credentials::Access;
use crate::error::EngineError;
use crate::paths::Paths;
use crate::ports::Ids;
use crate::projections::last_shown::Shown;
use crate::projections::roster::Roster;
use crate::projections::unread::Counts;
use crate::schemas::Schemas;
use crate::settings::Settings;
use crate::state::cluster::Cluster;
use crate::state::delivery_attempts::AttemptLog;
use crate::state::effects::InHand;
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

/// A command as a surface hands it over.
#[derive(Clone, Debug)]
pub struct Request {
    pub caller: Caller,
    pub command: AnyCommand,
    pub idempotency: Option<IdempotencyKey>,
    /// The request's body as received.
    pub body: Option<Vec<u8>>,
}

/// A key the caller chose, and what tells one request from another: its method, path and body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdempotencyKey {
    pub key: String,
    pub fingerprint: String,
}

impl Request {
    pub fn new(caller: Caller, command: impl Into<AnyCommand>) -> Request {
        Request { caller, command: command.into(), idempotency: None, body: None }
    }
}

/// What became of a command with effects.
#[derive(Clone, PartialEq, Debug)]
pub enum Waited {
    Done(Committed),
    /// The command is committed; these effects were still open at the deadline.
    Pending(Committed, Vec<IntentId>),
}

#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) parts: Parts,
    pub(crate) paths: Paths,
    pub(crate) roster: Roster,
    pub(crate) attending: Cluster,
    pub(crate) shown: Shown,
    pub(crate) notices: WakeHub,
    pub(crate) counts: Counts,
    pub(crate) handed: AttemptLog,
    pub(crate) in_hand: InHand,
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
        let attending = Cluster::new(parts.node.clone());
        let schemas = Schemas::new(parts.config.schema_checker.clone());
        Engine {
            inner: Arc::new(Inner {
                parts,
                paths,
                roster: Roster::default(),
                attending,
                shown: Shown::default(),
                notices: WakeHub::default(),
                counts: Counts::default(),
                handed: AttemptLog::default(),
                in_hand: InHand::default(),
                rejections: Rejections::default(),
                rates: Rates::default(),
                schemas,
            }),
        }
    }

    /// Decides a command. The answer comes after its commit is durable.
    pub async fn submit(&self, mut request: Request) -> Result<Committed, EngineError> {
        self.check_new_names(&request.command).await?;
        self.contracts().check_outcome(&mut request.command).await?;
        match &request.body {
            Some(bytes) if bytes.len() > BODY_IN_ROW_BYTES => {
                // Goes on to its end even if nobody waits any more, so that its file is looked after.
                let engine = self.clone();
                let submitted = tokio::spawn(async move { engine.submit_large(request).await }).await;
                let lost = |error| SubmitError::OutcomeUnknown { reason: format!("the request ended early: {error}") };
                submitted.map_err(lost)?
            }
            Some(bytes) if !bytes.is_empty() => {
                let received = bytes.len();
                let body = request
                    .body
                    .take()
                    .map(|bytes| Body { sha256: hex(&Sha256::digest(&bytes)), bytes: BodyBytes::Here(bytes) });
                self.submit_part(request, body, received).await
            }
            _ => self.submit_part(request, None, 0).await,
        }
    }

    /// A command whose body is kept as an artifact: nobody erases it while the command that names it is on its way, and a
    /// command that came to nothing leaves none behind.
    async fn submit_large(&self, mut request: Request) -> Result<Committed, EngineError> {
        let bytes = request.body.take().unwrap_or_default();
        let received = bytes.len();
        let held = self.store().put_artifact(bytes).await?;
        let body = Body { sha256: held.sha256.clone(), bytes: BodyBytes::Artifact };
        let outcome = self.submit_part(request, Some(body), received).await;
        // A commit of unknown outcome may still turn out to name it.
        if !matches!(outcome, Err(EngineError::Submit(SubmitError::OutcomeUnknown { .. }))) {
            self.artifacts().release_hold(held).await;
        }
        outcome
    }

    async fn submit_part(
        &self,
        request: Request,
        body: Option<Body>,
        received: usize,
    ) -> Result<Committed, EngineError> {
        let caller = request.caller.clone();
        // Whoever calls lives now, however long its command will wait and whatever it will come to.
        if let Some(agent) = caller.itself() {
            self.liveness().record_presence(&caller, agent, LifeSource::Call)?;
            if self.inner.roster.is_offline(agent) && !request.command.settles_membership() {
                self.liveness().return_unless_left(agent, &caller).await?;
            }
        }
        let newcomer = caller.itself().filter(|agent| !self.roster().knows(agent));
        let submission = Submission { body, received_bytes: received, ..self.admit(request) };
        let committed = match (self.commit(submission.clone()).await, caller.itself()) {
            // Declared offline a moment ago: the roster did not know yet.
            (Err(SubmitError::Refused(refusal)), Some(agent)) if refusal.code == Code::AgentOffline => {
                self.liveness().return_unless_left(agent, &caller).await?;
                self.commit(submission).await?
            }
            (outcome, _) => outcome?,
        };
        if let Some(agent) = newcomer {
            self.liveness().record_newcomer(&caller, agent);
        }
        Ok(committed)
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
        self.access().team_sessions().follow(seq, event);
    }

    /// Submits and waits until the named effects are done or the deadline is over.
    pub async fn submit_and_wait(
        &self,
        request: Request,
        intents: Vec<IntentId>,
        deadline: Duration,
    ) -> Result<Waited, EngineError> {
        let mut published = self.store().published();
        let committed = self.submit(request).await?;
        let mut open = intents;
        let waiting = async {
            while !open.is_empty() {
                match published.recv().await {
                    Ok(batch) => {
                        open.retain(|intent| !batch.rows().iter().any(|row| row.event.closes_intent() == Some(intent)))
                    }
                    Err(_) => open = self.still_open(&open).await?,
                }
            }
            Ok::<(), EngineError>(())
        };
        match tokio::time::timeout(deadline, waiting).await {
            Ok(Ok(())) => Ok(Waited::Done(committed)),
            // What is committed is answered, even if nobody can tell what became of its effects.
            Ok(Err(_)) | Err(_) => Ok(Waited::Pending(committed, open)),
        }
    }

    async fn still_open(&self, intents: &[IntentId]) -> Result<Vec<IntentId>, EngineError> {
        let keys = intents.iter().map(|intent| Key::Intent(intent.clone())).collect();
        let (rows, _) = self.store().rows(keys).await?;
        Ok(intents.iter().zip(rows).filter(|(_, row)| row.is_some()).map(|(intent, _)| intent.clone()).collect())
    }

    /// Completes a request with what it needs to be decided the same way however often it is run.
    fn admit(&self, request: Request) -> Submission {
        let mut submission = Submission::new(request.caller, request.command);
        let sender = submission.caller.actor.to_string();
        submission.idempotency = request.idempotency.map(|idempotency| Idempotency {
            scope: format!("run_default {sender}"),
            key: idempotency.key,
            hash: hex(&Sha256::digest(idempotency.fingerprint)),
            keep_until: self.replies_are_kept_until(),
        });
        submission
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
        &self.inner.attending
    }

    pub(crate) fn is_sealed(&self, agent: &AgentId) -> bool {
        self.inner.roster.is_sealed(agent)
    }

    pub(crate) fn wake_hub(&self) -> &WakeHub {
        &self.inner.notices
    }

    pub(crate) fn attempt_log(&self) -> &AttemptLog {
        &self.inner.handed
    }

    pub(crate) fn in_hand(&self) -> &InHand {
        &self.inner.in_hand
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    pub(crate) fn schemas_here(&self) -> &Schemas {
        &self.inner.schemas
    }

    pub(crate) fn shown(&self) -> &Shown {
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
