//! Submitting commands and waiting for their effects.

use rookery_core::agent::{AgentStatus, Join, LeaveTeam, RegisterAgent, SetAgentStatus, UpdateProfile};
use rookery_core::message::{AckMessages, ReadMessages, ReleaseHeld, SendMessage, StormGuard};
use rookery_core::team::{AnnounceToTeam, EndTeam, KickOff, StartTeam};
use rookery_core::turn::{EndTurn, StartTurn};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rookery_core::clutch::SigningPolicy;
use rookery_core::log::{Body, BodyBytes};
use rookery_core::model::{LifeSource, Presence};
use rookery_core::task::{MAX_ATTEMPTS, RETRY_BACKOFF_MILLIS};
use rookery_core::{
    AgentId, AnyCommand, Authority, Caller, Code, HandoffId, IntentId, Key, Rejection, Row, SiteId, TaskId,
};
use rookery_store::artifact::{ArtifactError, ArtifactHold, Erased};
use rookery_store::{
    AnyReply, Clock, Committed, Idempotency, Node, PresenceBoard, ReadError, Store, Submission, SubmitError,
};
use sha2::{Digest, Sha256};

use crate::access::Access;
use crate::adapter::Outlet;
use crate::ambient::Ids;
use crate::attendance::Cluster;
use crate::clutch::rates::Rates;
use crate::clutch::rejections::Rejections;
use crate::clutch::{DeliveryPolicy, Schemas};
use crate::handed::AttemptLog;
use crate::hooks::Hook;
use crate::intents::InHand;
use crate::life::{Roster, RosterState};
use crate::notices::WakeHub;
use crate::paths::Paths;
use crate::shown::Shown;
use crate::teams::TeamStarter;
use crate::unread::Counts;

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
    pub settings: Settings,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub project: String,
    pub root: PathBuf,
    /// Bubblewrap, where it can make sandboxes: git on agents' files runs in one.
    pub bwrap: Option<PathBuf>,
    pub heartbeat_interval: Duration,
    /// How long an agent that sends heartbeats may be silent.
    pub offline_after: Duration,
    /// How long an agent that is seen only by its calls may be silent.
    pub silent_after: Duration,
    pub process_after: Duration,
    pub connection_after: Duration,
    pub escalate_conflicts_after: Duration,
    /// How long the answers to requests with an idempotency key are kept.
    pub remember_replies: Duration,
    /// What one sender may send, and how long a chain of messages may get.
    pub storm_guard: StormGuard,
    /// What one sender may send beside chat, and beside what accepts, ends or answers work.
    pub envelopes_per_minute: u32,
    /// How long an agent has to accept a task that the router gave it.
    pub accept_timeout: Duration,
    /// How often a task is tried whose request does not say so.
    pub max_attempts: u32,
    /// The pause before the second attempt; each further one is twice as long.
    pub retry_backoff: Duration,
    /// Which envelopes must be signed.
    pub signatures: SigningPolicy,
    /// Where others may POST to.
    pub hooks: Vec<Hook>,
    /// Adapters that the log is passed on to.
    pub outlets: Vec<Outlet>,
    /// How long an artifact is kept that nothing names.
    pub keep_artifacts: Duration,
    /// How hard it is tried to deliver messages to endpoints.
    pub effort: DeliveryPolicy,
    /// What starts workflow files, where there is something that can.
    pub launcher: Option<Arc<dyn TeamStarter>>,
    /// The program whose command `check-payloads` runs [`crate::clutch::serve_checks`]. Without one, payloads are checked in
    /// this process and nothing bounds the work.
    pub schema_checker: Option<PathBuf>,
    /// Whether other nodes can share the store, each with the project's files in a folder of its own.
    pub shared: bool,
}

/// What one sender sends in a minute, or at once, unless another rate is set: several batches as large as they may be.
const ENVELOPES_PER_MINUTE: u32 = 6_000;

impl Settings {
    pub fn new(project: impl Into<String>, root: impl Into<PathBuf>) -> Settings {
        Settings {
            project: project.into(),
            root: root.into(),
            bwrap: None,
            heartbeat_interval: Duration::from_secs(30),
            offline_after: Duration::from_secs(60),
            silent_after: Duration::from_secs(30 * 60),
            process_after: Duration::from_secs(90),
            connection_after: Duration::from_secs(60),
            escalate_conflicts_after: Duration::from_secs(10 * 60),
            remember_replies: Duration::from_secs(7 * 24 * 3600),
            storm_guard: StormGuard::default(),
            envelopes_per_minute: ENVELOPES_PER_MINUTE,
            accept_timeout: Duration::from_secs(30),
            max_attempts: MAX_ATTEMPTS,
            retry_backoff: Duration::from_millis(RETRY_BACKOFF_MILLIS),
            signatures: SigningPolicy::default(),
            hooks: vec![],
            outlets: vec![],
            keep_artifacts: Duration::from_secs(24 * 3600),
            effort: DeliveryPolicy::default(),
            launcher: None,
            schema_checker: None,
            shared: false,
        }
    }
}

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

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

impl From<Rejection> for EngineError {
    fn from(refusal: Rejection) -> EngineError {
        EngineError::Submit(SubmitError::Refused(refusal))
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
        f.debug_struct("Engine").field("project", &self.inner.parts.settings.project).finish_non_exhaustive()
    }
}

impl Engine {
    pub fn new(parts: Parts) -> Engine {
        let paths = Paths::new(&parts.settings.root);
        let attending = Cluster::new(parts.node.clone());
        let schemas = Schemas::new(parts.settings.schema_checker.clone());
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
        self.hold_outcome(&mut request.command).await?;
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
            self.let_go(held).await;
        }
        outcome
    }

    /// Ends a hold, and the artifact with it if nothing names it.
    pub(crate) async fn let_go(&self, held: ArtifactHold) {
        let sha256 = held.sha256.clone();
        if let Err(error) = self.store().release_hold(held).await {
            tracing::warn!(%error, sha256, "the body of a request that came to nothing was not removed");
        }
    }

    /// Removes an artifact that no row of the log names any more; why it is still there, if it is and should not be.
    pub(crate) async fn erase_unused(&self, sha256: &str) -> Result<Erased, EngineError> {
        Ok(self.store().erase_artifact(sha256.to_owned()).await?)
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
            self.record_presence(&caller, agent, LifeSource::Call)?;
            if self.inner.roster.is_offline(agent) && !request.command.settles_membership() {
                self.comes_back_unless_left(agent, &caller).await?;
            }
        }
        let command = request.command.clone();
        let submission = Submission { body, received_bytes: received, ..self.admit(request) };
        let committed = match (self.store().submit(submission.clone()).await, caller.itself()) {
            // Declared offline a moment ago: the roster did not know yet.
            (Err(SubmitError::Refused(refusal)), Some(agent)) if refusal.code == Code::AgentOffline => {
                self.comes_back_unless_left(agent, &caller).await?;
                self.store().submit(submission).await?
            }
            (outcome, _) => outcome?,
        };
        // A remembered answer is no news: the agent may have left since.
        if !committed.duplicate {
            self.learn(&caller, &command, &committed);
        }
        Ok(committed)
    }

    /// Takes note of who is here and what waits at once, so that the next call finds it so; the log will tell the same.
    fn learn(&self, caller: &Caller, command: &AnyCommand, committed: &Committed) {
        let (roster, at) = (&self.inner.roster, committed.at);
        let row = if let AnyReply::Row(_, row) = &committed.answer { Some(&row.0) } else { None };
        match row {
            Some(Row::Agent(agent)) if makes_agents_known(command) => {
                roster.learn(agent, at);
                // What is committed is answered: a seal that came in between is the next call's matter.
                self.record_presence(caller, &agent.id, LifeSource::Call).ok();
            }
            Some(Row::Team(team)) if command.get::<StartTeam>().is_some() || command.get::<EndTeam>().is_some() => {
                self.access().team_sessions().learn(team, at);
            }
            Some(Row::Message(message))
                if command.get::<SendMessage>().is_some() || command.get::<ReleaseHeld>().is_some() =>
            {
                self.counts().sent(&message.letter.header);
            }
            _ => {}
        }
        if let Some(set) = command.get::<SetAgentStatus>() {
            let is_offline = set.status == AgentStatus::Offline;
            roster.moved(&set.agent, if is_offline { RosterState::Offline } else { RosterState::Here }, at);
        } else if let Some(leave) = command.get::<LeaveTeam>() {
            roster.moved(&leave.agent, RosterState::Left, at);
        } else if let Some(read) = command.get::<ReadMessages>() {
            self.counts().changed([&read.agent]);
        } else if let Some(ack) = command.get::<AckMessages>() {
            self.counts().changed([&ack.agent]);
        } else if let Some(turn) = command.get::<StartTurn>() {
            self.counts().changed([&turn.agent]);
        } else if command.get::<KickOff>().is_some()
            || command.get::<AnnounceToTeam>().is_some()
            || command.get::<EndTurn>().is_some()
        {
            self.counts().all_changed();
        }
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
        let keep = u64::try_from(self.settings().remember_replies.as_millis()).unwrap_or(u64::MAX);
        self.clock().now().plus_millis(keep).0
    }

    /// A sign of life, and the only door to presence. An id that is bound to a credential needs that credential; nobody
    /// shows life for somebody else, an observer for nobody, and strangers leave no trace.
    pub fn record_presence(&self, caller: &Caller, agent: &AgentId, source: LifeSource) -> Result<(), Rejection> {
        let roster = &self.inner.roster;
        if !caller.is_proven() && caller.actor.agent() == Some(agent) && roster.is_sealed(agent) {
            return Err(Rejection::sealed(agent));
        }
        if caller.itself() == Some(agent) && roster.knows(agent) {
            self.inner.parts.board.saw(agent, Presence { last_seen: self.clock().now(), source });
        }
        Ok(())
    }

    /// A call that only reads. It is a sign of life like any other, and one by an agent that was declared offline brings
    /// it back.
    pub async fn touch(&self, caller: &Caller) -> Result<(), EngineError> {
        let Some(agent) = caller.actor.agent() else { return Ok(()) };
        self.record_presence(caller, agent, LifeSource::Call)?;
        if caller.itself().is_none() || !self.inner.roster.is_offline(agent) {
            return Ok(());
        }
        match self.comes_back_unless_left(agent, caller).await {
            Err(EngineError::Submit(SubmitError::Refused(refusal))) => Err(refusal.into()),
            Err(error) => {
                // Whoever asks is answered also while nothing can be written; the next call brings it back.
                tracing::debug!(%agent, %error, "an agent that reads could not be brought back");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// A declared heartbeat. That of a live agent waits for nothing, neither for the queue nor for the store.
    pub async fn heartbeat(&self, caller: &Caller, agent: &AgentId) -> Result<(), EngineError> {
        if caller.power == Authority::Observer {
            return Err(Rejection::new(Code::Forbidden, "an observer may only read").into());
        }
        if !self.inner.roster.knows(agent) {
            self.look_up(agent).await?;
        }
        let own = caller.itself() == Some(agent);
        self.record_presence(caller, agent, LifeSource::Heartbeat)?;
        // One that brings its agent back, or comes from somebody else, is decided where every command is.
        if !own || !self.inner.roster.is_here(agent) {
            self.return_agent(agent, caller).await?;
            self.record_presence(caller, agent, LifeSource::Heartbeat)?;
        }
        Ok(())
    }

    pub(crate) async fn look_up(&self, agent: &AgentId) -> Result<(), EngineError> {
        let found = self.agent(agent).await?;
        let Some(known) = found.value else {
            let unknown = Rejection::new(Code::AgentNotFound, "Agent not found");
            return Err(unknown.hint("register the agent first").into());
        };
        self.inner.roster.learn(&known, found.head.head);
        Ok(())
    }

    /// Brings an agent back on the credentials of its call, so that nobody does it in its name.
    pub(crate) async fn return_agent(&self, agent: &AgentId, caller: &Caller) -> Result<(), EngineError> {
        let caller = Caller { fence: None, ..caller.clone() };
        let command = rookery_core::agent::ReturnAgent { agent: agent.clone() };
        let committed = self.store().submit(Submission::new(caller, command)).await?;
        self.inner.roster.moved(agent, RosterState::Here, committed.at);
        Ok(())
    }

    /// As [`Engine::return_agent`]. One that left a moment ago does not, and its call is judged as any other by one that is
    /// not here.
    async fn comes_back_unless_left(&self, agent: &AgentId, caller: &Caller) -> Result<(), EngineError> {
        match self.return_agent(agent, caller).await {
            Err(EngineError::Submit(SubmitError::Refused(refusal))) if refusal.code == Code::AgentNotFound => Ok(()),
            outcome => outcome,
        }
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

    pub fn access(&self) -> &Access {
        &self.inner.parts.access
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.parts.settings
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.parts.clock
    }

    pub fn board(&self) -> &Arc<PresenceBoard> {
        &self.inner.parts.board
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.parts.store
    }

    /// This node, its duties, and who else is here.
    pub fn attending(&self) -> &Cluster {
        &self.inner.attending
    }

    /// The site that this node serves; `None` where there can be no other.
    pub fn site(&self) -> Option<SiteId> {
        self.settings().shared.then(|| self.attending().node().site.id.clone())
    }

    /// Wake-ups for the agents that are connected to this node.
    pub fn notices(&self) -> &WakeHub {
        &self.inner.notices
    }

    /// Whether an agent is on the team as far as this node has heard: no rule may rest on it.
    pub fn knows(&self, agent: &AgentId) -> bool {
        self.inner.roster.knows(agent)
    }

    /// How deliveries go, as far as this node knows.
    pub fn handed(&self) -> &AttemptLog {
        &self.inner.handed
    }

    pub(crate) fn is_sealed(&self, agent: &AgentId) -> bool {
        self.inner.roster.is_sealed(agent)
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

/// Whether the answer to a command is the agent that it made known.
fn makes_agents_known(command: &AnyCommand) -> bool {
    command.get::<RegisterAgent>().is_some()
        || command.get::<Join>().is_some()
        || command.get::<UpdateProfile>().is_some()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
